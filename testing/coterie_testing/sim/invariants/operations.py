"""Operations: leaders do what administrators have ordered, as far as the journal shows.

A drained member gets no new partition, in a frozen group nothing of the living moves and newcomers
get nothing, and a pinned partition is with its member once the group has settled.  All of that
gives way where work would otherwise stand still, because no other member subscribes to the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    OperationEnded,
    OperationStarted,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    TopicChanged,
)

__all__ = ["OperationChecker"]

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _Ordered:
    """What is ordered; members are meant by their instance ids, or by their ids without one."""

    drained: set[str] = field(default_factory=set)
    pinned: dict[TopicPartition, str] = field(default_factory=dict)
    is_frozen: bool = False
    frozen_until_ms: int = 0
    newcomers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Group:
    ordered: _Ordered = field(default_factory=_Ordered)
    #: What the leader of this generation was told, and of whom the generation is.
    told: _Ordered = field(default_factory=_Ordered)
    members: tuple[MemberPhase, ...] = ()
    #: Which one that is: a node that is killed may have formed a later one without a line.
    generation: int = -1
    #: What each member was assigned last.
    had: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    #: The names of static members, by their ids.
    names: dict[str, str] = field(default_factory=dict)

    def place(self, member: str) -> str:
        return self.names.get(member, member)


class OperationChecker:
    """Follows the journal of all groups."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._groups: dict[str, _Group] = defaultdict(_Group)
        self._counts = counts
        #: What administrators asked to end: what stood may not stand after a crash, whatever the
        #: journal still says.
        self._lifted_drains: set[str] = set()
        self._lifted_pins: set[TopicPartition] = set()
        self._is_unfrozen = False
        #: Topics that were deleted: their partitions go whatever is ordered.
        self._deleted: set[str] = set()

    def keeps_copies_away(self, group: str) -> bool:
        """Whether there may be fewer copies of state than there should be."""
        ordered = self._groups[group].ordered
        return ordered.is_frozen or bool(ordered.drained)

    def asked(self, name: str, place: str, partitions: Iterable[TopicPartition]) -> None:
        """An administrator asks for something, which may be stored and never journalled."""
        if name == "undrain":
            self._lifted_drains.add(place)
        elif name == "unfreeze":
            self._is_unfrozen = True
        elif name in ("pin", "unpin"):
            self._lifted_pins.update(partitions)

    def _recovered(self, group: _Group, event: GroupRecovered, ts_ms: int) -> None:
        group.had = _by_place(group, event.assigned or {})
        ordered = group.ordered
        ordered.drained -= self._lifted_drains
        for pair in self._lifted_pins & ordered.pinned.keys():
            del ordered.pinned[pair]
        ordered.is_frozen &= not (self._is_unfrozen or ordered.frozen_until_ms <= ts_ms)

    def journalled(self, ts_ms: int, event: Event) -> Iterator[str]:
        """Say what is wrong about the next line of a journal."""
        group = self._groups[event.group]
        match event:
            case TopicChanged():
                self._deleted |= {event.topic} if event.change == "deleted" else set()
            case MemberJoined() | MemberReplaced() | MemberGone():
                _note_member(group, event)
            case OperationStarted() | OperationEnded():
                self._counts[f"{event.kind.replace('_', ' ')}: {event.operation}"] += 1
                _note(group.ordered, event)
            case GroupRecovered():
                self._recovered(group, event, ts_ms)
            case GroupEmptied():
                group.had = {}
            case PhaseJoined():
                group.told, group.members = deepcopy(group.ordered), event.members
                group.generation = event.generation
            case RebalanceCompleted() if event.assigned is not None:
                given = _by_place(group, event.assigned)
                if event.generation == group.generation:
                    yield from self._check(group, event, given)
                group.had = given

    def _check(
        self,
        group: _Group,
        event: RebalanceCompleted,
        given: Mapping[str, frozenset[TopicPartition]],
    ) -> Iterator[str]:
        said = {group.place(each.member): each for each in group.members}
        for name, member in said.items():
            yield from self._check_member(group, name, member, given.get(name, frozenset()))
        is_settled = not (event.needs_rejoin or event.targets or group.told.is_frozen)
        for pair, name in group.told.pinned.items() if is_settled else ():
            # While its member is away, others work on it that have a copy of its state.
            pinned = said.get(name)
            is_able = (
                pinned is not None
                and pinned.joined_after_ms is not None
                and pair[0] in _topics(pinned)
            )
            is_elsewhere = any(pair in each for n, each in given.items() if n != name)
            if is_able and is_elsewhere and name not in group.told.drained:
                yield f"{pair} is pinned to {name}, and assigned to another: {event}"

    def _check_member(
        self, group: _Group, name: str, member: MemberPhase, given: frozenset[TopicPartition]
    ) -> Iterator[str]:
        told, had = group.told, group.had.get(name, frozenset())
        unable = told.drained | self._lifted_drains  # some may still be drained after a crash
        for pair in given - had - _pairs(member.owned or {}):
            if name in told.drained and _has_other(group, pair[0], unable):
                yield f"{name} is drained, and is given {pair}"
            is_new = told.is_frozen and name in told.newcomers
            if is_new and _has_other(group, pair[0], told.newcomers | unable):
                yield f"{name} came while the group was frozen, and is given {pair}"
        if told.is_frozen and member.joined_after_ms is not None:
            claimed = _claimed_by_others(group, member)
            for pair in had - given - claimed:
                if pair[0] in _topics(member) and pair[0] not in self._deleted:
                    yield f"the group is frozen, and {pair} is taken from {name}"


def _note_member(group: _Group, event: MemberJoined | MemberReplaced | MemberGone) -> None:
    if event.instance is not None:
        group.names[event.member] = event.instance
    if isinstance(event, MemberGone):
        group.had.pop(group.place(event.member), None)
    if isinstance(event, MemberJoined) and group.ordered.is_frozen:
        group.ordered.newcomers.add(group.place(event.member))


def _note(ordered: _Ordered, event: OperationStarted | OperationEnded) -> None:
    name = event.instance or event.member or ""
    has_started = isinstance(event, OperationStarted)
    match event.operation:
        case "drain":
            (ordered.drained.add if has_started else ordered.drained.discard)(name)
        case "pin" if has_started:
            ordered.pinned |= dict.fromkeys(_pairs(event.partitions or {}), name)
        case "pin":
            for pair in _pairs(event.partitions or {}):
                ordered.pinned.pop(pair, None)
        case "freeze":
            ordered.is_frozen = has_started
            if isinstance(event, OperationStarted):
                ordered.frozen_until_ms = event.until or 0
            if isinstance(event, OperationEnded) and event.how != "replaced":
                ordered.newcomers.clear()


def _pairs(partitions: Partitions) -> frozenset[TopicPartition]:
    return frozenset((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _by_place(
    group: _Group, assigned: Mapping[str, Partitions]
) -> dict[str, frozenset[TopicPartition]]:
    return {group.place(member): _pairs(each) for member, each in assigned.items()}


def _topics(member: MemberPhase) -> tuple[str, ...]:
    return member.topics or ()


def _has_other(group: _Group, topic: str, but: set[str]) -> bool:
    """Whether a member has joined that could have a topic's partitions, but for some."""
    return any(
        each.joined_after_ms is not None
        and group.place(each.member) not in but
        and topic in _topics(each)
        for each in group.members
    )


def _claimed_by_others(group: _Group, member: MemberPhase) -> frozenset[TopicPartition]:
    others = (each.owned or {} for each in group.members if each is not member)
    return frozenset(pair for owned in others for pair in _pairs(owned))
