"""Who has copies of which partitions' state, and how far behind they are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from coterie_assignors.base import MemberInfo
from coterie_assignors.state import RUNNING, STALLED, UNKNOWN

__all__ = ["NO_COPY", "UNKNOWN_LAG", "Copies", "Pair"]

Pair = tuple[str, int]

#: Lags travel as 64 bits; no lag that is known is greater.
_LAG_MAX: Final = 2**63 - 1
#: Ranks behind all lags that are known.
UNKNOWN_LAG: Final = _LAG_MAX + 1
NO_COPY: Final = _LAG_MAX + 2


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
        #: The lag of each process that has a copy, by partition: the smaller, the better.
        self.lags: dict[Pair, dict[int, int]] = {}
        #: The copies that were to be made, and the processes that do not get on with them.
        self.stalled: set[tuple[Pair, int]] = set()
        known: dict[Hashable, int] = {}
        for index, member in enumerate(order):
            report = member.warm
            process_id = None if report is None or member.is_away else report.process
            key = member.member_id if process_id is None else process_id
            process = known.setdefault(key, len(self.members_of))
            if process == len(self.members_of):
                self.members_of.append([])
            self.process_of.append(process)
            self.members_of[process].append(index)
            if report is not None:
                self._add(process, report.lags)

    def _add(self, process: int, lags: Mapping[Pair, int]) -> None:
        known = self.lags
        for pair, lag in lags.items():
            if lag == STALLED:
                self.stalled.add((pair, process))
                continue
            rank = lag if 0 <= lag <= _LAG_MAX else _rank(lag)
            of_pair = known.get(pair)
            if of_pair is None:
                known[pair] = {process: rank}
            elif rank < of_pair.get(process, NO_COPY):
                of_pair[process] = rank

    def lag(self, pair: Pair, process: int) -> int:
        """The lag of a process's copy; `UNKNOWN_LAG` and `NO_COPY` are greater than all others."""
        of_pair = self.lags.get(pair)
        return NO_COPY if of_pair is None else of_pair.get(process, NO_COPY)

    def own_lag(self, pair: Pair, member: int) -> int:
        """The lag that one member reports."""
        report = self.order[member].warm
        return _rank(report.lags[pair]) if report and pair in report.lags else NO_COPY


def _rank(lag: int) -> int:
    """What an owner has is the newest there is; of negative numbers, only `RUNNING` tells a lag."""
    if lag == RUNNING or 0 <= lag <= _LAG_MAX:
        return lag
    return UNKNOWN_LAG if lag == UNKNOWN or lag < 0 else _LAG_MAX
