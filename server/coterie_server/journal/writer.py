"""Writes the journal in a thread, so that the event loop never waits for the disk."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coterie_protocol.journal import Event, OffsetsCommitted, write_around_number
from coterie_server.journal.segments import Segments
from coterie_server.log.logger import get_logger

__all__ = ["QUEUE_LINES", "JournalStats", "JournalWriter"]

_log = get_logger(__name__)

#: How many lines may wait for the disk; further ones are dropped.
QUEUE_LINES: Final = 65_536

#: How long a line waits at most before it is handed to the operating system.
_FLUSH_S: Final = 0.25
#: How many lines are written at a time.
_BATCH_LINES: Final = 1024
#: How long to wait after the disk has failed, and how often to log that it still does.
_RETRY_S: Final = 1.0
_COMPLAIN_EVERY_S: Final = 60.0
#: How often to look for files that are too old.
_DELETE_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class JournalStats:
    """The work of a writer so far."""

    lines: int
    bytes: int
    #: Lines for which the queue had no room, which could not be written before the end, or whose
    #: file was taken away while it was written to.
    dropped: int
    #: Lines that wait for the disk.
    queued: int
    #: Whether the last attempt to write failed.
    failing: bool


class JournalWriter:
    """Writes the events of one node into files of a directory.

    `observe` belongs to the event loop's thread: it numbers the event and queues its line, which a
    thread writes within a second.  When the disk can't keep up and the queue is full, lines are
    dropped; they had been numbered, so readers see a gap.  So they do if the file that is being
    written is taken away.

    Lines are encoded by the event loop, though the thread could do it: it would need Python's lock
    for that, and a busy loop pays more for a thread that waits for the lock than for the work.

    The first line gets the number after the last one found in the directory.

    `companions` are the nodes that write into the directory, this one among them; the first of them
    also deletes what others have left there, when that is old.
    """

    def __init__(  # noqa: PLR0913  # one for each setting
        self,
        directory: Path,
        node: str,
        *,
        segment_bytes: int,
        segment_ms: int,
        retention_ms: int,
        clock: Callable[[], int],
        commits: bool = True,
        companions: Sequence[str] = (),
        queue_lines: int = QUEUE_LINES,
    ) -> None:
        self._segments = Segments(
            directory,
            node,
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            retention_ms=retention_ms,
            clock=clock,
            companions=companions,
        )
        self.directory: Final = directory
        self._node = node
        self._commits = commits
        self._queue_lines = queue_lines
        # Both threads use these: a deque allows it, and the flag only decides on a log line.
        self._queue: deque[tuple[int, str, str]] = deque()
        self._is_dropping = False
        # Only the event loop's thread changes these.
        self._observed = 0
        self._dropped = 0
        # Only the writer's thread changes these.
        self._first_seq: int | None = None
        self._numbered: list[tuple[int, bytes]] = []
        self._lines = 0
        self._bytes = 0
        self._lost = 0
        self._failing = False
        self._complained_at = 0.0
        self._deleted_at: float | None = None
        # Both threads wait on these.
        self._wake = threading.Event()
        self._progress = threading.Condition()
        self._settled = 0
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"journal-{node}", daemon=True)
        self._thread.start()

    # -- the event loop's side -----------------------------------------------------------------

    def observe(self, ts_ms: int, event: Event) -> None:
        """Queue an event; never blocks and never raises."""
        if not self._commits and type(event) is OffsetsCommitted:
            return
        self._observed += 1
        if len(self._queue) >= self._queue_lines:
            self._drop()
            return
        try:
            before, after = write_around_number(ts_ms, self._node, event)
        except Exception as error:  # noqa: BLE001  # a bug in an event must cost no more than its line
            self._dropped += 1
            _log.error("journal line lost", kind=event.kind, error=repr(error))
            return
        self._queue.append((self._observed, before, after))

    def _drop(self) -> None:
        self._dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            _log.error(
                "journal lines are being dropped",
                why="the disk does not keep up",
                directory=str(self.directory),
                queued=len(self._queue),
            )

    def stats(self) -> JournalStats:
        """The work so far."""
        return JournalStats(
            lines=self._lines,
            bytes=self._bytes,
            dropped=self._dropped + self._lost + self._segments.lost_lines,
            queued=len(self._queue) + len(self._numbered),
            failing=self._failing,
        )

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Block until every observed event is written; return False if that took too long."""
        wanted = self._observed - self._dropped
        self._wake.set()
        with self._progress:
            return self._progress.wait_for(lambda: self._settled >= wanted, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Block until the queue is written and on disk, and end the thread.

        What can't be written in time is lost, as is what comes later; a log line gives the number.
        """
        self._queue_lines = 0
        self._give_up_at = time.monotonic() + timeout_s
        self._wake.set()
        self._thread.join(timeout_s + _RETRY_S)
        if self._thread.is_alive():
            _log.error("journal not closed", why="the disk hangs", queued=self.stats().queued)

    # -- the writer's thread -------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.wait(self._wait_s())
            self._wake.clear()
            is_closing = self._give_up_at is not None
            try:
                self._work()
            except Exception as error:  # noqa: BLE001  # the thread must survive any error
                self._complain(error)
            if is_closing and (not self._failing or self._left_s() <= 0):
                break
        self._finish()

    def _wait_s(self) -> float:
        return min(_RETRY_S, max(self._left_s(), 0)) if self._failing else _FLUSH_S

    def _left_s(self) -> float:
        """How much time is left to close."""
        return math.inf if self._give_up_at is None else self._give_up_at - time.monotonic()

    def _work(self) -> None:
        if self._first_seq is None:
            self._first_seq = self._segments.resume()
        while True:
            self._segments.replace_lost()
            self._segments.end_if_old()
            self._delete_old()
            if not self._numbered:
                self._number()
            if not self._numbered:
                self._recover()
                return
            self._write()
            self._recover()

    def _number(self) -> None:
        # The number of the first line is known only when the directory could be read.
        offset = (self._first_seq or 1) - 1
        for _ in range(min(len(self._queue), _BATCH_LINES)):
            number, before, after = self._queue.popleft()
            seq = offset + number
            self._numbered.append((seq, f"{before}{seq}{after}\n".encode()))

    def _write(self) -> None:
        before, size = len(self._numbered), sum(len(data) for _, data in self._numbered)
        try:
            self._segments.write(self._numbered)
        finally:
            written = before - len(self._numbered)
            self._lines += written
            self._bytes += size - sum(len(data) for _, data in self._numbered)
            self._settle(written)

    def _settle(self, lines: int) -> None:
        with self._progress:
            self._settled += lines
            self._progress.notify_all()

    def _delete_old(self) -> None:
        now = time.monotonic()
        if self._deleted_at is None or now - self._deleted_at >= _DELETE_EVERY_S:
            self._deleted_at = now
            try:
                self._segments.delete_old()
            except OSError as error:
                _log.warning("old journal files not deleted", error=str(error))

    # -- when the disk fails -------------------------------------------------------------------

    def _complain(self, error: Exception) -> None:
        now = time.monotonic()
        if not self._failing or now - self._complained_at >= _COMPLAIN_EVERY_S:
            self._complained_at = now
            _log.error(
                "journal can't be written",
                directory=str(self.directory),
                error=str(error) or repr(error),
                queued=self.stats().queued,
                dropped=self._dropped,
            )
        self._failing = True

    def _recover(self) -> None:
        """Note that the disk works, and that the queue has room if it has."""
        has_room = len(self._queue) < self._queue_lines // 2
        if self._failing or (self._is_dropping and has_room):
            self._failing = False
            self._is_dropping = self._is_dropping and not has_room
            _log.warning(
                "journal is being written again",
                directory=str(self.directory),
                dropped=self._dropped,
            )

    def _finish(self) -> None:
        left = len(self._queue) + len(self._numbered)
        if left:
            self._lost += left
            _log.error("journal lines lost at shutdown", lines=left)
        self._segments.end_current()
