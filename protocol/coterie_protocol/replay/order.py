"""The lines of a group in one order, with a time that never goes back.

Within one node the numbers give the order.  Between nodes, whose clocks may disagree, the group's
generation does, as it never goes back, and within a generation the fences under which they read it.
What a node writes from one reading of the group to the next is a *stint*; stints are never mixed.
Of a group that was deleted nothing is left to be read, so a stint also ends with a deletion, and
where a first member comes: another node may have had the group, and deleted it, meanwhile.

Dates only decide where nothing else tells: in journals without fences, and of several deletions in
one generation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Final

from coterie_protocol.replay.last_state import IN_REBALANCE, LastState
from coterie_protocol.replay.spool import Spool

__all__ = ["GroupLines", "Placed", "Source", "Stint", "moves_time"]

#: The generation of a stint in which none is named.
_BEFORE_ALL: Final = -1

#: About the size of a line, for lines whose text is not at hand.
_LINE_BYTES: Final = 400

_RECOVERED: Final = "group_recovered"
_DELETED: Final = "group_deleted"
#: Lines by which a rebalance begins or goes on, and those by which none goes on.
_GOES_ON: Final = ("rebalance_started", "phase_joined")
_IS_OVER: Final = ("rebalance_completed", "group_emptied", "group_deleted")
#: Lines that tell of a generation as it begins.
_BEGINS: Final = ("phase_joined", "group_emptied")
_OF_OFFSETS: Final = ("offsets_deleted", "offsets_expired")

_Rank = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A control line as it comes: by node and number, and each number of a node once."""

    node: str
    seq: int
    ts: int
    #: The line's fields.
    values: Mapping[str, Any]
    size: int = _LINE_BYTES


@dataclass(slots=True)
class Placed:
    """A line in its place."""

    #: From 1 on.
    pos: int
    at: int
    ts: int
    node: str
    seq: int
    kind: str
    values: Mapping[str, Any]
    #: Whether a node reads the group back by it, just where the lines before leave it.
    resumes: bool = False

    def __getitem__(self, name: str) -> Any:  # any JSON
        return self.values.get(name)


def moves_time(kind: str) -> bool:
    """Whether a line shows how late it is for the group.

    Offsets may be forgotten before a node tells that it has read the group, and of a group without
    members no node tells that: then such a line stands among those from before.
    """
    return kind not in _OF_OFFSETS


def _is_first_start(values: Mapping[str, Any]) -> bool:
    return values["kind"] == "rebalance_started" and values.get("from_state") == "Empty"


@dataclass(slots=True)
class Stint:
    """Consecutive lines of one node, from one number on."""

    node: str
    seq: int
    #: Its place among all lines as they came.
    begin: int
    end: int = 0
    last_seq: int = 0
    #: The latest time of its node when it begins; None as long as it is only about offsets.
    since_ms: int | None = None
    fence: int = 0
    #: The generation that the group was in at its beginning, and at its end; None if none is named.
    first: int | None = None
    last: int = _BEFORE_ALL
    #: Whether the group had no members as it began, though no node has told that it read it then.
    is_new_life: bool = False
    #: Whether it ends with the group's deletion.
    is_deletion: bool = False
    #: Whether a rebalance goes on as it ends; None if it does not tell.
    is_rebalancing: bool | None = None

    def goes_on_with(self, values: Mapping[str, Any]) -> bool:
        """Whether the next line of its node belongs to it."""
        is_over = self.is_deletion or values["kind"] == _RECOVERED or _is_first_start(values)
        return self.since_ms is None or not is_over

    def note(self, values: Mapping[str, Any], clock_ms: int) -> None:
        """Take in its next line, and the latest time of its node."""
        kind, generation = values["kind"], values.get("generation")
        if not moves_time(kind):
            return
        if self.since_ms is None:
            self.since_ms, self.fence = clock_ms, values.get("fence") or 0
        self.is_deletion = kind == _DELETED
        if kind in _GOES_ON or kind in _IS_OVER:
            self.is_rebalancing = kind in _GOES_ON
        elif kind == _RECOVERED:
            self.is_rebalancing = values.get("state") in IN_REBALANCE
        if generation is None:
            return
        if self.first is None:
            self.first = generation - (kind in _BEGINS)
            self.is_new_life = self.is_deletion or _is_first_start(values)
        self.last = max(self.last, generation)

    @property
    def begun_ms(self) -> int:
        """When it began, by the clock of its node."""
        return self.since_ms or 0

    @property
    def rank(self) -> _Rank:
        """What sorts it by generations and fences: one that goes on to the next comes last."""
        first = _BEFORE_ALL if self.first is None else self.first
        return first, self.last, self.fence, self.begun_ms, self.node, self.seq


