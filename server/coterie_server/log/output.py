"""Where lines of the log go: a stream, whose reader may be slow, or stop reading.

A pipe that is full lets who writes to it wait, and so does a terminal that was stopped, or whose
window, connection or container's log nobody reads.  The event loop must not: while the members of
groups wait for it, their sessions go on.  So what a stream does not take at once is written by a
thread, and what is too much for that is left out and counted.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO, final

__all__ = ["Output"]

#: How many lines wait for a stream: some megabytes.
_WAITING_MAX: Final = 10_000
#: How long a process that ends waits for its last lines to be read.
_LAST_S: Final = 1.0


def _ignore(_error: OSError) -> None:
    """Go on without what can't be written."""


@final
class Output:
    """Writes whole lines to a stream, from any thread."""

    def __init__(
        self,
        stream: TextIO,
        tell_left_out: Callable[[int], object],
        tell_failed: Callable[[OSError], object] = _ignore,
    ) -> None:
        self._stream = stream
        self._tell_left_out, self._tell_failed = tell_left_out, tell_failed
        #: Not a plain lock: the garbage collector may come while a thread has it, and call
        #: finalizers that have something to say.
        self._lock = threading.RLock()
        #: Lines to be written or to wait, of which those of finalizers come amid another.
        self._coming: deque[str] = deque()
        self._is_writing = False
        #: Lines that the thread is still to write.
        self._waiting: deque[str] = deque()
        self._left_out = 0
        self._thread: threading.Thread | None = None
        self._poll = _poll_of(stream)
        self._is_terminal = self._poll is not None and stream.isatty()

    def write(self, line: str) -> None:
        """Write a line; if the stream is closed, the node goes on without a log."""
        with self._lock:
            self._coming.append(line)
            if self._is_writing:
                return
            self._is_writing = True
            try:
                while self._coming:
                    self._write(self._coming.popleft())
            finally:
                self._is_writing = False

    def _write(self, line: str) -> None:
        if self._thread is None and not self._waiting and self._takes(line):
            self._put(line)
        elif len(self._waiting) >= _WAITING_MAX and not self._is_thread():
            self._left_out += 1
        else:
            self._waiting.append(line)
            self._begin()

    def _is_thread(self) -> bool:
        """Whether it is the thread that tells what was left out, which is not left out itself."""
        return threading.current_thread() is self._thread

    def _takes(self, line: str) -> bool:
        """Whether the stream takes a line at once."""
        if self._poll is None:
            return True
        if self._is_terminal:  # what takes something may not take a whole line
            return False
        # Each character may be four bytes.
        is_short = len(line) < select.PIPE_BUF // 4 or len(line.encode()) < select.PIPE_BUF
        return is_short and bool(self._poll.poll(0))

    def _put(self, line: str) -> None:
        try:
            with contextlib.suppress(ValueError):
                self._put_in(f"{line}\n")
        except OSError as error:
            self._tell_failed(error)

    def _put_in(self, text: str) -> None:
        if self._poll is None:
            self._stream.write(text)
            self._stream.flush()
            return
        # Not through the stream: a thread that waits within it would hold its lock, and a process
        # that ends meanwhile is aborted.
        data = text.encode(self._stream.encoding, "backslashreplace")
        while data:
            data = data[os.write(self._stream.fileno(), data) :]

    def _begin(self) -> None:
        if self._thread is not None:
            return
        # It may wait for ever, and is not to keep the process.
        thread = threading.Thread(target=self._write_waiting, name="coterie-log", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, and nobody waits for it any more
            while self._waiting:
                self._put(self._waiting.popleft())
            return
        self._thread = thread
        atexit.register(thread.join, _LAST_S)

    def _write_waiting(self) -> None:
        while (next_line := self._next()) is not None:
            line, left_out = next_line
            if left_out:
                self._tell_left_out(left_out)
            self._put(line)
        atexit.unregister(threading.current_thread().join)

    def _next(self) -> tuple[str, int] | None:
        """The next line that waits, and how many were left out; if none waits, the thread is over.

        If lines were left out, others wait.
        """
        with self._lock:
            if not self._waiting:
                self._thread = None
                return None
            left_out, self._left_out = self._left_out, 0
            return self._waiting.popleft(), left_out


def _poll_of(stream: TextIO) -> select.poll | None:
    """What tells whether a stream takes a little at once; None if it always does.

    A file that is full says so, and keeps nobody waiting.
    """
    try:
        number = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
    except (OSError, ValueError):
        return None
    if is_file or not hasattr(select, "poll"):
        return None
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return poll
