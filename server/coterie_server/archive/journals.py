"""Journals that were read once: each group's lines, and what they tell."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import IO, Final, Self, final

from coterie_protocol.journal import JournalError, read_values
from coterie_protocol.operations import DRAIN
from coterie_protocol.replay import GroupLines, Source, in_time_of
from coterie_server.archive.ends import GroupEnd, end_of
from coterie_server.archive.files import find_files
from coterie_server.archive.scanning import Scan, scan
from coterie_server.archive.standing import standing_in
from coterie_server.archive.turns import in_order
from coterie_server.http.group_view import OperationView
from coterie_server.journal.backwards import FoundLine
from coterie_server.journal.packed import ArchiveError
from coterie_server.past import Asked, Breath, PastLimit, collect, past_json
from coterie_server.past.marks import Missing

__all__ = ["Journals"]

#: How many files are kept open.
_OPEN_MAX: Final = 16
#: How much text of one group is replayed for an answer, and how long that may take.
_FOUND_BYTES: Final = 16 * 1_048_576
_SECONDS_MAX: Final = 15.0
#: How many lines are looked at first for what was the case at the end: a rebalance is three lines
#: and a few of members.
_END_LINES: Final = 120
_BRIEF_LINES: Final = 16
_HOUR_MS: Final = 3_600_000
_LOST: Final = "Lines of a node's journal are missing here."


@final
class Journals:
    """Any journals, which do not change; its methods block, and may be called from any thread."""

    def __init__(self, found: Scan) -> None:
        self.scan: Final = found
        self._lock = threading.Lock()
        self._open: dict[int, IO[bytes]] = {}
        self._ends: dict[str, GroupEnd] = {}
        #: The date of the last line of all.
        self.last_ms: Final = max((each.last_ms for each in found.nodes.values()), default=0)
        #: By number of the group: when its last rebalance began, and how many did in the last hour.
        self._latest_ms = array("q", bytes(8 * len(found.names)))
        self._last_hour = array("I", bytes(4 * len(found.names)))
        self._count_rebalances()

    @classmethod
    def read(cls, paths: Sequence[Path], progress: Callable[[int], None]) -> Self:
        """Read files and folders; raises `ArchiveError` if there is nothing to show."""
        found = scan(find_files(paths), progress)
        where = ", ".join(map(str, paths))
        if not found.lines:
            more = f"; {found.examples[0]}" if found.examples else ""
            raise ArchiveError(f"There is no line of a journal in {where}{more}.")
        if not found.names:
            raise ArchiveError(f"The journal in {where} has no line about a group.")
        return cls(found)

    def close(self) -> None:
        """Close all files."""
        for file in (*self._open.values(), self.scan.copied):
            if file is not None:
                file.close()
        self._open.clear()

    # -- groups --------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of all groups."""
        return self.scan.names

    def has(self, group: str) -> bool:
        """Whether any line is about a group."""
        return group in self.scan.numbers

    def rebalances(self, group: str) -> tuple[int, int]:
        """When a group's last rebalance began, 0 if none did; how many did in the last hour."""
        number = self.scan.numbers[group]
        return self._latest_ms[number], self._last_hour[number]

    def _count_rebalances(self) -> None:
        since_ms = self.last_ms - _HOUR_MS
        for group, date, is_start in zip(
            self.scan.groups, self.scan.dates, self.scan.starts, strict=True
        ):
            if is_start:
                self._latest_ms[group] = max(self._latest_ms[group], date)
                self._last_hour[group] += date > since_ms

    def end(self, group: str) -> GroupEnd:
        """What was the case as the journal ends, and the rebalances before."""
        return self._find_end(group, _END_LINES)

    def standing(self, end: GroupEnd) -> list[OperationView]:
        """What administrators had ordered, and still stood as the journal ends."""
        group = self.scan.numbers[end.group]
        numbers = in_order(self.scan, group, self.scan.orders.get(group, ()))
        return [
            replace(each, left=end.owned_by(each.member, each.instance))
            if each.operation == DRAIN
            else each
            for each in standing_in(self._sources(numbers))
        ]

    def brief_end(self, group: str) -> GroupEnd:
        """The same with the last rebalance only, which is found more quickly, and is kept."""
        known = self._ends.get(group)
        if known is None:
            known = self._ends[group] = self._find_end(group, _BRIEF_LINES)
        return known

    def _find_end(self, group: str, most: int) -> GroupEnd:
        numbers = self._newest_first(group)
        while True:
            sources = sorted(self._sources(numbers[:most]), key=lambda it: (it.node, it.seq))
            is_all = most >= len(numbers)
            lines = GroupLines(sources if is_all else _placeable(sources))
            found = end_of(group, lines, self.scan.deletions, self.scan.clocks)
            if found.is_known or is_all:
                return found
            most *= 10

    def _sources(self, numbers: Sequence[int]) -> list[Source]:
        """Lines in the order of the numbers, of each the first that is found."""
        sources: dict[tuple[str, int], Source] = {}
        for number in numbers:
            try:
                text = self._line(number)
                values = read_values(text)
            except JournalError:  # the file has changed
                continue
            source = Source(values["node"], values["seq"], values["ts"], values, len(text))
            sources.setdefault((source.node, source.seq), source)
        return list(sources.values())

    # -- the past ------------------------------------------------------------------------------

    def past(self, asked: Asked) -> bytes:
        """Who owned what, as JSON; raises `StoppedError` if it takes too long."""
        found = self.scan
        reading = _Reading(self, self._newest_first(asked.group))
        collected = collect(reading, asked.since_ms, Breath(_SECONDS_MAX))
        collected.deleted_ms = in_time_of(collected.lines, found.deletions)
        collected.clocks = found.clocks
        collected.missing += [Missing(*each, "lines_lost", _LOST) for each in found.missing]
        known = asked.since_ms, PastLimit.ASKED
        if reading.reached_limit:
            known = reading.oldest_ms, PastLimit.READ_BACK
        elif not collected.has_enough:
            known = reading.oldest_ms, PastLimit.JOURNAL
        return past_json(asked, collected, known)

    def until_ms(self, group: str) -> int:
        """The end of what is known of a group: right after its last line."""
        return self.scan.last_ms[self.scan.numbers[group]] + 1

    def _newest_first(self, group: str) -> list[int]:
        found = self.scan
        return in_order(found, found.numbers[group], found.lines_of_group(group))[::-1]

    def _line(self, number: int) -> bytes:
        found = self.scan
        file_number = found.in_files[number]
        with self._lock:
            file = self._file(file_number)
            file.seek(found.places[number])
            return file.readline()

    def _file(self, number: int) -> IO[bytes]:
        if number == len(self.scan.files):
            assert self.scan.copied is not None
            return self.scan.copied
        file = self._open.pop(number, None)
        if file is None:
            if len(self._open) >= _OPEN_MAX:
                self._open.pop(next(iter(self._open))).close()
            file = self.scan.files[number].open("rb")
        self._open[number] = file
        return file


