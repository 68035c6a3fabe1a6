"""Who had which shard: the journals of all nodes have to tell one possible story.

These are the rules of the model in docs/model, as far as journals show them.  A claim takes a
higher epoch than all before.  A node writes about a group only while it has the group's shard, and
not once another node has taken a higher epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coterie_protocol.journal import Line, NodePaused, NodeStarted, ShardGiven, ShardTaken

__all__ = ["handover_faults"]

Epoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A node took a shard."""

    shard: int
    epoch: Epoch
    line: Line
    #: How often its node had started before.
    starts: int


@dataclass(frozen=True, slots=True)
class _Act:
    """A line that only the owner of a shard may write."""

    shard: int
    epoch: Epoch
    line: Line
    #: When it may have happened at the earliest.
    since_ms: int


@dataclass(slots=True)
class _Story:
    """What the journals of all nodes tell."""

    claims: list[_Claim] = field(default_factory=list)
    acts: list[_Act] = field(default_factory=list)


def handover_faults(
    lines: Iterable[Line], shard_of: Callable[[str], int], clock_error_ms: int
) -> Iterator[str]:
    """Say what is impossible in the journals of some nodes, whose lines may come in any order.

    `shard_of` is the shard of a group.  The clocks of two nodes may differ by `clock_error_ms`, and
    lines be late by that; time for which a node was paused counts besides, if its journal says so.
    Of a node whose journal does not begin with its first line, or lacks lines, only what the others
    show is known; and a node that tells of no shards has a store of its own.
    """
    by_node: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_node[line.node].append(line)
    story = _Story()
    for of_node in by_node.values():
        of_node.sort(key=lambda line: line.seq)
        if any(isinstance(line.event, ShardTaken | ShardGiven) for line in of_node):
            yield from _Node(of_node, shard_of, clock_error_ms).follow(story)
    yield from _twice(story.claims)
    yield from _too_late(story, clock_error_ms)


class _Node:
    """Follows one node's journal, in its order."""

    def __init__(
        self, lines: Sequence[Line], shard_of: Callable[[str], int], lateness_ms: int
    ) -> None:
        self._lines = lines
        self._shard_of = shard_of
        self._lateness_ms = lateness_ms
        #: The claims that are in effect, and the highest epoch so far, by shard.
        self._held: dict[int, _Claim] = {}
        self._highest: dict[int, Epoch] = {}
        #: Shards of which it is known whether the node has them; None for all of them.
        self._known: set[int] | None = None
        #: Whether lines are missing since the node last started.
        self._has_gap = False
        self._starts = 0
        self._pauses = [
            (line.ts, line.event.paused_ms) for line in lines if isinstance(line.event, NodePaused)
        ]

    def follow(self, story: _Story) -> Iterator[str]:
        next_seq = 1
        for line in self._lines:
            if line.seq > next_seq:
                self._held.clear()
                self._known, self._has_gap = set(), True
            next_seq = line.seq + 1
            match line.event:
                case ShardTaken():
                    yield from self._taken(line, line.event, story)
                case ShardGiven():
                    yield from self._given(line, line.event)
                case NodeStarted():
                    self._started()
                case event if event.group:
                    yield from self._acted(line, story)

    def _taken(self, line: Line, event: ShardTaken, story: _Story) -> Iterator[str]:
        epoch = _epoch(event.epoch)
        if epoch is None:
            yield f"{_place(line)} has no epoch: {event}"
            return
        former = self._highest.setdefault(event.shard, epoch)
        if epoch < former:
            yield f"{_place(line)} goes back from epoch {_text(former)}: {event}"
        self._highest[event.shard] = max(former, epoch)
        claim = _Claim(event.shard, epoch, line, self._starts)
        self._held[event.shard] = claim
        self._learn(event.shard)
        story.claims.append(claim)
        story.acts.append(_Act(event.shard, epoch, line, self._since_ms(line)))

    def _given(self, line: Line, event: ShardGiven) -> Iterator[str]:
        held = self._held.pop(event.shard, None)
        if held is None:
            if self._knows(event.shard):
                yield f"{_place(line)} gives what its node does not have: {event}"
        elif _epoch(event.epoch) != held.epoch:
            yield f"{_place(line)} gives what its node has as {_text(held.epoch)}: {event}"
        self._learn(event.shard)

    def _started(self) -> None:
        """A process has only what it took itself, and until now it took that as it started."""
        self._held = {
            shard: claim
            for shard, claim in self._held.items()
            if claim.starts == self._starts and _took_at_start(claim)
        }
        self._starts += 1
        # What is missing may be what it took as it started; the next start has no such gap.
        self._known = self._known if self._has_gap else None
        self._has_gap = False

    def _acted(self, line: Line, story: _Story) -> Iterator[str]:
        shard = self._shard_of(line.event.group)
        held = self._held.get(shard)
        if held is not None:
            story.acts.append(_Act(shard, held.epoch, line, self._since_ms(line)))
        elif self._knows(shard):
            yield f"{_place(line)} is of shard {shard}, which its node does not have: {line.event}"

    def _knows(self, shard: int) -> bool:
        return self._known is None or shard in self._known

    def _learn(self, shard: int) -> None:
        if self._known is not None:
            self._known.add(shard)

    def _since_ms(self, line: Line) -> int:
        """What was stored before a pause may be written down after it."""
        first = bisect_right(self._pauses, (line.ts - self._lateness_ms, 0))
        last = bisect_right(self._pauses, (line.ts + self._lateness_ms, 0))
        return line.ts - sum(paused_ms for _, paused_ms in self._pauses[first:last])


