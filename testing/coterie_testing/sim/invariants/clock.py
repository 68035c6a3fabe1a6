"""The coordinator's clock: no pause counts as silence, and no date goes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coterie_protocol.journal import Event, MemberAway, MemberGone
from coterie_testing.virtual import Scheduler

__all__ = ["ClockChecker"]

#: Where a frame has its API key, and that of heartbeats.
_API_KEY: Final = slice(4, 6)
_HEARTBEAT: Final = (12).to_bytes(2)

#: How soon after a pause a session would end that counted the pause as silence; and how soon after
#: the system's clock was set the journal has to follow.
_AT_ONCE_S: Final = 1.0
#: How far a date may be behind: events wait until they are durable, the clock for its next tick.
_BEHIND_MS: Final = 10_000
#: How far a date may be ahead of a system's clock that was never set back.
_AHEAD_MS: Final = 50


class ClockChecker:
    """Looks at what arrives while the coordinator is paused, and at the journal's dates."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: The heartbeats that wait unread, or did so at the end of the last pause.
        self._unread: list[bytes] = []
        self._resumed_s = float("-inf")
        #: The latest date of each group's lines in this life of the node.
        self._latest_ms: dict[str, int] = {}
        #: When the system's clock was last set, and by how much it was set back in all.
        self._set_at_s = float("-inf")
        self._set_back_ms = 0.0
        #: How long after the clock was set an event may come that had to become durable first.
        self.durable_within_s = _AT_ONCE_S

    # -- what happens to the coordinator -------------------------------------------------------

    def started(self) -> None:
        """A new process starts, whose dates begin with the system's clock."""
        self._latest_ms.clear()
        self._set_back_ms = 0.0
        self._unread.clear()

    def paused(self) -> None:
        """Its process is paused."""
        self._unread.clear()

    def arrived(self, data: bytes) -> None:
        """Something arrives that it can't read yet."""
        if data[_API_KEY] == _HEARTBEAT:
            self._unread.append(data)

    def connections_lost(self) -> None:
        """Connections break: what has arrived may never be read."""
        self._unread.clear()

    def resumed(self) -> None:
        """Its process runs again."""
        self._resumed_s = self._scheduler.now_s

    def clock_set(self, by_s: float) -> None:
        """Its system's clock is set."""
        self._set_at_s = self._scheduler.now_s
        self._set_back_ms += max(-by_s * 1000, 0.0)

    # -- what it journals ----------------------------------------------------------------------

    def journalled(self, ts_ms: int, event: Event, wall_ms: int) -> Iterator[str]:
        """Look at the next line of the journal; yield what is wrong with it."""
        latest_ms = self._latest_ms.get(event.group, ts_ms)
        if ts_ms < latest_ms:
            yield f"the journal goes back by {latest_ms - ts_ms} ms: {event}"
        self._latest_ms[event.group] = max(latest_ms, ts_ms)
        if ts_ms > wall_ms + _AHEAD_MS + self._set_back_ms:
            yield f"the journal is {ts_ms - wall_ms} ms ahead of the system's clock: {event}"
        if self._scheduler.now_s - self._resumed_s <= _AT_ONCE_S:
            yield from self._silence_after_pause(event)
        elif (
            self._scheduler.now_s - self._set_at_s > self.durable_within_s
            and ts_ms < wall_ms - _BEHIND_MS
        ):
            yield f"the journal is {wall_ms - ts_ms} ms behind the system's clock: {event}"

    def _silence_after_pause(self, event: Event) -> Iterator[str]:
        match event:
            case MemberAway(member=member) | MemberGone(member=member, how="session_expired"):
                pass
            case _:
                return
        if any(member.encode() in data for data in self._unread):
            yield f"a member expired whose heartbeat had arrived during a pause: {event}"
