"""Waiting for other processes that write to the same file.

SQLite's own wait sleeps for up to 100 ms at a time.  A process that writes all the time leaves the
file unlocked for less than a millisecond at a time, so one that waits like this may miss every gap
for many seconds.  So the connection is told to give up soon, and calls are repeated.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["BUSY_TIMEOUT_S", "begin", "give_up_soon", "is_busy", "patiently"]

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 5.0
"""How long to wait; other processes write for milliseconds, so this long is a hang."""

_ATTEMPT_MS: Final = 8  # SQLite looks after 0, 1, 3 and 8 ms
_PAUSE_S: Final = 0.000_5


def give_up_soon(connection: sqlite3.Connection) -> None:
    """Let calls of a connection fail at once when the file is locked; use `patiently` then."""
    connection.execute(f"PRAGMA busy_timeout = {_ATTEMPT_MS}")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has the file locked."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def patiently(call: Callable[[], T]) -> T:
    """Repeat a call while the file is locked; it must have no effect when that stops it."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return call()
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= give_up_at:
                raise
        time.sleep(_PAUSE_S)  # SQLite does not wait for all of its locks


def begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction with the right to write."""
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
