"""A group's past from its node's own journal, in a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from coterie_server.journal.backwards import BackwardReader, ReadLimits, list_segments
from coterie_server.log.logger import get_logger
from coterie_server.past.answer import Asked, PastLimit, Present, past_json
from coterie_server.past.breathing import Breath
from coterie_server.past.collecting import KINDS, Collected, collect

if TYPE_CHECKING:
    from coterie_server.journal import JournalWriter

__all__ = ["PastReader"]

_log = get_logger(__name__)

#: What is read is replayed as well, which takes longer; so less is read than for the last
#: rebalances alone.
_LIMITS: Final = ReadLimits(seconds_max=2.0, found_bytes_max=2 * 1_048_576)
#: How long all of it may take.
_SECONDS_MAX: Final = 15.0
#: How long to wait for lines that are about to be written.
_FLUSH_S: Final = 0.5


@final
class PastReader:
    """Answers about the past of a node's groups, one question after the other."""

    def __init__(self, journal: JournalWriter | None, limits: ReadLimits = _LIMITS) -> None:
        self._journal = journal
        self._limits = limits
        self._one_at_a_time = asyncio.Lock()

    @property
    def has_journal(self) -> bool:
        """Whether there is anything to read."""
        return self._journal is not None

    async def read(self, asked: Asked, present: Present, taken_over_ms: int | None) -> bytes:
        """The answer as JSON; raises `StoppedError` if it takes too long."""
        async with self._one_at_a_time:
            breath = Breath(_SECONDS_MAX)
            reader = BackwardReader((), asked.group, KINDS, self._limits)
            try:
                return await asyncio.to_thread(
                    self._read, reader, asked, present, taken_over_ms, breath
                )
            except asyncio.CancelledError:
                reader.is_stopped = breath.is_stopped = True
                raise

    def _read(
        self,
        reader: BackwardReader,
        asked: Asked,
        present: Present,
        taken_over_ms: int | None,
        breath: Breath,
    ) -> bytes:
        """Read and replay; belongs to a thread."""
        if self._journal is None:
            collected = collect((), asked.since_ms, breath)
            return past_json(asked, collected, (asked.until_ms, PastLimit.NO_JOURNAL), present)
        try:
            self._journal.flush(_FLUSH_S)
            reader.segments = list_segments(self._journal.directory)
            collected = collect(reader, asked.since_ms, breath)
        except OSError as error:
            _log.error("journal can't be read back", group=asked.group, error=str(error))
            collected = collect((), asked.since_ms, breath)
            return past_json(asked, collected, (asked.until_ms, PastLimit.UNREADABLE), present)
        return past_json(asked, collected, _known(reader, collected, asked, taken_over_ms), present)


def _known(
    reader: BackwardReader, collected: Collected, asked: Asked, taken_over_ms: int | None
) -> tuple[int, PastLimit]:
    """From when on all lines of the group are known, and why none from before."""
    if collected.has_enough:
        return asked.since_ms, PastLimit.ASKED
    oldest_ms = asked.until_ms if reader.oldest_ms is None else reader.oldest_ms
    if taken_over_ms is not None and taken_over_ms <= (collected.first_ms or taken_over_ms):
        return max(oldest_ms, taken_over_ms), PastLimit.TAKEN_OVER
    return oldest_ms, PastLimit.READ_BACK if reader.reached_limit else PastLimit.JOURNAL
