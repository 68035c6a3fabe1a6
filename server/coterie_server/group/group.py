"""A group: its members, its offsets and its state.

The rules of the requests, in the modules beside this one, decide what happens to a group.  This
one keeps its parts consistent with each other, and answers what they ask of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_server.group.ledger import Ledger
from coterie_server.group.member import Member
from coterie_server.group.offset_table import OffsetTable
from coterie_server.group.records import (
    GroupRow,
    MemberRow,
    OperationsRow,
    Row,
    TopicSize,
)
from coterie_server.group.skipping import skipped_since
from coterie_server.group.states import TRANSITIONS, GroupState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie_protocol.operations import Operation
    from coterie_server.group.phases import InitialDelay, OngoingRebalance
    from coterie_server.group.records import SupportedProtocol
    from coterie_server.step import Request

__all__ = [
    "CONSUMER",
    "RENEWAL_BITS",
    "Group",
]

#: A token is the generation, and in the lower bits the renewals within it: more than could ever
#: be asked for.
RENEWAL_BITS: Final = 32

#: What has become of a topic, by whether it exists now.
_COME_OR_GONE = {True: "created", False: "deleted"}

#: The protocol type of groups whose embedded bytes the coordinator can read.
CONSUMER = "consumer"


class Group:
    """A group of consumers, or of anything else that shares work by Kafka's group protocol.

    What is stored of the group as a whole is its `row`, which is replaced when anything in it
    changes.  The rest is stored in rows of its own (members, offsets), or lives in memory only.
    """

    def __init__(
        self,
        group_id: str,
        *,
        generation: int = 0,
        timeline: int = 0,
        date_ms: int = 0,
        owner: str = "",
    ) -> None:
        self.id = group_id
        self.row = GroupRow(
            group_id=group_id,
            state=GroupState.EMPTY.value,
            generation=generation,
            timeline=timeline,
            changed_at_ms=date_ms,
            owner=owner,
        )
        self.state = GroupState.EMPTY
        #: In the order in which they came.
        self.members: dict[str, Member] = {}
        #: Static members by instance id.
        self.static: dict[str, str] = {}
        #: Members whose session is over and whose place is kept.
        self.away: set[str] = set()
        #: Ids handed out with MEMBER_ID_REQUIRED whose owners have not come back yet.
        self.pending_joins: set[str] = set()
        #: Members of this generation whose sync has not come yet.
        self.pending_syncs: set[str] = set()
        self.parked_joins = 0
        #: The first rebalance of an empty group waits for more members; None at all other times.
        self.initial_delay: InitialDelay | None = None
        self.rebalance: OngoingRebalance | None = None
        self.offsets = OffsetTable(group_id)
        self.ledger = Ledger()
        #: What administrators have ordered, in the order in which they did.
        self.operations: tuple[Operation, ...] = ()
        #: What became of topics, as told between the two phases of a rebalance.
        self.late_topics: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None

    @property
    def generation(self) -> int:
        """The number of the generation; it never goes back."""
        return self.row.generation

    @property
    def token(self) -> int:
        """The fencing token of what a member takes over now.

        It is higher than the token of any former owner: a partition changes hands with the
        generation, or when a member is let go on within it, which counts as a renewal.
        """
        return (self.row.generation << RENEWAL_BITS) + self.row.renewals

    @property
    def all_joined(self) -> bool:
        """Whether the first phase waits for no member any more.

        It does not wait for those that are away, unless there is no other one to lead.
        """
        if self.pending_joins or len(self.members) != self.parked_joins + len(self.away):
            return False
        return self.parked_joins > 0 or not self.members

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the most patient member lets a phase take."""
        return max(0, *(m.row.rebalance_timeout_ms for m in self.members.values()), 0)

    def asked_to_rejoin(self, member: Member) -> bool:
        """Whether the present generation has asked a member to join once more."""
        return member.row.asked_to_rejoin_in == self.row.generation

    def not_joined(self) -> list[Member]:
        """Members that the first phase still waits for."""
        return [m for m in self.members.values() if m.join is None and not m.is_away]

    # -- applying rows, live and in recovery ---------------------------------------------------

    def apply(self, row: Row) -> None:
        """Take over a row that is, or is about to be, on disk."""
        if isinstance(row, MemberRow):  # most are
            member = self.members.get(row.member_id)
            if member is None:
                self.add(Member(row, saved=row))
            else:
                member.row = member.saved = row
                if self.away or row.away_since_ms >= 0:
                    self._count_away(member)
        elif isinstance(row, GroupRow):
            self._apply_group(row)
        elif isinstance(row, OperationsRow):
            self.operations = row.operations
        else:
            self.offsets.restore(row)

    def _apply_group(self, row: GroupRow) -> None:
        self.state = GroupState(row.state)
        self.row = row

    def enter(self, state: GroupState, date_ms: int) -> None:
        """Move to another state, if `TRANSITIONS` has a way there."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group {self.id}: {self.state.value} -> {state.value}")
        self.state = state
        self.row = replace(self.row, state=state.value, changed_at_ms=date_ms)

    def begin_generation(self, timeline: int) -> None:
        """Begin the next generation; its row is stored before a member is told of it.

        If the database has begun another timeline since the last one, later ones may be lost, and
        their members still at work: none of their numbers may come again.
        """
        highest = (self.token >> RENEWAL_BITS) + skipped_since(self.row.timeline, timeline)
        self.row = replace(self.row, generation=highest + 1, renewals=0, timeline=timeline)

    def renew(self, timeline: int) -> None:
        """Let a member begin anew in this generation, with higher tokens than any in it so far.

        As with a generation, the row is stored before the member is told, and what may be lost
        does not come again: a renewal can skip generations, too.
        """
        skipped = skipped_since(self.row.timeline, timeline)
        renewals = self.row.renewals + (skipped << RENEWAL_BITS) + 1
        self.row = replace(self.row, renewals=renewals, timeline=timeline)

    # -- members -------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Take in a member."""
        if not self.members and self.row.protocol_type is None:
            raise AssertionError("a member came before the group's protocol type")
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self._count(member, 1)
        if member.is_away:
            self.away.add(member.id)
        self.parked_joins += member.join is not None
        self.pending_joins.discard(member.id)

    def remove(self, member_id: str) -> Member | None:
        """Let a member go; if it led, the member that has been here longest leads."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        self.away.discard(member_id)
        self.parked_joins -= member.join is not None
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.row.leader == member_id:
            self.row = replace(self.row, leader=next(iter(self.members), None))
        return member

    def park_join(self, member: Member, join: Request | None, now_ms: int = 0) -> Request | None:
        """Put a member's join aside, or take it back with None; the one that was there before."""
        before, member.join, member.joined_at_ms = member.join, join, now_ms
        self.parked_joins += (join is not None) - (before is not None)
        return before

    def update_protocols(
        self, member: Member, protocols: tuple[SupportedProtocol, ...], **terms: int
    ) -> None:
        """Take over what a member says of itself when it joins again."""
        self._count(member, -1)
        member.change(protocols=protocols, **terms)
        self._count(member, 1)

    def replace_static(self, old: Member, member_id: str) -> Member:
        """Give the place of a static member, with all that belongs to it, to a new member id."""
        new = Member(replace(old.row, member_id=member_id))
        members = {}
        for known in self.members.values():
            entry = new if known is old else known
            members[entry.id] = entry
        self.members = members
        self.away.discard(old.id)
        self._count_away(new)
        self.parked_joins -= old.join is not None
        self.pending_syncs.discard(old.id)
        if old.instance_id is not None:
            self.static[old.instance_id] = member_id
        if self.row.leader == old.id:
            self.row = replace(self.row, leader=member_id)
        return new

    def note_absence(self, member: Member, since_ms: int) -> MemberRow | None:
        """Note since when a member is away, or with -1 that it is there; its row, to be stored.

        Nothing else of it is stored that has changed since its row was: that comes with the next
        generation.
        """
        member.change(away_since_ms=since_ms)
        self._count_away(member)
        if member.saved is not None:
            member.saved = replace(member.saved, away_since_ms=since_ms)
        return member.saved

    def _count_away(self, member: Member) -> None:
        if member.is_away:
            self.away.add(member.id)
        else:
            self.away.discard(member.id)

    def move_last(self, member: Member) -> None:
        """Make a member the last one to be chosen as leader."""
        self.members[member.id] = self.members.pop(member.id)
        if self.row.leader == member.id:
            self.row = replace(self.row, leader=next(iter(self.members)))

    def elect(self) -> bool:
        """Have one lead that has joined, and follows what is ordered; False if none has joined."""
        joined = [m for m in self.members.values() if m.join is not None]
        able = [m for m in joined if m.row.follows_operations] if self.operations else []
        candidates = [member.id for member in able or joined]
        if candidates and self.row.leader not in candidates:
            self.row = replace(self.row, leader=candidates[0])
        return bool(candidates)

    # -- protocols -----------------------------------------------------------------------------

    def _count(self, member: Member, by: int) -> None:
        for protocol in member.row.protocols:
            count = self._supporters[protocol.name] = self._supporters[protocol.name] + by
            if not count:
                del self._supporters[protocol.name]

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether a member with these protocols could be in the group."""
        if self.state is GroupState.EMPTY or not self.members:
            return bool(protocol_type and names)
        supporters = map(self._supporters.__getitem__, names)
        return protocol_type == self.row.protocol_type and len(self.members) in supporters

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members can follow.

        In a tie the leader's preference decides, so that the choice is not left to chance.
        """
        all_members = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == all_members}
        if len(candidates) == 1:
            return candidates.pop()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        leader = self.members.get(self.row.leader or "") or next(iter(self.members.values()))
        return leader.vote({name for name, count in votes.items() if count == most})

    # -- topics --------------------------------------------------------------------------------

    def topics(self) -> frozenset[str] | None:
        """The topics that the generation subscribes to; None if its members' bytes can't be read.

        While members join anew, it is still the last generation's topics that are in use.
        """
        return self._topics if self.row.protocol_type == CONSUMER else None

    def note_topics(self) -> None:
        """Read anew what the members subscribe to, as a generation begins."""
        self._topics = self._read_topics() if self.row.protocol_type == CONSUMER else None

    def note_sizes(self, partitions: Mapping[str, int]) -> None:
        """Remember how large its topics are as a generation forms."""
        sizes = (
            TopicSize(name=name, partitions=partitions.get(name, 0)) for name in self._sorted()
        )
        self.row = replace(self.row, topics=tuple(sizes))
        self.late_topics = {}

    def raise_sizes(self) -> None:
        """Remember sizes by which the leader has gone, where it knows topics as larger."""
        known = self.row.topics or ()
        assigned = tuple(
            TopicSize(name=topic.name, partitions=self._assigned_from(topic)) for topic in known
        )
        if assigned != known:
            self.row = replace(self.row, topics=assigned)

    def _assigned_from(self, topic: TopicSize) -> int:
        """The number after the last partition that has an owner, counted from the known size."""
        partitions = topic.partitions
        while (topic.name, partitions) in self.ledger.holdings:
            partitions += 1
        return partitions

    def has_assigned(self, topic: str, partitions: Mapping[str, int]) -> bool:
        """Whether its members have all of a topic, as far as the last partition tells."""
        last = partitions.get(topic, 0) - 1
        return self.state is GroupState.STABLE and (topic, last) in self.ledger.holdings

    def changed_topic(self, partitions: Mapping[str, int]) -> tuple[str, str] | None:
        """A topic that is not what it was when the generation formed, and what became of it."""
        for topic in self.row.topics or ():
            now = partitions.get(topic.name, 0)
            if now != topic.partitions:
                return topic.name, "grown" if now and topic.partitions else _COME_OR_GONE[now > 0]
        return None

    def _sorted(self) -> list[str]:
        return sorted(self.topics() or ())

    def _read_topics(self) -> frozenset[str] | None:
        if self.members and self.row.protocol_name is None:
            return None
        topics: set[str] = set()
        last = None
        for member in self.members.values():
            subscription = member.subscription(self.row.protocol_name)
            if subscription is None:
                return None
            if subscription is not last:  # those who say the same share it
                topics.update(subscription.topics)
            last = subscription
        return frozenset(topics)

    def may_be_subscribed(self, topic: str) -> bool:
        """Whether a topic is in use, or may be because the subscriptions can't be read."""
        topics = self.topics()
        if topics is None:
            return self.row.protocol_type == CONSUMER
        return topic in topics
