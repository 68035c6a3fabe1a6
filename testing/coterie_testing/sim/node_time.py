"""Whether a coordinator keeps to its time: no pause is anybody's silence, no date goes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie_protocol.journal import Event, MemberGone
from coterie_testing.virtual import Scheduler

__all__ = ["NodeTime"]

#: Where a frame says what it asks for, and what heartbeats say.
_API_KEY: Final = slice(4, 6)
_HEARTBEAT: Final = (12).to_bytes(2)

#: How soon after a pause a session would end that counted the pause, and how soon after a step
#: its date has to be the new one.
_AT_ONCE_S: Final = 1.0
#: How far a date may be behind: an event waits until it is durable, and a clock for its tick.
_BEHIND_MS: Final = 10_000
#: How far a date may be ahead of the system's clock without this having been set back.
_AHEAD_MS: Final = 50


class NodeTime:
    """Sees what waits in a coordinator's sockets while it is paused, and the journal's dates."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._world = scheduler
        #: The heartbeats that wait, or were waiting at the end of the last pause.
        self._unread: list[bytes] = []
        self._went_on_s = float("-inf")
        #: The latest date of each group's lines, in the present life of the node.
        self._latest_ms: dict[str, int] = {}
        #: When the system's clock was set last.
        self._set_at_s = float("-inf")
        #: By how much the system's clock was set back.
        self._set_back_ms = 0.0

    # -- what befalls it -----------------------------------------------------------------------

    def started(self) -> None:
        """A new life, whose dates begin with the system's clock."""
        self._latest_ms.clear()
        self._set_back_ms = 0.0
        self._unread.clear()

    def paused(self) -> None:
        """It does not run."""
        self._unread.clear()

    def arrived(self, data: bytes) -> None:
        """Something arrived that it can't read yet."""
        if data[_API_KEY] == _HEARTBEAT:
            self._unread.append(data)

    def cut_off(self) -> None:
        """What had arrived may never be read."""
        self._unread.clear()

    def went_on(self) -> None:
        """It runs again."""
        self._went_on_s = self._world.now_s

    def clock_set(self, by_s: float) -> None:
        """Its system's clock was set."""
        self._set_at_s = self._world.now_s
        self._set_back_ms += max(-by_s * 1000, 0.0)

    # -- what it tells -------------------------------------------------------------------------

    def hear(self, ts_ms: int, event: Event, wall_ms: int) -> Iterator[str]:
        """Take in a line of the journal, and say what is wrong with it."""
        latest_ms = self._latest_ms.get(event.group, ts_ms)
        if ts_ms < latest_ms:
            yield f"the journal goes back by {latest_ms - ts_ms} ms: {event}"
        self._latest_ms[event.group] = max(latest_ms, ts_ms)
        if ts_ms > wall_ms + _AHEAD_MS + self._set_back_ms:
            yield f"a line is {ts_ms - wall_ms} ms ahead of the system's clock: {event}"
        if self._world.now_s - self._went_on_s <= _AT_ONCE_S:
            yield from self._silence_after_pause(event)
        elif self._world.now_s - self._set_at_s > _AT_ONCE_S and ts_ms < wall_ms - _BEHIND_MS:
            yield f"a line is {wall_ms - ts_ms} ms behind the system's clock: {event}"

    def _silence_after_pause(self, event: Event) -> Iterator[str]:
        if not isinstance(event, MemberGone) or event.how != "session_expired":
            return
        if any(event.member.encode() in data for data in self._unread):
            yield f"a member was dropped whose heartbeat had arrived in a pause: {event}"
