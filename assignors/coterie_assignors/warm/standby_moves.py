"""Standbys that are to move: to processes with less to do, or away from the same rack or tags.

A standby moves as a partition does: where it is to be, there is a copy first; until that is caught
up, the old one stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from coterie_assignors.copies import Pair
from coterie_assignors.warm.group import Move
from coterie_assignors.warm.standbys import Standbys

__all__ = ["move_standbys"]


def move_standbys(standbys: Standbys, most: int) -> list[Move]:
    """Move standbys to better places that are caught up; return what to copy to other ones.

    These are at most so many; copies that are under way come first, those least far behind before
    others.
    """
    search = _Search(standbys)
    moves = search.to_copies(most)
    while len(moves) < most:
        move = search.to_less_crowded() or search.to_less_loaded()
        if move is None:
            break
        moves.append(move)
    return [_move(standbys, pair, process) for pair, process in moves]


def _move(standbys: Standbys, pair: Pair, process: int) -> Move:
    group = standbys.group
    members = [m for m in group.copies.members_of[process] if group.may_keep(pair, m)]
    return Move(pair, min(members, key=lambda m: (group.copies.own_lag(pair, m), m)))


class _Search:
    """Looks for moves; each one that is found counts for the next."""

    def __init__(self, standbys: Standbys) -> None:
        self._standbys = standbys
        self._loads = standbys.loads
        #: The partitions of which a standby is to move.
        self._moving: set[Pair] = set()
        self._keepers = sorted(
            {each for topic in {p[0] for p in standbys.of} for each in standbys.keepers(topic)}
        )
        self._by_place = {topic: self._grouped(topic) for topic in {p[0] for p in standbys.of}}

    def to_copies(self, most: int) -> list[tuple[Pair, int]]:
        """Move to copies that there are: at once if they are caught up, else later."""
        group = self._standbys.group
        under_way: list[tuple[int, Pair, int]] = []
        for pair, theirs in self._standbys.of.items():
            if not theirs:
                continue
            for process, lag in sorted(group.copies.lags.get(pair, {}).items()):
                if lag > group.settings.acceptable_recovery_lag:
                    under_way.append((lag, pair, process))
                    continue
                worse = self._worse_than(pair, process)
                if worse is not None:
                    self._standbys.remove(pair, worse)
                    self._standbys.add(pair, process)
        moves: list[tuple[Pair, int]] = []
        for _, pair, process in sorted(under_way):
            if len(moves) == most:
                break
            worse = self._worse_than(pair, process)
            if worse is not None:
                moves.append(self._plan(pair, worse, process))
        return moves

    def to_less_crowded(self) -> tuple[Pair, int] | None:
        """Find a standby that another process would keep farther from the others."""
        standbys = self._standbys
        if standbys.places.is_one:
            return None
        for pair in standbys.of:
            moves = [
                (-gain, self._loads[taker], giver, taker)
                for giver, gain, takers in self._less_crowded(pair)
                for taker in takers
                if self._may_take(pair, taker)
            ]
            if moves:
                _, _, giver, taker = min(moves)
                return self._plan(pair, giver, taker)
        return None

    def _less_crowded(self, pair: Pair) -> Iterator[tuple[int, int, list[int]]]:
        """The standbys that could be in better places, and the processes there."""
        standbys = self._standbys
        by_place = self._by_place[pair[0]]
        # Standbys in one place are all alike; so are the processes in another one.
        givers = {standbys.places.of[each]: each for each in standbys.of[pair]}
        for giver in givers.values():
            for takers in by_place:
                gain = standbys.gain(pair, giver, takers[0])
                if gain > 0:
                    yield giver, gain, takers

    def to_less_loaded(self) -> tuple[Pair, int] | None:
        """Find a standby of a process that has two more than another one that may have it."""
        by_load = sorted(self._keepers, key=lambda each: (self._loads[each], each))
        if not by_load or self._loads[by_load[-1]] < self._loads[by_load[0]] + 2:
            return None
        by_process = self._by_process()
        for taker in by_load:
            for giver in reversed(by_load):
                if self._loads[giver] < self._loads[taker] + 2:
                    break
                for pair in self._common(by_process.get(giver, {}), taker):
                    if self._worse_than(pair, taker) == giver:
                        return self._plan(pair, giver, taker)
        return None

    def _plan(self, pair: Pair, giver: int, taker: int) -> tuple[Pair, int]:
        self._moving.add(pair)
        self._loads[giver] -= 1
        self._loads[taker] += 1
        return pair, taker

    def _worse_than(self, pair: Pair, taker: int) -> int | None:
        """The process whose standby would be better with another one, if there is one."""
        if not self._may_take(pair, taker):
            return None
        gains = [
            (
                self._standbys.gain(pair, giver, taker),
                self._loads[giver] - self._loads[taker],
                giver,
            )
            for giver in self._standbys.of[pair]
        ]
        less_crowded, less_loaded, giver = max(gains)
        is_better = less_crowded > 0 or (less_crowded == 0 and less_loaded >= 2)
        return giver if is_better else None

    def _may_take(self, pair: Pair, taker: int) -> bool:
        """What a partition itself is to move to gets a copy for that."""
        return (
            pair not in self._moving
            and taker != self._standbys.wanted(pair)
            and self._standbys.may_have(pair, taker)
        )

    def _grouped(self, topic: str) -> list[list[int]]:
        """The processes that may have a topic's standbys, by place."""
        by_place: dict[int, list[int]] = {}
        for process in self._standbys.keepers(topic):
            by_place.setdefault(self._standbys.places.of[process], []).append(process)
        return list(by_place.values())

    def _by_process(self) -> dict[int, dict[str, list[Pair]]]:
        """The standbys of each process, by topic."""
        found: dict[int, dict[str, list[Pair]]] = {}
        for pair, theirs in self._standbys.of.items():
            for process in theirs:
                found.setdefault(process, {}).setdefault(pair[0], []).append(pair)
        return found

    def _common(self, by_topic: dict[str, list[Pair]], taker: int) -> Iterator[Pair]:
        """The standbys of topics that the taker subscribes to as well."""
        for topic, pairs in by_topic.items():
            if taker in self._standbys.keepers(topic):
                yield from pairs
