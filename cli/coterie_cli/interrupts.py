"""What Ctrl-C does: it ends a command at once and without a word, unless there is something to end.

Most commands ask, print and are over, and take most of their time to be loaded: Python's own way
would be a traceback out of some import.  Those that have something to put in order, as a screen
or other processes, do their work in `raising_interrupts`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["end_at_interrupts", "raising_interrupts"]


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
