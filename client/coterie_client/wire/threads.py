"""Calls in threads of their own, for which neither an event loop nor the end of the process waits.

What is called may hang, and no thread can be interrupted.  Event loops make such calls in the
threads that the program's own work runs in, and wait for them before they end.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["refuse_without_threads", "run_in_thread"]

T = TypeVar("T")


def refuse_without_threads() -> None:
    """Raise what a loop that no thread can reach raises, such as a simulated one."""
    asyncio.get_running_loop().call_soon_threadsafe(_do_nothing)


def _do_nothing() -> None:
    """Wake the loop for nothing."""


def run_in_thread(call: Callable[[], T], answer: Future[T], name: str) -> None:
    """Have a new thread make a call; the answer is what it returns or raises."""
    # Or else whoever waits no longer would call it off for all.
    answer.set_running_or_notify_cancel()
    run = contextvars.copy_context().run
    try:
        threading.Thread(target=run, args=(_run, call, answer), name=name, daemon=True).start()
    except RuntimeError as error:  # there are too many
        answer.set_exception(OSError(str(error)))


def _run(call: Callable[[], T], answer: Future[T]) -> None:
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001  # whoever waits gets it
        answer.set_exception(error)
    else:
        answer.set_result(found)
