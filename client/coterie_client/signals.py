"""Stopping groups by SIGTERM and Ctrl-C.

Python dies of SIGTERM without a word to its group, whose partitions then stand still for a session.
All groups of an event loop that ask for it share one handler, which stops each of them.

The handler is Python's, and not the event loop's: loops do not tell which handlers they were given,
so theirs could not be put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from coterie_client import checks
from coterie_client.errors import GroupMisuseError

__all__ = ["StopSignals", "stop_signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def stop_signals(wanted: object, stop: Callable[[str], None]) -> StopSignals | None:
    """What a group with this `stop_on_signals` listens with; `stop` gets the reason."""
    return StopSignals(stop) if checks.flag("stop_on_signals", wanted) else None


class StopSignals:
    """Stops one group when a signal comes."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self._handler: _Handler | None = None
        #: Whether a signal has come.
        self.is_received = False

    def listen(self) -> None:
        """Stop the group at a signal from now on; call it in the running loop.

        Loops without signals, such as those on Windows and in virtual time, are left as they are:
        what Ctrl-C does there, it goes on doing.
        """
        loop = asyncio.get_running_loop()
        if not _has_signals(loop):
            return
        handler = _of_loops.setdefault(loop, _Handler())
        try:
            handler.add(self)
        except ValueError:
            raise GroupMisuseError(
                "stop_on_signals works in the main thread only: leave it out, and have the main"
                " thread call loop.call_soon_threadsafe(group.stop)."
            ) from None
        self._handler = handler

    def unlisten(self, _: object = None) -> None:
        """Leave the signals alone; after the last group, they are handled as before the first."""
        if self._handler is not None:
            self._handler.remove(self)
            self._handler = None

    def received(self, number: signal.Signals) -> None:
        """Stop the group."""
        self.is_received = True
        self._stop(f"received {number.name}")


class _Handler:
    """Handles the signals of one event loop for all groups that ask for it."""

    def __init__(self) -> None:
        self._groups: list[StopSignals] = []
        #: What handles each signal now, and what did before.
        self._handled: dict[signal.Signals, tuple[Callable[..., None], Any]] = {}

    def add(self, group: StopSignals) -> None:
        if not self._groups:
            loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                ours = partial(self._arrived, loop, number)
                self._handled[number] = ours, signal.signal(number, ours)
        self._groups.append(group)

    def remove(self, group: StopSignals) -> None:
        self._groups.remove(group)
        if not self._groups:
            self.give_back(*_SIGNALS)

    def give_back(self, *numbers: signal.Signals) -> None:
        """Have signals handled as before, unless the program handles them otherwise by now."""
        for number in numbers:
            ours, former = self._handled.pop(number, (None, None))
            if ours is not None and signal.getsignal(number) is ours:
                # What other code than Python's has set can't be put back.
                signal.signal(number, signal.SIG_DFL if former is None else former)

    def _arrived(self, loop: asyncio.AbstractEventLoop, number: signal.Signals, *_: object) -> None:
        """Called by Python wherever the main thread is just then."""
        if loop.is_closed():  # with a group that nobody has closed
            self.give_back(*_SIGNALS)
            signal.raise_signal(number)
            return
        # Whoever presses Ctrl-C once more is tired of waiting.  SIGTERM stays: some programs, such
        # as timeout(1), send it twice at a time.
        self.give_back(signal.SIGINT)
        loop.call_soon_threadsafe(self._stop_groups, number)

    def _stop_groups(self, number: signal.Signals) -> None:
        for group in list(self._groups):
            group.received(number)


_of_loops: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Handler]] = WeakKeyDictionary()


def _has_signals(loop: asyncio.AbstractEventLoop) -> bool:
    return type(loop).add_signal_handler is not asyncio.AbstractEventLoop.add_signal_handler


def _leave_to_the_parent() -> None:
    """Have a child that was forked die of signals, as the groups are its parent's."""
    for handler in list(_of_loops.values()):
        with contextlib.suppress(ValueError):  # of a thread that may not handle signals
            handler.give_back(*_SIGNALS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
