"""Fills a group's history up from the journal, when it is first asked for after a start.

Nothing is read when the node starts, however long the journal is.  The first question about a group
reads the journal's end backwards, in a thread, until enough of the group's rebalances are found or
a limit is reached; after that the history knows them.  The journal's lines go through the same code
as live events do, so the figures are those that were shown before the restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from coterie_protocol.journal import JournalError, RebalanceStarted, TopicChanged, read_line
from coterie_server.history.history import History
from coterie_server.history.record import Beginning, HistoryLimit
from coterie_server.journal.backwards import OF_ALL, BackwardReader, FoundLine, ReadLimits
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from coterie_server.journal.backwards import Segment

__all__ = ["Backfill"]

_log = get_logger(__name__)

#: How long a question waits for the journal; after that it is answered with what is known so far.
_PATIENCE_S: Final = 3.0
#: How many more rebalances are read than are kept: what one costs depends on those before it.
_REBALANCES_BEFORE: Final = 5


class Backfill:
    """Looks up what a node's history does not know, because it was before the node's start.

    `segments` are the journal's files of the node's former lives; None if it keeps no journal.
    `has_all` says that no node with a journal elsewhere can have had a group.
    """

    def __init__(
        self,
        history: History,
        segments: Sequence[Segment] | None,
        started_ms: int,
        limits: ReadLimits | None = None,
        *,
        has_all: bool = True,
    ) -> None:
        self.history = history
        self._has_all = has_all
        self._segments = segments
        self._started_ms = started_ms
        self._limits = limits or ReadLimits()
        self._one_at_a_time = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reader: BackwardReader | None = None

    async def look_up(self, group: str, generation: int) -> Beginning:
        """Read back what a group in that generation did; say from when on that is known now."""
        known = self._known(group, generation)
        if known is not None:
            return known
        task = self._tasks.get(group)
        if task is None:
            task = self._tasks[group] = asyncio.create_task(self._fill_up(group, generation))
            task.add_done_callback(lambda _: self._tasks.pop(group, None))
        # Not cancelled with the one who asks: another may have asked meanwhile.
        await asyncio.wait([task], timeout=_PATIENCE_S)
        return self._known(group, generation) or self._since_start(HistoryLimit.READING)

    def _known(self, group: str, generation: int) -> Beginning | None:
        if generation <= 0:
            return Beginning(None, HistoryLimit.COMPLETE)
        if self._segments is None:
            nothing, beginning = History(0), self._since_start(HistoryLimit.NO_JOURNAL)
            self.history.prepend(group, nothing, beginning)
        return self.history.beginning(group)

    def _since_start(self, limit: HistoryLimit) -> Beginning:
        return Beginning(self._started_ms, limit)

    async def close(self) -> None:
        """Stop reading."""
        for task in self._tasks.values():
            task.cancel()
        if self._reader is not None:
            self._reader.is_stopped = True
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    # -- reading -------------------------------------------------------------------------------

    async def _fill_up(self, group: str, generation: int) -> None:
        async with self._one_at_a_time:
            reader = BackwardReader(self._segments or (), group, History.KINDS, self._limits)
            self._reader = reader
            former = History(self.history.limit)
            try:
                beginning = await asyncio.to_thread(self._read, reader, former)
            except OSError as error:
                _log.error("journal can't be read back", group=group, error=str(error))
                former = History(self.history.limit)
                beginning = self._since_start(HistoryLimit.UNREADABLE)
            self.history.prepend(group, former, beginning, self._started_ms, generation)

    def _read(self, reader: BackwardReader, former: History) -> Beginning:
        """Replay a group's last lines into a history; belongs to a thread."""
        enough = former.limit + _REBALANCES_BEFORE
        found: list[FoundLine] = []
        starts = 0
        for line in reader:
            found.append(line)
            starts += line.kind == RebalanceStarted.kind
            if starts >= enough:
                break
        _replay(reversed(found), former)
        return self._beginning(reader, former)

    def _beginning(self, reader: BackwardReader, former: History) -> Beginning:
        if reader.reached_limit:
            return Beginning(reader.oldest_ms, HistoryLimit.READ_BACK)
        if not self._has_all:
            read_back_ms = former.read_back_ms(reader.group, self._started_ms)
            if read_back_ms is not None:
                return Beginning(read_back_ms, HistoryLimit.MISSING)
        since_ms = self._started_ms if reader.oldest_ms is None else reader.oldest_ms
        return Beginning(since_ms, HistoryLimit.JOURNAL)


def _replay(lines: Iterable[FoundLine], former: History) -> None:
    node = ""
    for found in lines:
        try:
            line = read_line(found.text)
        except JournalError:  # also for where lines are missing, which have no text
            former.lines_missing()
            continue
        node = node if found.kind in OF_ALL else line.node
        # Several processes of one machine each tell that its clock was set.
        if line.node == node or isinstance(line.event, TopicChanged):
            former.observe(line.ts, line.event)
