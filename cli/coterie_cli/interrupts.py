"""What Ctrl-C does: it ends a command at once and without a word, unless there is something to end.

Most commands ask, print and are over, and take most of their time to be loaded: Python's own way
would be a traceback out of some import.  Those that have something to put in order, as a screen
or other processes, do their work in `raising_interrupts`.  Where an exception would get lost, or
meet a talk with another process in the middle, it is `cutting_off_interrupts` that ends them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

__all__ = ["cutting_off_interrupts", "end_at_interrupts", "raising_interrupts"]

#: Takes the line away in which a terminal shows what is being done, and gives it its cursor back.
_AS_BEFORE: Final = b"\r\x1b[2K\x1b[?25h"


def end_at_interrupts() -> None:
    """Have Ctrl-C end this process as it ends programs that know nothing of it."""
    # It may be ignored, as a shell has it for jobs in the background.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt`, as long as this lasts."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def cutting_off_interrupts() -> Iterator[None]:
    """Within `raising_interrupts`, have Ctrl-C end the process itself all the same.

    Nothing in it is ended in order then, but the terminal is as it was.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError, ValueError):
            # Past the stream, which may be in the middle of a write itself.
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), _AS_BEFORE)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