def _took_at_start(claim: _Claim) -> bool:
    return isinstance(claim.line.event, ShardTaken) and claim.line.event.how == "start"


def _twice(claims: Iterable[_Claim]) -> Iterator[str]:
    """Each epoch of a shard is that of one claim."""
    first: dict[tuple[int, Epoch], _Claim] = {}
    for claim in claims:
        other = first.setdefault((claim.shard, claim.epoch), claim)
        if other is not claim:
            yield (
                f"epoch {_text(claim.epoch)} of shard {claim.shard} was taken twice, "
                f"{_place(other.line)} and {_place(claim.line)}"
            )


def _too_late(story: _Story, clock_error_ms: int) -> Iterator[str]:
    """Nothing happens under an epoch once a higher one was taken."""
    higher = {shard: _Higher(claims) for shard, claims in _by_shard(story.claims).items()}
    for act in story.acts:
        claim = higher[act.shard].earliest(act.epoch)
        if claim is not None and act.since_ms > claim.line.ts + clock_error_ms:
            yield (
                f"{_place(act.line)} comes under epoch {_text(act.epoch)} of shard {act.shard}, "
                f"{act.line.ts - claim.line.ts} ms after {_place(claim.line)} took "
                f"{_text(claim.epoch)}: {act.line.event}"
            )


def _by_shard(claims: Iterable[_Claim]) -> Mapping[int, list[_Claim]]:
    found: dict[int, list[_Claim]] = defaultdict(list)
    for claim in claims:
        found[claim.shard].append(claim)
    return found


class _Higher:
    """Finds, for an epoch of a shard, which of the later ones was taken first."""

    def __init__(self, claims: Iterable[_Claim]) -> None:
        ordered = sorted(claims, key=lambda claim: claim.epoch)
        self._epochs = [claim.epoch for claim in ordered]
        self._earliest: list[_Claim] = []
        for claim in reversed(ordered):
            later = self._earliest[-1] if self._earliest else claim
            self._earliest.append(later if later.line.ts < claim.line.ts else claim)
        self._earliest.reverse()

    def earliest(self, epoch: Epoch) -> _Claim | None:
        place = bisect_right(self._epochs, epoch)
        return self._earliest[place] if place < len(self._earliest) else None


def _epoch(text: str) -> Epoch | None:
    """What orders epochs: "2.7" is the seventh of the second timeline."""
    timeline, dot, number = text.rpartition(".")
    if not number.isdecimal() or (dot and not timeline.isdecimal()):
        return None
    return int(timeline or 0), int(number)


def _text(epoch: Epoch) -> str:
    timeline, number = epoch
    return f"{timeline}.{number}" if timeline else str(number)


def _place(line: Line) -> str:
    return f"line {line.seq} of node {line.node}"
