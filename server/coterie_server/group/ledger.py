"""Who holds which partition, as far as the coordinator can read what members tell each other.

When a leader brings an assignment, it is held against what the members say that they hold.  A
partition that a member is given while another has not let go of it would have two owners;
the ledger finds these conflicts, and the guard can withhold such partitions until they are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    decode_assignment,
    encode_assignment,
    flatten,
    group_by_topic,
)
from coterie_protocol.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from coterie_protocol.journal import Partitions
    from coterie_server.group.member import Member
    from coterie_server.group.records import GroupRow

__all__ = ["Conflict", "Holding", "Ledger", "Partition", "Review", "by_topic"]

#: A topic and the number of one of its partitions.
Partition = tuple[str, int]


class Holding(NamedTuple):
    """Who was given a partition, in which generation, and when."""

    member_id: str
    generation: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """A partition given to one member while another holds it."""

    partition: Partition
    holder: str
    given_to: str


@dataclass(slots=True)
class Review:
    """What came of looking at an assignment."""

    #: The bytes for each member, without what the guard withheld.
    assignments: dict[str, bytes]
    #: What each member is given; None if that can't be read.
    given: dict[str, frozenset[Partition]] | None = None
    conflicts: list[Conflict] = field(default_factory=list)
    moved: int = 0
    revoked: int = 0
    needs_rejoin: bool = False
    #: The members that have to join once more before the assignment is whole.
    follow_up: frozenset[str] = frozenset()


class Ledger:
    """The holdings of one group."""

    __slots__ = ("_former", "_owned", "_rivals", "holdings", "tokens", "told")

    def __init__(self) -> None:
        self.holdings: dict[Partition, Holding] = {}
        #: The members that have asked for this assignment, and so know what they own.
        self.told: set[str] = set()
        #: The fencing tokens with which partitions were taken over, of members that tell of
        #: themselves (`coterie_protocol.member_data`).
        self.tokens: dict[Partition, int] = {}
        #: Who had a partition last that is on its way: its owner went, or was to give it up first.
        self._former: dict[Partition, str] = {}
        #: Who else was given a partition at the same time, which no sound leader does.
        self._rivals: dict[Partition, list[Holding]] = {}
        #: What `holdings` says, by member; None until it is asked for.  Members leave one by one,
        #: and to look through all partitions for each would take the square of their number.
        self._owned: dict[str, set[Partition]] | None = None

    def owned_by(self, member_id: str) -> frozenset[Partition]:
        """What a member was given last and no other one since."""
        return frozenset(self._by_owner().get(member_id, ()))

    def on_their_way(self) -> frozenset[Partition]:
        """What has no owner until the members have joined once more."""
        return frozenset(self._former)

    def tell(self, member_id: str) -> None:
        """Note that a member is told what it was assigned."""
        self.told.add(member_id)

    def note_tokens(
        self,
        member_id: str,
        token: int,
        kept: AbstractSet[Partition],
        told: Mapping[Partition, int],
    ) -> None:
        """Note the token with which a member takes over what it has not kept from before.

        With what token it owns what it kept, it has told, unless that is known already.
        """
        for partition in self.owned_by(member_id):
            if partition not in kept:
                self.tokens[partition] = token
            elif partition in told:
                self.tokens.setdefault(partition, min(told[partition], token))

    def _by_owner(self) -> dict[str, set[Partition]]:
        if self._owned is None:
            self._owned = {}
            for partition, holding in self.holdings.items():
                self._owned.setdefault(holding.member_id, set()).add(partition)
        return self._owned

    def by_member(self, members: Iterable[str]) -> dict[str, Partitions]:
        """What each of these members was given last."""
        owned: dict[str, list[Partition]] = {member_id: [] for member_id in members}
        for partition, holding in self.holdings.items():
            if holding.member_id in owned:
                owned[holding.member_id].append(partition)
        return {member_id: by_topic(partitions) for member_id, partitions in owned.items()}

    def rename(self, old_id: str, new_id: str) -> None:
        """Hand the holdings of a static member on to its new member id."""
        for partition, member_id in self._former.items():
            if member_id == old_id:
                self._former[partition] = new_id
        self.told.discard(old_id)
        owned = self._by_owner()
        if old_id in owned:
            owned[new_id] = owned.pop(old_id)
            for partition in owned[new_id]:
                self.holdings[partition] = self.holdings[partition]._replace(member_id=new_id)
        for rivals in self._rivals.values():
            rivals[:] = [
                rival._replace(member_id=new_id) if rival.member_id == old_id else rival
                for rival in rivals
            ]

    def forget(self, member_id: str) -> frozenset[Partition]:
        """Take away all that a member holds, as it is gone; answer what that was."""
        by_owner = self._by_owner()
        owned = frozenset(by_owner.pop(member_id, ()))
        self.told.discard(member_id)
        for partition in owned:
            self.tokens.pop(partition, None)
        passed_on = set()
        for partition, rivals in self._rivals.items():
            rivals[:] = [rival for rival in rivals if rival.member_id != member_id]
            if partition in owned and rivals:
                heir = self.holdings[partition] = rivals.pop()
                by_owner.setdefault(heir.member_id, set()).add(partition)
                passed_on.add(partition)
        for partition in owned - passed_on:
            del self.holdings[partition]
            self._former[partition] = member_id
        return owned

    def clear(self) -> None:
        """Forget everything."""
        self.holdings.clear()
        self._former.clear()
        self._rivals.clear()
        self.told.clear()
        self.tokens.clear()
        self._owned = None

    def recover(self, members: Iterable[Member], generation: int, now_ms: int) -> None:
        """Read the holdings from assignments that were stored."""
        given = {}
        for member in members:
            assignment = _parse(member.row.assignment)
            if assignment is None:  # then nothing was taken over from the others either
                return
            given[member] = flatten(assignment.assigned_partitions)
        self._place(given.items(), generation, now_ms)
        self.told = {member.id for member in given}

    def review(
        self,
        assignments: Mapping[str, bytes],
        members: Mapping[str, Member],
        group: GroupRow,
        *,
        enforce: bool,
    ) -> Review:
        """Hold an assignment against what the members hold."""
        review = Review(dict(assignments))
        known: dict[str, Assignment] = {}
        for member_id, data in assignments.items():
            assignment = _parse(data)
            if assignment is None:
                return review
            known[member_id] = assignment
        review.given = {m: flatten(a.assigned_partitions) for m, a in known.items()}
        held = self._holders(members, group)
        review.conflicts = _conflicts(review.given, held)
        if review.conflicts and enforce:
            _withhold(review, known)
        review.needs_rejoin |= NEEDS_REJOIN in [a.error_code for a in known.values()]
        review.follow_up = _follow_up(review, held)
        self._compare(review)
        return review

    def take_over(
        self, review: Review, members: Mapping[str, Member], generation: int, now_ms: int
    ) -> None:
        """Enter a reviewed assignment."""
        given = review.given or {}
        last = self._last_owners()
        self.told.clear()
        self._place([(members[m], parts) for m, parts in given.items()], generation, now_ms)
        self.tokens = {
            partition: token
            for partition, token in self.tokens.items()
            if partition in self.holdings and self.holdings[partition].generation < generation
        }
        # What is left out for good is not on its way.
        self._former = {
            partition: member_id
            for partition, member_id in (last.items() if review.follow_up else ())
            if partition not in self.holdings
        }

    def _last_owners(self) -> dict[Partition, str]:
        return self._former | {p: holding.member_id for p, holding in self.holdings.items()}

    def _place(
        self,
        given: Iterable[tuple[Member, frozenset[Partition]]],
        generation: int,
        now_ms: int,
    ) -> None:
        """Enter who was given what; of two who were given one partition, the same one always."""
        before, self.holdings = self.holdings, {}
        self._rivals.clear()
        self._owned = None
        for member, partitions in sorted(given, key=lambda each: each[0].place):
            for partition in partitions:
                holding = before.get(partition)
                if holding is None or holding.member_id != member.id:
                    holding = Holding(member.id, generation, now_ms)
                rival = self.holdings.get(partition)
                if rival is not None:
                    self._rivals.setdefault(partition, []).append(rival)
                self.holdings[partition] = holding

    def _holders(self, members: Mapping[str, Member], group: GroupRow) -> dict[Partition, str]:
        """Who holds each partition by the members' own word.

        A member that joined says so in its subscription.  One that did not, as static members
        may, has given nothing back: it holds what it was given last.  If two claim a partition,
        the one that had it in the later generation is right: the other missed that it lost it.
        A member that is away holds nothing: its session is over, and its work with that.
        """
        present = {m.id: m for m in members.values() if m.row.away_since_ms < 0}
        claims = {
            partition: (group.assigned_in, holding.member_id)
            for partition, holding in self.holdings.items()
            if holding.member_id in present and present[holding.member_id].row.has_not_joined
        }
        for member in present.values():
            subscription = (
                None if member.row.has_not_joined else member.subscription(group.protocol_name)
            )
            if subscription is None or not subscription.owned_partitions:
                continue
            for partition in flatten(subscription.owned_partitions):
                claim = (subscription.generation_id, member.id)
                if partition not in claims or claims[partition][0] < claim[0]:
                    claims[partition] = claim
        return {partition: member_id for partition, (_, member_id) in claims.items()}

    def _compare(self, review: Review) -> None:
        owner = {p: m for m, partitions in (review.given or {}).items() for p in partitions}
        last = self._last_owners()
        moved = [last.get(p, member_id) != member_id for p, member_id in owner.items()]
        revoked = [owner.get(p) != holding.member_id for p, holding in self.holdings.items()]
        review.moved, review.revoked = sum(moved), sum(revoked)


def by_topic(partitions: Iterable[Partition]) -> Partitions:
    """Partitions in the shape in which the journal has them."""
    listed = sorted(partitions)
    if len(listed) == 1:  # as in groups with as many members as partitions, which are the largest
        topic, partition = listed[0]
        return {topic: (partition,)}
    grouped: dict[str, list[int]] = {}
    for topic, partition in listed:
        grouped.setdefault(topic, []).append(partition)
    return {topic: tuple(numbers) for topic, numbers in grouped.items()}


def _parse(data: bytes) -> Assignment | None:
    if not data:  # nothing for this member: what the coordinator puts for one left out
        return Assignment(assigned_partitions=())
    try:
        return decode_assignment(data)
    except ProtocolError:
        return None


def _conflicts(
    given: Mapping[str, frozenset[Partition]], held: Mapping[Partition, str]
) -> list[Conflict]:
    conflicts = []
    owner: dict[Partition, str] = {}
    for member_id, partitions in given.items():
        for partition in sorted(partitions):
            holder = held.get(partition, owner.setdefault(partition, member_id))
            if holder != member_id:
                conflicts.append(Conflict(partition, holder, member_id))
    return conflicts


def _withhold(review: Review, known: dict[str, Assignment]) -> None:
    """Take conflicting partitions from those who were to get them, and ask all to rejoin."""
    given = review.given or {}
    for conflict in review.conflicts:
        given[conflict.given_to] -= {conflict.partition}
    for member_id, assignment in known.items():
        known[member_id] = replace(
            assignment,
            assigned_partitions=group_by_topic(given[member_id]),
            error_code=NEEDS_REJOIN,
        )
        review.assignments[member_id] = encode_assignment(known[member_id])
    review.needs_rejoin = True


def _follow_up(review: Review, held: Mapping[Partition, str]) -> frozenset[str]:
    """Members that hold something they are not given, so that they revoke it and join again."""
    given = review.given or {}
    if review.needs_rejoin:
        return frozenset(given)
    return frozenset(
        holder for partition, holder in held.items() if partition not in given.get(holder, ())
    )
