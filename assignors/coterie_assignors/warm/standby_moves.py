"""Standbys that are to move: to processes with less to do, or away from the same rack or tags.

A standby moves as a partition does: where it is to be, there is a copy first; until that is caught
up, the old one stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from coterie_assignors.copies import NO_COPY, Pair
from coterie_assignors.warm.group import Move
from coterie_assignors.warm.standbys import Standbys

__all__ = ["move_standbys"]

#: A copy's lag, its partition, and the process that has it.
_Copy = tuple[int, Pair, int]


def move_standbys(standbys: Standbys, most: int) -> list[Move]:
    """Move standbys to better places that are caught up; return what to copy to other ones.

    These are at most so many; copies that are under way come first, those least far behind before
    others.
    """
    search = _Search(standbys)
    ready, under_way = search.copies()
    search.to_caught_up(ready)
    moves = search.to_copies_under_way(under_way, most)
    while len(moves) < most:
        better = search.less_crowded() or search.less_loaded()
        if better is None:
            break
        move = search.made(better)
        if move is not None:
            moves.append(move)
    return [_move(standbys, pair, process) for pair, process in moves]


def _move(standbys: Standbys, pair: Pair, process: int) -> Move:
    group = standbys.group
    members = [m for m in group.copies.members_of[process] if group.may_keep(pair, m)]
    return Move(pair, min(members, key=lambda m: (group.copies.own_lag(pair, m), m)))


@dataclass(frozen=True, slots=True)
class _Better:
    """A standby that would be better with another process."""

    pair: Pair
    giver: int
    taker: int


class _Search:
    """Looks for moves; each one that is found counts for the next."""

    def __init__(self, standbys: Standbys) -> None:
        self._standbys = standbys
        self._loads = standbys.loads
        #: The partitions of which a standby is to move.
        self._moving: set[Pair] = set()
        #: The processes that may have a topic's standbys, by place.
        self._by_place: dict[str, list[list[int]]] = {}
        #: The partitions whose standbys may be less crowded elsewhere, the first ones last.
        self._unchecked = [] if standbys.places.is_one else list(reversed(standbys.of))
        #: The standbys that each process could hand over to processes in each place.
        self._movable: dict[tuple[int, int], list[Pair]] = {}

    def copies(self) -> tuple[list[_Copy], list[_Copy]]:
        """The copies, those that are caught up and the others, best ones first.

        Partitions are left out of which all copies are standbys or active already.
        """
        group = self._standbys.group
        known, active = group.copies.lags, self._standbys.active
        copies: list[_Copy] = []
        for pair, theirs in self._standbys.of.items():
            lags = known.get(pair)
            if not theirs or not lags:
                continue
            now = active[pair]
            if any(process != now and process not in theirs for process in lags):
                copies += [(lag, pair, process) for process, lag in lags.items()]
        copies.sort()
        first = bisect_right(
            copies, group.settings.acceptable_recovery_lag, key=lambda each: each[0]
        )
        return copies[:first], copies[first:]

    def to_caught_up(self, ready: Sequence[_Copy]) -> None:
        """Move standbys to better places that are caught up."""
        has_moved = True
        # One move can make room for another one; each makes places less crowded, or loads more
        # even, so there is a last one.
        while has_moved:
            has_moved = False
            for _, pair, process in ready:
                has_moved |= self._moved_at_once(pair, process)

    def to_copies_under_way(self, under_way: Sequence[_Copy], most: int) -> list[tuple[Pair, int]]:
        """Find moves to better places with copies that are not caught up."""
        moves: list[tuple[Pair, int]] = []
        for _, pair, process in under_way:
            if len(moves) == most:
                break
            worse = self._worse_than(pair, process)
            if worse is not None:
                moves.append(self._plan(_Better(pair, worse, process)))
        return moves

    def made(self, better: _Better) -> tuple[Pair, int] | None:
        """Move a standby without a copy at once; return what else is to be copied first."""
        if self._lag(better.pair, better.giver) < NO_COPY:
            return self._plan(better)
        # A move changes how crowded the places of all its copies are.
        changed = {better.taker, *self._standbys.of[better.pair]}
        self._movable = {
            key: found for key, found in self._movable.items() if key[0] not in changed
        }
        self._unchecked.append(better.pair)
        self._by_process[better.giver].remove(better.pair)
        self._by_process.setdefault(better.taker, []).append(better.pair)
        self._standbys.remove(better.pair, better.giver)
        self._standbys.add(better.pair, better.taker)
        return None

    def _moved_at_once(self, pair: Pair, taker: int) -> bool:
        if taker in self._standbys.of[pair]:
            return False
        worse = self._worse_than(pair, taker)
        if worse is None:
            return False
        self._standbys.remove(pair, worse)
        self._standbys.add(pair, taker)
        return True

    def less_crowded(self) -> _Better | None:
        """Find a standby that another process would keep farther from the others."""
        standbys = self._standbys
        if standbys.places.is_one:
            return None
        while self._unchecked:
            pair = self._unchecked[-1]
            moves = [
                (-gain, self._loads[taker], giver, taker)
                for giver, gain, takers in self._less_crowded(pair)
                for taker in takers
                if self._may_take(pair, taker)
            ]
            if moves:
                _, _, giver, taker = min(moves)
                return _Better(pair, giver, taker)
            self._unchecked.pop()
        return None

    def _less_crowded(self, pair: Pair) -> Iterator[tuple[int, int, list[int]]]:
        """The standbys that could be in better places, and the processes there."""
        standbys = self._standbys
        by_place = self._keepers_by_place(pair[0])
        # Standbys in one place are all alike; so are the processes in another one.
        givers = {standbys.places.of[each]: each for each in self._givers(pair)}
        for giver in givers.values():
            for takers in by_place:
                gain = standbys.gain(pair, giver, takers[0])
                if gain > 0:
                    yield giver, gain, takers

    def less_loaded(self) -> _Better | None:
        """Find a standby of a process that has two more than another one that may have it."""
        by_load = sorted(self._keepers, key=lambda each: (self._loads[each], each))
        for taker in by_load:
            for giver in reversed(by_load):
                if self._loads[giver] < self._loads[taker] + 2:
                    break
                able = [
                    (-self._lag(pair, giver), pair)
                    for pair in self._common(giver, taker)
                    if self._worse_than(pair, taker) == giver
                ]
                if able:
                    return _Better(min(able)[-1], giver, taker)
        return None

    def _lag(self, pair: Pair, process: int) -> int:
        return self._standbys.group.copies.lag(pair, process)

    def _plan(self, better: _Better) -> tuple[Pair, int]:
        """Count a move as done, which needs a copy first."""
        self._moving.add(better.pair)
        self._loads[better.giver] -= 1
        self._loads[better.taker] += 1
        return better.pair, better.taker

    def _worse_than(self, pair: Pair, taker: int) -> int | None:
        """The process whose standby would be better with another one, if there is one."""
        if not self._may_take(pair, taker):
            return None
        if not self._standbys.places.is_one:
            return self._most_crowded(pair, taker)
        loads = self._loads
        most, giver = max(
            ((loads[giver], giver) for giver in self._givers(pair)), default=(0, taker)
        )
        return giver if most >= loads[taker] + 2 else None

    def _most_crowded(self, pair: Pair, taker: int) -> int | None:
        gains = [
            (
                self._standbys.gain(pair, giver, taker),
                self._loads[giver] - self._loads[taker],
                giver,
            )
            for giver in self._givers(pair)
        ]
        less_crowded, less_loaded, giver = max(gains, default=(0, 0, taker))
        is_better = less_crowded > 0 or (less_crowded == 0 and less_loaded >= 2)
        return giver if is_better else None

    def _givers(self, pair: Pair) -> Iterator[int]:
        """The processes whose standby may move; where the partition itself is to be, it stays."""
        wanted = self._standbys.wanted(pair)
        return (each for each in self._standbys.of[pair] if each != wanted)

    def _may_take(self, pair: Pair, taker: int) -> bool:
        """What a partition itself is to move to gets a copy for that."""
        return (
            pair not in self._moving
            and taker != self._standbys.wanted(pair)
            and self._standbys.may_have(pair, taker)
        )

    def _keepers_by_place(self, topic: str) -> list[list[int]]:
        """The processes that may have a topic's standbys, by place."""
        if topic not in self._by_place:
            by_place: dict[int, list[int]] = {}
            for process in self._standbys.keepers(topic):
                by_place.setdefault(self._standbys.places.of[process], []).append(process)
            self._by_place[topic] = list(by_place.values())
        return self._by_place[topic]

    @cached_property
    def _keepers(self) -> frozenset[int]:
        """The processes that may have any standbys."""
        topics = {pair[0] for pair in self._standbys.of}
        return frozenset[int]().union(*map(self._standbys.keepers, topics))

    @cached_property
    def _by_process(self) -> dict[int, list[Pair]]:
        """The standbys of each process."""
        found: dict[int, list[Pair]] = {}
        for pair, theirs in self._standbys.of.items():
            for process in theirs:
                found.setdefault(process, []).append(pair)
        return found

    def _common(self, giver: int, taker: int) -> Iterator[Pair]:
        """A process's standbys of topics of another one, where they would be no more crowded."""
        place = self._standbys.places.of[taker]
        if (giver, place) not in self._movable:
            self._movable[giver, place] = [
                pair
                for pair in self._by_process.get(giver, ())
                if self._standbys.gain(pair, giver, taker) >= 0
            ]
        for pair in self._movable[giver, place]:
            if self._standbys.is_keeper(pair[0], taker):
                yield pair
