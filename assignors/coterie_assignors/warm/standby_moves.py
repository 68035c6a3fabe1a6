"""Standbys that are to move: to processes with less to do, or away from the same rack or tags.

A standby moves as a partition does: where it is to be, there is a copy first; until that is caught
up, the old one stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from coterie_assignors.copies import NO_COPY
from coterie_assignors.warm.group import Move
from coterie_assignors.warm.standbys import Standbys

__all__ = ["move_standbys"]

#: A copy's lag, its partition, and the process that has it.
_Copy = tuple[int, int, int]


def move_standbys(standbys: Standbys, most: int) -> list[Move]:
    """Move standbys to better places that are caught up; return what to copy to other ones.

    These are at most so many; copies that are under way come first, those least far behind before
    others.
    """
    if not any(standbys.of):
        return []
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
    return [_move(standbys, task, process) for task, process in moves]


def _move(standbys: Standbys, task: int, process: int) -> Move:
    group = standbys.group
    members = [m for m in group.copies.members_of[process] if group.may_keep(task, m)]
    return Move(task, min(members, key=lambda m: (group.own_lag(task, m), m)))


@dataclass(frozen=True, slots=True)
class _Better:
    """A standby that would be better with another process."""

    task: int
    giver: int
    taker: int


class _Search:
    """Looks for moves; each one that is found counts for the next."""

    def __init__(self, standbys: Standbys) -> None:
        self._standbys = standbys
        self._loads = standbys.loads
        #: The partitions of which a standby is to move.
        self._moving: set[int] = set()
        #: The processes that may have a topic's standbys, by place.
        self._by_place: dict[str, list[list[int]]] = {}
        #: The partitions whose standbys may be less crowded elsewhere, the first ones last.
        self._unchecked = [] if standbys.places.is_one else list(reversed(range(len(standbys.of))))
        #: The standbys that each process could hand over to processes in each place.
        self._movable: dict[tuple[int, int], list[int]] = {}

    def copies(self) -> tuple[list[_Copy], list[_Copy]]:
        """The copies, those that are caught up and the others, best ones first.

        Partitions are left out of which all copies are standbys or active already.
        """
        group = self._standbys.group
        copies: list[_Copy] = []
        for task, (theirs, now) in enumerate(
            zip(self._standbys.of, self._standbys.active, strict=True)
        ):
            if not theirs:
                continue
            lags = group.lags[task]
            for process in lags:
                if process != now and process not in theirs:
                    copies += [(lag, task, each) for each, lag in lags.items()]
                    break
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
            for _, task, process in ready:
                has_moved |= self._moved_at_once(task, process)

    def to_copies_under_way(self, under_way: Sequence[_Copy], most: int) -> list[tuple[int, int]]:
        """Find moves to better places with copies that are not caught up."""
        moves: list[tuple[int, int]] = []
        for _, task, process in under_way:
            if len(moves) == most:
                break
            worse = self._worse_than(task, process)
            if worse is not None:
                moves.append(self._plan(_Better(task, worse, process)))
        return moves

    def made(self, better: _Better) -> tuple[int, int] | None:
        """Move a standby without a copy at once; return what else is to be copied first."""
        if self._lag(better.task, better.giver) < NO_COPY:
            return self._plan(better)
        # A move changes how crowded the places of all its copies are.
        changed = {better.taker, *self._standbys.of[better.task]}
        self._movable = {
            key: found for key, found in self._movable.items() if key[0] not in changed
        }
        self._unchecked.append(better.task)
        self._by_process[better.giver].remove(better.task)
        self._by_process.setdefault(better.taker, []).append(better.task)
        self._standbys.remove(better.task, better.giver)
        self._standbys.add(better.task, better.taker)
        return None

    def _moved_at_once(self, task: int, taker: int) -> bool:
        if taker in self._standbys.of[task]:
            return False
        worse = self._worse_than(task, taker)
        if worse is None:
            return False
        self._standbys.remove(task, worse)
        self._standbys.add(task, taker)
        return True

    def less_crowded(self) -> _Better | None:
        """Find a standby that another process would keep farther from the others."""
        standbys = self._standbys
        if standbys.places.is_one:
            return None
        while self._unchecked:
            task = self._unchecked[-1]
            moves = [
                (-gain, self._loads[taker], giver, taker)
                for giver, gain, takers in self._less_crowded(task)
                for taker in takers
                if self._may_take(task, taker)
            ]
            if moves:
                _, _, giver, taker = min(moves)
                return _Better(task, giver, taker)
            self._unchecked.pop()
        return None

    def _less_crowded(self, task: int) -> Iterator[tuple[int, int, list[int]]]:
        """The standbys that could be in better places, and the processes there."""
        standbys = self._standbys
        by_place = self._keepers_by_place(standbys.group.tasks.topics[task])
        # Standbys in one place are all alike; so are the processes in another one.
        givers = {standbys.places.of[each]: each for each in self._givers(task)}
        for giver in givers.values():
            for takers in by_place:
                gain = standbys.gain(task, giver, takers[0])
                if gain > 0:
                    yield giver, gain, takers

    def less_loaded(self) -> _Better | None:
        """Find a standby of a process that has two more than another one that may have it."""
        by_load = sorted(self._keepers, key=lambda each: (self._loads[each], each))
        for taker in by_load:
            for giver in reversed(by_load):
                if self._loads[giver] < self._loads[taker] + 2:
                    break
                task = self._best_to_move(giver, taker)
                if task is not None:
                    return _Better(task, giver, taker)
        return None

    def _best_to_move(self, giver: int, taker: int) -> int | None:
        """The standby that is farthest behind, of those that would be better with the taker."""
        best: tuple[int, int] | None = None
        for task in self._common(giver, taker):
            key = -self._lag(task, giver), task
            # Looking closer takes longer than comparing.
            if (best is None or key < best) and self._worse_than(task, taker) == giver:
                best = key
        return None if best is None else best[1]

    def _lag(self, task: int, process: int) -> int:
        return self._standbys.group.lags[task].get(process, NO_COPY)

    def _plan(self, better: _Better) -> tuple[int, int]:
        """Count a move as done, which needs a copy first."""
        self._moving.add(better.task)
        self._loads[better.giver] -= 1
        self._loads[better.taker] += 1
        return better.task, better.taker

    def _worse_than(self, task: int, taker: int) -> int | None:
        """The process whose standby would be better with another one, if there is one."""
        if not self._may_take(task, taker):
            return None
        if not self._standbys.places.is_one:
            return self._most_crowded(task, taker)
        loads = self._loads
        most, giver = max(
            ((loads[giver], giver) for giver in self._givers(task)), default=(0, taker)
        )
        return giver if most >= loads[taker] + 2 else None

    def _most_crowded(self, task: int, taker: int) -> int | None:
        gains = [
            (
                self._standbys.gain(task, giver, taker),
                self._loads[giver] - self._loads[taker],
                giver,
            )
            for giver in self._givers(task)
        ]
        less_crowded, less_loaded, giver = max(gains, default=(0, 0, taker))
        is_better = less_crowded > 0 or (less_crowded == 0 and less_loaded >= 2)
        return giver if is_better else None

    def _givers(self, task: int) -> Iterator[int]:
        """The processes whose standby may move; where the partition itself is to be, it stays."""
        wanted = self._standbys.wanted[task]
        return (each for each in self._standbys.of[task] if each != wanted)

    def _may_take(self, task: int, taker: int) -> bool:
        """What a partition itself is to move to gets a copy for that."""
        return (
            task not in self._moving
            and taker != self._standbys.wanted[task]
            and self._standbys.may_have(task, taker)
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
        topics = self._standbys.group.tasks.of_topic
        return frozenset[int]().union(*map(self._standbys.keepers, topics))

    @cached_property
    def _by_process(self) -> dict[int, list[int]]:
        """The standbys of each process."""
        return self._standbys.by_process()

    def _common(self, giver: int, taker: int) -> Iterator[int]:
        """A process's standbys of topics of another one, where they would be no more crowded."""
        place, topics = self._standbys.places.of[taker], self._standbys.group.tasks.topics
        if (giver, place) not in self._movable:
            self._movable[giver, place] = [
                task
                for task in self._by_process.get(giver, ())
                if self._standbys.gain(task, giver, taker) >= 0
            ]
        for task in self._movable[giver, place]:
            if self._standbys.is_keeper(topics[task], taker):
                yield task
