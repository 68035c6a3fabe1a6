"""A group: its members, its offsets and its state, and the questions that handlers ask of it.

Nothing here talks to anybody: the handlers in the modules beside this one decide, this one keeps
the numbers straight.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coterie_server.group.ledger import Ledger
from coterie_server.group.member import Member, Parked
from coterie_server.group.records import GroupRow, MemberRow, OffsetRow, Row
from coterie_server.group.states import TRANSITIONS, GroupState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie_server.group.records import SupportedProtocol

__all__ = ["CONSUMER", "Group", "InitialDelay", "Rebalance"]

#: A token is the generation, and below it the renewals within: more than could ever be asked for.
_RENEWAL_BITS = 32

#: The protocol type of groups whose embedded bytes the coordinator can read.
CONSUMER = "consumer"


@dataclass(slots=True)
class Rebalance:
    """What is known of the rebalance that is going on, for the journal and the log."""

    cause: str
    detail: str
    started_at_ms: int
    #: The members that were in the group and had not joined yet when it started.
    awaited: tuple[str, ...] = ()
    #: The generation that called for this one, if one did.
    follows: int | None = None
    joined_at_ms: int = 0
    dropped: list[str] = field(default_factory=list)


@dataclass(slots=True)
class InitialDelay:
    """How the first rebalance of an empty group gives others the time to come as well.

    It waits for a delay, and for another one if somebody came meanwhile, up to the first member's
    rebalance timeout.
    """

    step_ms: int
    remaining_ms: int
    somebody_came: bool = False


class Group:
    """A group of consumers, or of anything else that shares work by Kafka's group protocol."""

    def __init__(self, group_id: str, *, generation: int = 0, date_ms: int = 0) -> None:
        self.row = GroupRow(
            group_id=group_id,
            state=GroupState.EMPTY.value,
            generation=generation,
            changed_at_ms=date_ms,
        )
        self.state = GroupState.EMPTY
        #: In the order in which they came.
        self.members: dict[str, Member] = {}
        #: Static members by instance id.
        self.static: dict[str, str] = {}
        #: Ids handed out with MEMBER_ID_REQUIRED whose owners have not come back yet.
        self.pending_joins: set[str] = set()
        #: Members of this generation whose sync has not come yet.
        self.pending_syncs: set[str] = set()
        self.parked_joins = 0
        #: The first rebalance of an empty group waits for more members; None at all other times.
        self.initial_delay: InitialDelay | None = None
        self.rebalance: Rebalance | None = None
        self.offsets: dict[tuple[str, int], OffsetRow] = {}
        self.ledger = Ledger()
        self._supporters: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None

    # -- what it is ----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The group's name."""
        return self.row.group_id

    @property
    def generation(self) -> int:
        """The number of the generation; it never goes back."""
        return self.row.generation

    @property
    def token(self) -> int:
        """The fencing token of what a member takes over now; -1 if the generation has none.

        It is higher than any that a former owner of the same was given: a partition changes hands
        with the generation, or when somebody is let go on in it, which counts as a renewal.
        """
        renewals = self.row.renewals
        return -1 if renewals < 0 else self.generation << _RENEWAL_BITS | renewals

    @property
    def leader(self) -> str | None:
        """The member that works out the assignment."""
        return self.row.leader

    def is_in(self, *states: GroupState) -> bool:
        """Whether it is in one of these states."""
        return self.state in states

    def is_leader(self, member_id: str) -> bool:
        """Whether a member is the leader."""
        return self.row.leader == member_id

    @property
    def all_joined(self) -> bool:
        """Whether the first phase has nobody left to wait for."""
        return len(self.members) == self.parked_joins and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the most patient member lets a phase take."""
        return max(0, *(m.row.rebalance_timeout_ms for m in self.members.values()), 0)

    def asked_to_rejoin(self, member: Member) -> bool:
        """Whether the present generation has asked a member to join once more."""
        return member.row.asked_to_rejoin_in == self.generation

    def not_joined(self) -> list[Member]:
        """Members that the first phase still waits for."""
        return [m for m in self.members.values() if m.join is None]

    # -- applying rows, live and in recovery ---------------------------------------------------

    def apply(self, row: Row) -> None:
        """Take over a row that is, or is about to be, on disk."""
        match row:
            case OffsetRow():
                self.apply_offsets((row,))
            case GroupRow():
                self._apply_group(row)
            case MemberRow():
                member = self.members.get(row.member_id)
                if member is None:
                    self.add(Member(row, saved=row))
                else:
                    member.row = member.saved = row

    def apply_offsets(self, rows: Iterable[OffsetRow]) -> None:
        """Take over offsets, which come many at a time."""
        self.offsets.update([((row.topic, row.partition), row) for row in rows])

    def _apply_group(self, row: GroupRow) -> None:
        self.state = GroupState(row.state)
        self.row = row

    def enter(self, state: GroupState, date_ms: int) -> GroupRow:
        """The row with which the group moves to another state."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group {self.id}: {self.state.value} -> {state.value}")
        return replace(self.row, state=state.value, changed_at_ms=date_ms)

    def begin_generation(self) -> None:
        """Count on; the row is stored before anybody is told."""
        self.row = replace(self.row, generation=self.generation + 1, renewals=0)

    def renew(self) -> None:
        """Let somebody begin anew in this generation, with higher tokens than anybody in it had.

        Like a generation, the row is stored before anybody is told.
        """
        if self.row.renewals >= 0:
            self.row = replace(self.row, renewals=self.row.renewals + 1)

    # -- members -------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Take in a member."""
        if not self.members and self.row.protocol_type is None:
            raise AssertionError("a member came before the group's protocol type")
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self._count(member, 1)
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
        self.parked_joins -= member.join is not None
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.is_leader(member_id):
            self.row = replace(self.row, leader=next(iter(self.members), None))
        return member

    def park_join(self, member: Member, parked: Parked | None) -> Parked | None:
        """Put a member's join aside, or take it back; answer the one that was there before."""
        before, member.join = member.join, parked
        self.parked_joins += (parked is not None) - (before is not None)
        return before

    def update_protocols(
        self, member: Member, protocols: tuple[SupportedProtocol, ...], **timeouts: int
    ) -> None:
        """Take over what a member says of itself when it joins again."""
        self._count(member, -1)
        member.change(protocols=protocols, **timeouts)
        self._count(member, 1)

    def replace_static(self, old: Member, member_id: str) -> Member:
        """Give the place of a static member, with all that belongs to it, to a new member id."""
        new = Member(replace(old.row, member_id=member_id))
        members = {}
        for known in self.members.values():
            entry = new if known is old else known
            members[entry.id] = entry
        self.members = members
        self.parked_joins -= old.join is not None
        self.pending_syncs.discard(old.id)
        if old.instance_id is not None:
            self.static[old.instance_id] = member_id
        if self.is_leader(old.id):
            self.row = replace(self.row, leader=member_id)
        return new

    def move_last(self, member: Member) -> None:
        """Let a member be the last to be chosen as leader."""
        self.members[member.id] = self.members.pop(member.id)
        if self.is_leader(member.id):
            self.row = replace(self.row, leader=next(iter(self.members)))

    def elect(self) -> bool:
        """Make sure that the leader is one who joined; False if nobody did."""
        leader = self.members.get(self.row.leader or "")
        if leader is not None and leader.join is not None:
            return True
        joined = next((m.id for m in self.members.values() if m.join is not None), None)
        if joined is None:
            return False
        self.row = replace(self.row, leader=joined)
        return True

    # -- protocols -----------------------------------------------------------------------------

    def _count(self, member: Member, by: int) -> None:
        for name in {p.name for p in member.row.protocols}:
            self._supporters[name] += by
            if not self._supporters[name]:
                del self._supporters[name]

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols could be in the group."""
        if self.state is GroupState.EMPTY or not self.members:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.row.protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """The protocol with most votes among those that everybody can follow.

        In a tie the leader's preference decides, so that the choice does not hang on chance.
        """
        everybody = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == everybody}
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

    def _read_topics(self) -> frozenset[str] | None:
        if self.members and self.row.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = member.subscription(self.row.protocol_name)
            if subscription is None:
                return None
            topics.update(subscription.topics)
        return frozenset(topics)

    def may_be_subscribed(self, topic: str) -> bool:
        """Whether an offset of a topic may be in use: certainly, or because nobody can tell."""
        topics = self.topics()
        if topics is None:
            return self.row.protocol_type == CONSUMER
        return topic in topics

    def saved_rows(self) -> Iterator[Row]:
        """All rows of the group that are on disk."""
        yield self.row
        for member in self.members.values():
            if member.saved is not None:
                yield member.saved
        yield from self.offsets.values()