class GroupLines:
    """All control lines of one group, to be read in order as often as wanted."""

    def __init__(self, lines: Iterable[Source] = ()) -> None:
        self._spool = Spool()
        self._stints: list[Stint] = []
        #: The latest time of the node whose lines are being added.
        self._clock = 0
        #: The number and the time of the line before, if by it a member came.
        self._newcomer: tuple[int, int] | None = None
        #: The latest time of any line.
        self.last_ms = 0
        for line in lines:
            self.add(line)

    def add(self, line: Source) -> None:
        """Add the next line, by node and number."""
        former = self._stints[-1] if self._stints else None
        if former is None or former.node != line.node:
            former = self._newcomer = None
        self._clock = line.ts if former is None else max(self._clock, line.ts)
        if former is None or not former.goes_on_with(line.values):
            self._stints.append(Stint(line.node, line.seq, len(self._spool)))
            if former is not None and _is_first_start(line.values):
                self._bring_newcomer(former, self._stints[-1])
        stint = self._stints[-1]
        stint.note(line.values, self._clock)
        self._spool.append((line.seq, line.ts, dict(line.values)), line.size)
        stint.end, stint.last_seq = len(self._spool), line.seq
        self.last_ms = max(self.last_ms, line.ts)
        is_newcomer = line.values["kind"] == "member_joined"
        self._newcomer = (line.seq, self._clock) if is_newcomer else None

    def _bring_newcomer(self, former: Stint, stint: Stint) -> None:
        """Have a stint begin with the member whose coming led to its first line."""
        if self._newcomer is None:
            return
        stint.seq, stint.since_ms = self._newcomer
        stint.begin = former.end = stint.begin - 1
        if former.begin == former.end:
            del self._stints[-2]

    def stints(self) -> list[Stint]:
        """All of them in order."""
        return _in_order(self._stints)

    def hangs_on(self) -> Stint | None:
        """The last stint, if a rebalance goes on as the lines end."""
        stints = self.stints()
        told = (each.is_rebalancing for each in reversed(stints))
        goes_on = next((each for each in told if each is not None), False)
        return stints[-1] if goes_on else None

    def __iter__(self) -> Iterator[Placed]:
        pos, at, last = 0, 0, LastState()
        for stint in self.stints():
            for seq, ts, values in self._spool.slice(stint.begin, stint.end):
                kind = values["kind"]
                pos += 1
                if moves_time(kind):
                    at = max(at, ts)
                resumes = last.note(kind, values.get)
                yield Placed(pos, at or ts, ts, stint.node, seq, kind, values, resumes)


# -- the order of stints -----------------------------------------------------------------------


def _in_order(stints: Sequence[Stint]) -> list[Stint]:
    """Put stints in order that are by node and number."""
    after = _Afterwards(stints)
    ranks: list[_Rank] = []
    for _, of_node in groupby(stints, key=lambda it: it.node):
        ranks += _ranks_of_node(after, list(of_node))
    return [stints[index] for index in sorted(range(len(stints)), key=lambda it: (ranks[it], it))]


def _ranks_of_node(after: _Afterwards, stints: Sequence[Stint]) -> list[_Rank]:
    """What sorts a node's stints, which stay in the order of their numbers, whatever they say."""
    ranks: list[_Rank] = []
    least: _Rank = ()
    for former, stint in zip((None, *stints), stints, strict=False):
        ranks.append(max(after.rank(stint, former), least))
        if stint.first is not None:
            least = ranks[-1]
    # One that is placed by its date alone moves no other one.
    for index in range(len(stints) - 2, -1, -1):
        ranks[index] = min(ranks[index], ranks[index + 1])
    return ranks


class _Afterwards:
    """Finds the place of stints whose own lines do not tell it: after another one.

    One that begins a new life of the group comes after a deletion in the same generation, and one
    that names no generation after the latest that had begun by then.
    """

    def __init__(self, stints: Sequence[Stint]) -> None:
        placed: list[Stint] = []
        deletions: dict[int, list[Stint]] = {}
        for stint in stints:
            if stint.first is not None:
                placed.append(stint)
                if stint.is_deletion and stint.first == stint.last and not stint.is_new_life:
                    deletions.setdefault(stint.last, []).append(stint)
        self._latest = _latest_by_date(placed)
        self._deletions = {
            generation: (_latest_by_date(each), min(each, key=lambda it: it.rank))
            for generation, each in deletions.items()
        }

    def rank(self, stint: Stint, former: Stint | None) -> _Rank:
        """What sorts a stint among all; the one before it of its node."""
        before: Stint | None = None
        if stint.first is None:
            before = self._latest(stint.begun_ms)
        elif stint.is_new_life and stint.first == stint.last and stint.last in self._deletions:
            latest, earliest = self._deletions[stint.last]
            goes_on = former is not None and former.last == stint.last and not former.is_deletion
            before = latest(stint.begun_ms) or (None if goes_on else earliest)
        if before is None:
            return *stint.rank, 0
        return *before.rank, 1, stint.begun_ms, stint.node, stint.seq


def _latest_by_date(stints: Iterable[Stint]) -> Callable[[int], Stint | None]:
    """What gives the last one in order of those that had begun by a date."""
    by_date = sorted(stints, key=lambda it: it.begun_ms)
    dates = [each.begun_ms for each in by_date]
    latest = list(accumulate(by_date, _later))

    def find(date_ms: int) -> Stint | None:
        count = bisect_right(dates, date_ms)
        return latest[count - 1] if count else None

    return find


def _later(one: Stint, other: Stint) -> Stint:
    return max(one, other, key=lambda it: it.rank)
