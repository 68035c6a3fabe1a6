"""What a journal tells of its groups, and whether that can be true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from coterie_protocol.journal import (
    CAUSES,
    Event,
    GroupEmptied,
    GroupRecovered,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsCommitted,
    Partitions,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.group import GroupState

__all__ = ["Story", "pairs"]

TopicPartition = tuple[str, int]
Shares = dict[str, frozenset[TopicPartition]]


def pairs(partitions: Partitions) -> frozenset[TopicPartition]:
    """Partitions as pairs of topic and number."""
    return frozenset((topic, number) for topic, numbers in partitions.items() for number in numbers)


def _shares(assigned: Mapping[str, Partitions] | None) -> Shares | None:
    return None if assigned is None else {name: pairs(each) for name, each in assigned.items()}


@dataclass(slots=True)
class _Chapter:
    """One group, as far as it was told."""

    #: The newest generation.
    generation: int = 0
    #: The members, with their rebalance timeouts as far as they are known.
    members: dict[str, int] = field(default_factory=dict)
    #: Whether a first phase is under way, and whether a second one is.
    is_joining: bool = False
    is_syncing: bool = False
    #: Whether the first phase is that of an empty group, which waits for a time, not for members.
    is_first: bool = False
    #: What everybody was given last, and in which generation; None if that can't be known.
    shares: Shares | None = None
    shared_in: int = -1
    #: When the first phase of the newest generation was over.
    joined_at_ms: int = 0

    @property
    def patience_ms(self) -> int:
        """How long everybody is waited for, at least."""
        return max(self.members.values(), default=0)

    def owner(self, partition: TopicPartition) -> str | None:
        """Who was given a partition last, if anybody was."""
        shares = (self.shares or {}).items()
        return next((name for name, share in shares if partition in share), None)

    def rename(self, old: str, new: str) -> None:
        if old in self.members:
            self.members[new] = self.members.pop(old)
        if self.shares is not None and old in self.shares:
            self.shares[new] = self.shares.pop(old)


class Story:
    """Follows a journal, and finds what contradicts what was told before.

    A node that crashes may have stored more than it told, and never less.
    """

    def __init__(self) -> None:
        self._chapters: dict[str, _Chapter] = defaultdict(_Chapter)

    def generation(self, group: str) -> int:
        """The newest generation."""
        return self._chapters[group].generation

    def waits_for_members(self, group: str) -> bool:
        """Whether a first phase is under way that ends when all are there."""
        chapter = self._chapters[group]
        return chapter.is_joining and not chapter.is_first

    def patience_ms(self, group: str) -> int:
        """How long a first phase waits at least for those who are not there."""
        return self._chapters[group].patience_ms

    def members(self, group: str) -> Collection[str]:
        """The members."""
        return self._chapters[group].members.keys()

    def share(self, group: str, member: str) -> frozenset[TopicPartition] | None:
        """What a member was given last; None if that can't be known."""
        shares = self._chapters[group].shares
        return None if shares is None else shares.get(member, frozenset())

    def hear(self, ts_ms: int, event: Event) -> Iterator[str]:
        """Take in what comes next, and say what is wrong with it."""
        chapter = self._chapters[event.group]
        match event:
            case MemberJoined() | MemberReplaced():
                self._come(chapter, event)
            case MemberGone():
                yield from self._gone(chapter, ts_ms, event)
            case RebalanceStarted():
                yield from self._started(chapter, event)
            case PhaseJoined():
                yield from self._phase_joined(chapter, ts_ms, event)
            case RebalanceCompleted():
                yield from self._completed(chapter, event)
            case GroupEmptied():
                yield from self._emptied(chapter, event)
            case GroupRecovered():
                yield from self._recovered(chapter, event)
            case OffsetsCommitted() if event.generation >= 0:
                yield from self._committed(chapter, event)

    def _come(self, chapter: _Chapter, event: MemberJoined | MemberReplaced) -> None:
        if isinstance(event, MemberJoined):
            chapter.members[event.member] = event.rebalance_timeout_ms
        else:
            chapter.rename(event.former_member, event.member)

    def _gone(self, chapter: _Chapter, ts_ms: int, event: MemberGone) -> Iterator[str]:
        # Not all that is heard of a member makes its session longer: asking once more does not.
        if event.how == "session_expired" and event.silent_ms < event.session_timeout_ms // 2:
            yield f"a member was dropped that was heard of {event.silent_ms} ms ago: {event}"
        waited_ms = ts_ms - chapter.joined_at_ms
        if event.how == "sync_expired" and waited_ms < chapter.patience_ms:
            yield f"a member was waited for only {waited_ms} ms: {event}"
        if event.member not in chapter.members:
            yield f"a member went that was not there: {event}"
        chapter.members.pop(event.member, None)
        if chapter.shares is not None:
            chapter.shares.pop(event.member, None)

    def _started(self, chapter: _Chapter, event: RebalanceStarted) -> Iterator[str]:
        if event.cause not in CAUSES:
            yield f"a rebalance has no known cause: {event}"
        if event.generation != chapter.generation:
            yield f"it starts from another generation than {chapter.generation}: {event}"
        chapter.is_joining, chapter.is_syncing = True, False
        chapter.is_first = event.from_state == GroupState.EMPTY.value

    def _phase_joined(self, chapter: _Chapter, ts_ms: int, event: PhaseJoined) -> Iterator[str]:
        if event.cause not in CAUSES:
            yield f"a generation has no known cause: {event}"
        if not chapter.is_joining:
            yield f"a generation without a rebalance: {event}"
        if event.generation <= chapter.generation:
            yield f"a new generation that is not newer than {chapter.generation}: {event}"
        if event.dropped and event.took_ms < chapter.patience_ms:
            yield f"members were waited for only {event.took_ms} ms: {event}"
        members = {each.member for each in event.members}
        if members != chapter.members.keys():
            odd = sorted(members.symmetric_difference(chapter.members))
            yield f"a generation of members whose coming or going was not told, {odd}: {event}"
        if event.leader not in members:
            yield f"whoever leads is not among the members: {event}"
        chapter.generation, chapter.joined_at_ms = event.generation, ts_ms
        chapter.is_joining, chapter.is_syncing = False, True

    def _completed(self, chapter: _Chapter, event: RebalanceCompleted) -> Iterator[str]:
        if event.generation != chapter.generation:
            yield f"completed, but generation {chapter.generation} is the newest: {event}"
        chapter.shares, chapter.shared_in = _shares(event.assigned), event.generation
        chapter.is_syncing = False
        if chapter.shares is None:
            return
        if chapter.shares.keys() != chapter.members.keys():
            yield f"shared out among others than the members {sorted(chapter.members)}: {event}"
        given = [each for share in chapter.shares.values() for each in share]
        if len(given) != len(set(given)):
            yield f"a partition was given away twice: {event}"

    def _emptied(self, chapter: _Chapter, event: GroupEmptied) -> Iterator[str]:
        if chapter.members:
            yield f"empty, although {sorted(chapter.members)} are there: {event}"
        if event.generation <= chapter.generation:
            yield f"a new generation that is not newer than {chapter.generation}: {event}"
        chapter.generation, chapter.shares = event.generation, None
        chapter.is_joining = chapter.is_syncing = False

    def _recovered(self, chapter: _Chapter, event: GroupRecovered) -> Iterator[str]:
        if event.generation < chapter.generation:
            yield f"generation {chapter.generation} was forgotten: {event}"
        is_stable = event.state == GroupState.STABLE.value
        shares = _shares(event.assigned)
        if is_stable and chapter.shared_in == event.generation and shares is not None:
            yield from self._compare(chapter, shares, event)
        timeouts = chapter.members
        chapter.members = {name: timeouts.get(name, 0) for name in event.members}
        chapter.generation = event.generation
        chapter.is_joining = event.state == GroupState.PREPARING.value
        chapter.is_syncing = event.state == GroupState.COMPLETING.value
        chapter.is_first = False
        chapter.shares = shares if is_stable else None
        chapter.shared_in = event.generation if is_stable else -1

    def _compare(self, chapter: _Chapter, shares: Shares, event: GroupRecovered) -> Iterator[str]:
        """Nothing of what was shared out before a crash may be different after it."""
        before = chapter.shares
        if before is None:
            return
        # A static member may have been replaced without anybody being told.
        if sorted(map(sorted, before.values())) != sorted(map(sorted, shares.values())):
            yield f"what was shared out is not what it was, {before}: {event}"

    def _committed(self, chapter: _Chapter, event: OffsetsCommitted) -> Iterator[str]:
        if event.generation != chapter.generation:
            yield f"a commit passed, but generation {chapter.generation} is the newest: {event}"
        elif chapter.is_syncing:
            yield f"a commit passed before its generation was given anything: {event}"
        if event.member not in chapter.members:
            yield f"a commit passed of somebody who is no member: {event}"
        for topic, offsets in event.offsets.items():
            for number in offsets:
                owner = chapter.owner((topic, int(number)))
                if owner not in (None, event.member):
                    yield f"a commit passed for what is {owner}'s: {event}"
