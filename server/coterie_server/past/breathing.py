"""Long work in a thread, that leaves the event loop its turns."""

from __future__ import annotations

import time
from typing import Final, final

__all__ = ["Breath", "StoppedError"]

#: How long the thread works at a time.  It holds Python's lock while it does, and the event loop
#: waits up to 5 ms each time that it wants the lock back, unless the thread sleeps before.
_WORK_S: Final = 0.002
_REST_S: Final = 0.0005


class StoppedError(Exception):
    """The work is not wanted any more, or takes too long."""


@final
class Breath:
    """Is called often by the thread; sleeps now and then, and ends the work when it is to end."""

    def __init__(self, seconds_max: float) -> None:
        self._until_s = time.monotonic() + seconds_max
        self._rest_at_s = 0.0
        #: Set from another thread.
        self.is_stopped = False

    def __call__(self) -> None:
        """Go on, or raise `StoppedError`."""
        now_s = time.monotonic()
        if now_s >= self._rest_at_s:
            if self.is_stopped or now_s >= self._until_s:
                raise StoppedError
            time.sleep(_REST_S)
            self._rest_at_s = time.monotonic() + _WORK_S
