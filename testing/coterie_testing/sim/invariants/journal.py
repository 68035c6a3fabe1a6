"""The journal: what it says of a group has to be a possible history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from coterie_protocol.journal import (
    CAUSES,
    Event,
    GroupEmptied,
    GroupRecovered,
    MemberAway,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    MemberReturned,
    OffsetsCommitted,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.group import GENERATIONS_SKIPPED, GroupState

__all__ = ["JournalChecker"]

TopicPartition = tuple[str, int]
Assignment = dict[str, frozenset[TopicPartition]]


def _pairs(partitions: Partitions) -> frozenset[TopicPartition]:
    return frozenset((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _assignment(assigned: Mapping[str, Partitions] | None) -> Assignment | None:
    return None if assigned is None else {name: _pairs(each) for name, each in assigned.items()}


@dataclass(slots=True)
class _Group:
    """One group, as far as the journal has told."""

    #: The newest generation.
    generation: int = 0
    #: The members, with their rebalance timeouts as far as they are known.
    members: dict[str, int] = field(default_factory=dict)
    #: Those of them whose session is over and whose place is kept.
    away: set[str] = field(default_factory=set)
    #: Whether members are joining, and whether they wait for their assignment.
    is_joining: bool = False
    is_syncing: bool = False
    #: Whether it was empty, so that it waits for a time and not for known members.
    was_empty: bool = False
    #: The last assignment, and its generation; None if that can't be known.
    assigned: Assignment | None = None
    assigned_in: int = -1
    #: When the newest generation formed.
    joined_at_ms: int = 0

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long members are waited for, at least."""
        return max(self.members.values(), default=0)

    def owner(self, partition: TopicPartition) -> str | None:
        """The member that a partition was last assigned to, if any."""
        assigned = (self.assigned or {}).items()
        return next((name for name, partitions in assigned if partition in partitions), None)

    def rename(self, old: str, new: str) -> None:
        if old in self.members:
            self.members[new] = self.members.pop(old)
        if old in self.away:
            self.away.remove(old)
            self.away.add(new)
        if self.assigned is not None and old in self.assigned:
            self.assigned[new] = self.assigned.pop(old)


