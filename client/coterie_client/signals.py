"""Stopping groups by SIGTERM and Ctrl-C.

Python dies of SIGTERM without a word to its group, whose partitions then stand still for a session.
All groups of an event loop that ask for it share one handler, which stops each of them.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
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
        handler = _of_loops.setdefault(asyncio.get_running_loop(), _Handler())
        try:
            handler.add(self)
        except NotImplementedError:
            return
        except (RuntimeError, ValueError):
            raise GroupMisuseError(
                "stop_on_signals works in the main thread only: leave it out, and have the main"
                " thread call loop.call_soon_threadsafe(group.stop)."
            ) from None
        self._handler = handler

    def unlisten(self) -> None:
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
        #: What handled each signal before.
        self._former: dict[signal.Signals, Any] = {}

    def add(self, group: StopSignals) -> None:
        if not self._groups:
            for number in _SIGNALS:
                former = signal.getsignal(number)
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(number, self._received, number)
                self._former[number] = former
        self._groups.append(group)

    def remove(self, group: StopSignals) -> None:
        self._groups.remove(group)
        if not self._groups:
            for number in list(self._former):
                self._give_back(number)

    def _give_back(self, number: signal.Signals) -> None:
        former = self._former.pop(number)
        asyncio.get_running_loop().remove_signal_handler(number)
        if former is not None:  # it was set by Python, and not by other code
            signal.signal(number, former)

    def _received(self, number: signal.Signals) -> None:
        # Whoever presses Ctrl-C once more is tired of waiting.  SIGTERM stays: some programs, such
        # as timeout(1), send it twice at a time.
        if signal.SIGINT in self._former:
            self._give_back(signal.SIGINT)
        for group in list(self._groups):
            group.received(number)


_of_loops: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Handler]] = WeakKeyDictionary()