def _placeable(sources: Sequence[Source]) -> list[Source]:
    """Lines whose place among those of other nodes can be told, though older ones are left out.

    What a node wrote before it named a generation may be of any time.
    """
    is_alone = len({each.node for each in sources}) == 1
    named: set[str] = set()
    found = []
    for each in sources:
        if is_alone or each.node in named or each.values.get("generation") is not None:
            named.add(each.node)
            found.append(each)
    return found


@dataclass(slots=True)
class _Reading:
    """A group's lines, the newest first, as far as that is bearable."""

    journals: Journals
    numbers: Sequence[int]
    reached_limit: bool = False
    oldest_ms: int = 0

    def __iter__(self) -> Iterator[FoundLine]:
        room, dates = _FOUND_BYTES, self.journals.scan.dates
        times_ms = list(accumulate((dates[each] for each in reversed(self.numbers)), max))
        for number in self.numbers:
            at_ms = times_ms.pop()
            text = self.journals._line(number)  # noqa: SLF001  # it is a part of it
            room -= len(text)
            if room < 0:
                self.reached_limit = True
                return
            self.oldest_ms = at_ms
            kind = "rebalance_started" if self.journals.scan.starts[number] else "any"
            yield FoundLine(kind, text.decode(errors="replace"), at_ms=at_ms)