class JournalChecker:
    """Follows a journal, and finds lines that contradict earlier ones.

    A node that crashes may have stored more than it journalled, and never less.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = defaultdict(_Group)

    def generation(self, group: str) -> int:
        """The newest generation of a group."""
        return self._groups[group].generation

    def waits_for_members(self, group: str) -> bool:
        """Whether a group is waiting for its members to join."""
        known = self._groups[group]
        return known.is_joining and not known.was_empty

    def rebalance_timeout_ms(self, group: str) -> int:
        """How long a group waits for members that have not joined, at least."""
        return self._groups[group].rebalance_timeout_ms

    def members(self, group: str) -> Collection[str]:
        """The members of a group."""
        return self._groups[group].members.keys()

    def is_away(self, group: str, member: str) -> bool:
        """Whether a member's session is over and its place is kept."""
        return member in self._groups[group].away

    def assignment(self, group: str, member: str) -> frozenset[TopicPartition] | None:
        """A member's last assignment; None if that can't be known."""
        assigned = self._groups[group].assigned
        return None if assigned is None else assigned.get(member, frozenset())

    def journalled(self, ts_ms: int, event: Event) -> Iterator[str]:
        """Look at the next line; yield what is wrong with it."""
        known = self._groups[event.group]
        match event:
            case MemberJoined() | MemberReplaced():
                self._come(known, event)
            case MemberAway() | MemberReturned():
                yield from self._absence(known, event)
            case MemberGone():
                yield from self._gone(known, ts_ms, event)
            case RebalanceStarted():
                yield from self._started(known, event)
            case PhaseJoined():
                yield from self._phase_joined(known, ts_ms, event)
            case RebalanceCompleted():
                yield from self._completed(known, event)
            case GroupEmptied():
                yield from self._emptied(known, event)
            case GroupRecovered():
                yield from self._recovered(known, event)
            case OffsetsCommitted() if event.generation >= 0:
                yield from self._committed(known, event)

    def _come(self, known: _Group, event: MemberJoined | MemberReplaced) -> None:
        if isinstance(event, MemberJoined):
            known.members[event.member] = event.rebalance_timeout_ms
        else:
            known.rename(event.former_member, event.member)

    def _absence(self, known: _Group, event: MemberAway | MemberReturned) -> Iterator[str]:
        if isinstance(event, MemberReturned):
            if event.member not in known.away:
                yield f"a member returned that was not away: {event}"
            known.away.discard(event.member)
            return
        if event.silent_ms < event.session_timeout_ms // 2:
            yield f"a member is away that was heard of {event.silent_ms} ms ago: {event}"
        if event.member in known.away or event.member not in known.members:
            yield f"a member is away that was so before, or is no member: {event}"
        known.away.add(event.member)

    def _gone(self, known: _Group, ts_ms: int, event: MemberGone) -> Iterator[str]:
        # Not every request prolongs a session: asking for the assignment once more does not.
        if event.how == "session_expired" and event.silent_ms < event.session_timeout_ms // 2:
            yield f"a member expired that was heard of {event.silent_ms} ms ago: {event}"
        waited_ms = ts_ms - known.joined_at_ms
        if event.how == "sync_expired" and waited_ms < known.rebalance_timeout_ms:
            yield f"a member was waited for only {waited_ms} ms: {event}"
        if event.member not in known.members:
            yield f"a member left that was not in the group: {event}"
        if (event.how == "registration_expired") > (event.member in known.away):
            yield f"a member lost its place that was not away: {event}"
        known.away.discard(event.member)
        known.members.pop(event.member, None)
        if known.assigned is not None:
            known.assigned.pop(event.member, None)

    def _started(self, known: _Group, event: RebalanceStarted) -> Iterator[str]:
        if event.cause not in CAUSES:
            yield f"a rebalance has no known cause: {event}"
        if not known.generation and event.generation % GENERATIONS_SKIPPED == 0:
            # New to this timeline of the database: it begins behind all that may be lost.
            known.generation = event.generation
        if event.generation != known.generation:
            yield f"a rebalance starts from another generation than {known.generation}: {event}"
        if awaited := known.away.intersection(event.awaited):
            yield f"a rebalance waits for members that are away, {sorted(awaited)}: {event}"
        known.is_joining, known.is_syncing = True, False
        known.was_empty = event.from_state == GroupState.EMPTY.value

    def _phase_joined(self, known: _Group, ts_ms: int, event: PhaseJoined) -> Iterator[str]:
        if event.cause not in CAUSES:
            yield f"a generation has no known cause: {event}"
        if not known.is_joining:
            yield f"a generation formed without a rebalance: {event}"
        if event.generation <= known.generation:
            yield f"a generation is not newer than {known.generation}: {event}"
        if event.dropped and event.took_ms < known.rebalance_timeout_ms:
            yield f"members were waited for only {event.took_ms} ms: {event}"
        members = {each.member for each in event.members}
        joined = {each.member for each in event.members if each.joined_after_ms is not None}
        if odd := sorted(joined & known.away):
            yield f"members joined that are away, {odd}: {event}"
        if members != known.members.keys():
            odd = sorted(members.symmetric_difference(known.members))
            yield f"a generation has other members than joined or left before, {odd}: {event}"
        if event.leader not in members:
            yield f"the leader is not among the members: {event}"
        known.generation, known.joined_at_ms = event.generation, ts_ms
        known.is_joining, known.is_syncing = False, True

    def _completed(self, known: _Group, event: RebalanceCompleted) -> Iterator[str]:
        if event.generation != known.generation:
            yield f"a rebalance completed, but generation {known.generation} is the newest: {event}"
        known.assigned, known.assigned_in = _assignment(event.assigned), event.generation
        known.is_syncing = False
        if known.assigned is None:
            return
        if known.assigned.keys() != known.members.keys():
            yield f"assigned to others than the members {sorted(known.members)}: {event}"
        given = [each for partitions in known.assigned.values() for each in partitions]
        if len(given) != len(set(given)):
            yield f"a partition was assigned twice: {event}"

    def _emptied(self, known: _Group, event: GroupEmptied) -> Iterator[str]:
        if known.members:
            yield f"a group is empty, but has the members {sorted(known.members)}: {event}"
        if event.generation <= known.generation:
            yield f"a generation is not newer than {known.generation}: {event}"
        known.generation, known.assigned = event.generation, None
        known.is_joining = known.is_syncing = False

    def _recovered(self, known: _Group, event: GroupRecovered) -> Iterator[str]:
        if event.generation < known.generation:
            yield f"generation {known.generation} was forgotten: {event}"
        is_stable = event.state == GroupState.STABLE.value
        assigned = _assignment(event.assigned)
        if is_stable and known.assigned_in == event.generation and assigned is not None:
            yield from self._compare(known, assigned, event)
        timeouts = known.members
        known.members = {name: timeouts.get(name, 0) for name in event.members}
        known.away = set(event.away)
        known.generation = event.generation
        known.is_joining = event.state == GroupState.PREPARING.value
        known.is_syncing = event.state == GroupState.COMPLETING.value
        known.was_empty = False
        known.assigned = assigned if is_stable else None
        known.assigned_in = event.generation if is_stable else -1

    def _compare(self, known: _Group, assigned: Assignment, event: GroupRecovered) -> Iterator[str]:
        """A crash changes no assignment."""
        before = known.assigned
        if before is None:
            return
        # A static member may have been replaced without a line in the journal.
        if sorted(map(sorted, before.values())) != sorted(map(sorted, assigned.values())):
            yield f"the assignment differs from before the restart, {before}: {event}"

    def _committed(self, known: _Group, event: OffsetsCommitted) -> Iterator[str]:
        if event.generation != known.generation:
            yield f"a commit was accepted, but generation {known.generation} is the newest: {event}"
        elif known.is_syncing:
            yield f"a commit was accepted before its generation had an assignment: {event}"
        if event.member not in known.members:
            yield f"a commit was accepted from a client that is no member: {event}"
        if event.member in known.away:
            yield f"a commit was accepted from a member that is away: {event}"
        for topic, offsets in event.offsets.items():
            for number in offsets:
                owner = known.owner((topic, int(number)))
                if owner not in (None, event.member):
                    yield f"a commit was accepted for a partition of {owner}: {event}"
