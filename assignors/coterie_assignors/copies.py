"""Who has copies of which partitions' state, and how far behind they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from coterie_assignors.base import MemberInfo
from coterie_assignors.state import RUNNING, STALLED, UNKNOWN

__all__ = ["NO_COPY", "UNKNOWN_LAG", "Copies", "Pair", "keeps_copies", "process_of"]

Pair = tuple[str, int]

#: Lags travel as 64 bits; no lag that is known is greater.
_LAG_MAX: Final = 2**63 - 1
#: Ranks behind all lags that are known.
UNKNOWN_LAG: Final = _LAG_MAX + 1
NO_COPY: Final = _LAG_MAX + 2

_Lags = Mapping[Pair, int]
_NOTHING: Final[_Lags] = {}


class Copies:
    """The copies of all members.

    Members and processes are numbers: indexes into the order that is handed over, and in the order
    of their first members.  A copy belongs to the process, whichever of its members reports it; a
    member without a report is a process by itself, and so is one that is away.
    """

    def __init__(self, order: Sequence[MemberInfo]) -> None:
        self.order = order
        #: The process of each member.
        self.process_of: list[int] = []
        #: The members of each process.
        self.members_of: list[list[int]] = []
        #: What each member reports.
        self._told: list[_Lags] = []
        #: The copies that were to be made, and the processes that do not get on with them.
        self.stalled: set[tuple[Pair, int]] = set()
        known: dict[Hashable, int] = {}
        for index, member in enumerate(order):
            report = member.warm
            process = known.setdefault(process_of(member), len(self.members_of))
            if process == len(self.members_of):
                self.members_of.append([])
            self.process_of.append(process)
            self.members_of[process].append(index)
            said = _NOTHING if report is None else report.lags
            told = _ranked(said)
            self._told.append(told)
            if told is not said:
                self.stalled |= {(pair, process) for pair, lag in said.items() if lag == STALLED}
        #: The lag of each copy that a process has: the smaller, the better.
        self.of_process: list[_Lags] = [
            self._told[members[0]] if len(members) == 1 else self._best(members)
            for members in self.members_of
        ]

    def _best(self, members: Sequence[int]) -> _Lags:
        best: dict[Pair, int] = {}
        for member in members:
            for pair, lag in self._told[member].items():
                if lag < best.get(pair, NO_COPY):
                    best[pair] = lag
        return best

    def told(self) -> Iterator[tuple[int, _Lags]]:
        """What each member reports, with its process."""
        return zip(self.process_of, self._told, strict=True)

    @cached_property
    def lags(self) -> dict[Pair, dict[int, int]]:
        """The lag of each process that has a copy, by partition."""
        found: dict[Pair, dict[int, int]] = {}
        for process, told in self.told():
            for pair, lag in told.items():
                of_pair = found.get(pair)
                if of_pair is None:
                    found[pair] = {process: lag}
                elif lag < of_pair.get(process, NO_COPY):
                    of_pair[process] = lag
        return found

    def of_member(self, member: int) -> _Lags:
        """The lags of the copies that a member's process has."""
        return self.of_process[self.process_of[member]]

    def lag(self, pair: Pair, process: int) -> int:
        """The lag of a process's copy; `UNKNOWN_LAG` and `NO_COPY` are greater than all others."""
        return self.of_process[process].get(pair, NO_COPY)

    def own_lag(self, pair: Pair, member: int) -> int:
        """The lag that one member reports."""
        return self._told[member].get(pair, NO_COPY)


def process_of(member: MemberInfo) -> Hashable:
    """What names the process of a member; a member that is one by itself has its own name."""
    if member.warm is None or member.is_away or member.warm.process is None:
        return member.member_id
    return member.warm.process


def keeps_copies(member: MemberInfo) -> bool:
    """Whether copies of partitions' state can be ordered of a member at all."""
    return member.warm is not None and not (member.is_away or member.is_drained)


def _ranked(lags: _Lags) -> _Lags:
    """The lags as ranks; mostly they are.  What has stalled has none."""
    distinct = set(lags.values()) - {RUNNING}
    if not distinct or (min(distinct) >= 0 and max(distinct) <= _LAG_MAX):
        return lags
    return {pair: _rank(lag) for pair, lag in lags.items() if lag != STALLED}


def _rank(lag: int) -> int:
    """What an owner has is the newest there is; of negative numbers, only `RUNNING` tells a lag."""
    if lag == RUNNING or 0 <= lag <= _LAG_MAX:
        return lag
    return UNKNOWN_LAG if lag == UNKNOWN or lag < 0 else _LAG_MAX
