"""Keeps a node's clock going, and tells when the node did not run or its system's clock was set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie_protocol.journal import ClockStepped, NodePaused
from coterie_server.serving.clock import TICK_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_protocol.journal import Event
    from coterie_server.serving.clock import Clock

__all__ = ["Pulse"]


class Pulse:
    """Ticks a clock from a timer of the running event loop."""

    def __init__(self, clock: Clock, observe: Callable[[int, Event], None]) -> None:
        self._clock = clock
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Tick from now on."""
        self._timer = asyncio.get_running_loop().call_later(TICK_MS / 1000, self._tick)

    def stop(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self.start()
        tick = self._clock.tick()
        if tick.paused_ms:
            self._observe(self._clock.date_ms(), NodePaused(paused_ms=tick.paused_ms))
        if tick.stepped_ms:
            self._observe(self._clock.date_ms(), ClockStepped(stepped_ms=tick.stepped_ms))
