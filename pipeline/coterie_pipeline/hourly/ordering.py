"""A group's commits in the order of its other lines, though they come by date.

While a node has the group, its commits come in the order of their numbers.  Between nodes, whose
clocks may disagree, the order is that of the stints in which they had the group.  Where no line
tells who had it, as of a group without members, dates decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie_protocol.replay.order import Stint
from coterie_protocol.replay.spool import Spool

__all__ = ["CommitOrder", "Some"]

_Numbers = npt.NDArray[np.int64]

#: Where it is not told who has the group.
_UNTOLD: Final = -1


class Some(NamedTuple):
    """Some commits: when each was, the member, and the offsets as text."""

    times_ms: _Numbers
    members: Sequence[str]
    offsets: Sequence[str]


@dataclass(slots=True)
class _OfNode:
    """What a node's lines tell: from which number on which place it has."""

    seqs: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class CommitOrder:
    """Puts commits in order, which come by date.

    Each stint is a place, and so is the time after each, for commits of which no line tells where
    they belong.
    """

    def __init__(self, stints: Sequence[Stint]) -> None:
        told = [stint for stint in stints if stint.first is not None]
        #: Whether there is an order other than that of dates.
        self._is_told = len(told) > 1
        self._begun_ms = np.maximum.accumulate(
            np.array([stint.begun_ms for stint in told], np.int64)
        )
        self._by_node: dict[str, _OfNode] = {}
        for place, stint in sorted(enumerate(told), key=lambda it: (it[1].node, it[1].seq)):
            of_node = self._by_node.setdefault(stint.node, _OfNode())
            of_node.seqs.append(stint.seq)
            of_node.places.append(2 * place + 1)
            if stint.is_deletion:
                of_node.seqs.append(stint.last_seq + 1)
                of_node.places.append(_UNTOLD)
        self._spool = Spool()
        #: The numbers of what is in the spool, by place.
        self._kept: dict[int, list[int]] = {}

    def add(self, nodes: Sequence[str], seqs: _Numbers, some: Some) -> Iterator[Some]:
        """Take in the next commits by date; those that are next in order, if that is known yet."""
        if not self._is_told:
            yield some
            return
        places = self._places(np.array(nodes), seqs, some.times_ms)
        for place in np.unique(places).tolist():
            rows = np.flatnonzero(places == place)
            members = [some.members[row] for row in rows.tolist()]
            offsets = [some.offsets[row] for row in rows.tolist()]
            self._kept.setdefault(place, []).append(len(self._spool))
            size = sum(map(len, offsets)) + sum(map(len, members))
            self._spool.append((some.times_ms[rows].tobytes(), members, offsets), size)

    def rest(self) -> Iterator[Some]:
        """There are no more commits; those that are left, in order."""
        for place in sorted(self._kept):
            for number in self._kept[place]:
                for times_ms, members, offsets in self._spool.slice(number, number + 1):
                    yield Some(np.frombuffer(times_ms, np.int64), members, offsets)

    def _places(self, nodes: npt.NDArray[np.str_], seqs: _Numbers, times_ms: _Numbers) -> _Numbers:
        places = np.full(len(seqs), _UNTOLD, np.int64)
        for node in np.unique(nodes).tolist():
            of_node = self._by_node.get(node)
            if of_node is not None:
                own = np.flatnonzero(nodes == node)
                index = np.searchsorted(of_node.seqs, seqs[own], side="right")
                places[own] = np.array([_UNTOLD, *of_node.places], np.int64)[index]
        untold = np.flatnonzero(places == _UNTOLD)
        places[untold] = 2 * np.searchsorted(self._begun_ms, times_ms[untold], side="right")
        return places
