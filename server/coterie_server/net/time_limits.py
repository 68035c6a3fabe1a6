"""The limits of time of one connection: which of them are running, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from coterie_server.net.limits import Limits
from coterie_server.net.stats import CloseReason

__all__ = ["TimeLimits"]


@final
class TimeLimits:
    """What a connection notes for the registry's sweep, which looks after all limits of time.

    The sweep asks a connection only when `due` has come: `due` is never later than the first
    moment at which a limit of time can be broken.
    """

    __slots__ = (
        "_read_bytes",
        "active_at",
        "behind_since",
        "due",
        "frame_since",
        "is_silent",
        "unknown_since",
    )

    def __init__(self) -> None:
        self.due = 0.0
        #: When something last came or went, and whether nothing ever came.
        self.active_at = 0.0
        self.is_silent = True
        #: When the frame began that is not whole yet.
        self.frame_since: float | None = None
        #: Since when the client has been expected to log in.
        self.unknown_since: float | None = None
        #: Since when the client reads more slowly than it is answered, and how much it had read.
        self.behind_since: float | None = None
        self._read_bytes = 0

    @property
    def is_behind(self) -> bool:
        """Whether the client has yet to read what it was answered."""
        return self.behind_since is not None

    def start(self, now: float, limits: Limits) -> None:
        """Begin with a connection that was just made."""
        self.active_at = now
        self.due = now + min(limits.first_byte_timeout_ms, limits.connections_max_idle_ms) / 1000
        if self.unknown_since is not None:
            self.watch(self.unknown_since, limits.login_timeout_ms)

    def watch(self, now: float, limit_ms: int) -> None:
        """Have the sweep look after so long at the latest."""
        self.due = min(self.due, now + limit_ms / 1000)

    def read_again(self, now: float, limits: Limits) -> None:
        """Give the client its time anew for a frame of which the rest was not read."""
        if self.frame_since is not None:
            self.frame_since = now
            self.watch(now, limits.frame_timeout_ms)

    def fall_behind(self, now: float, limits: Limits, read_bytes: int) -> None:
        """Give a client its time to read more of its answers; it has read so much by now."""
        self.behind_since, self._read_bytes = now, read_bytes
        self.active_at = now  # who reads is not idle
        self.watch(now, limits.drain_timeout_ms)

    def note_read(self, now: float, limits: Limits, read_bytes: int) -> None:
        """Give a client that is behind its time anew if it has read enough more."""
        if self.is_behind and read_bytes - self._read_bytes >= limits.drain_least_bytes:
            self.fall_behind(now, limits, read_bytes)

    def find_broken(
        self, now: float, limits: Limits, *, is_reading: bool, is_waiting: bool
    ) -> tuple[CloseReason, int] | None:
        """A limit that is over, and after how long; None if none is, and `due` is set anew.

        `is_waiting` says whether the client waits for an answer, so that it is not idle.
        """
        self.due = now + limits.connections_max_idle_ms / 1000
        if is_waiting and self.unknown_since is not None:
            # It can't go on yet.  Its time begins anew, or it would be over with the answer.
            self.unknown_since = now
        for since, reason in self._running(is_reading=is_reading, is_waiting=is_waiting):
            limit_ms: int = getattr(limits, reason)
            deadline = since + limit_ms / 1000
            if deadline <= now:
                return reason, round((now - since) * 1000)
            self.due = min(self.due, deadline)
        return None

    def _running(
        self, *, is_reading: bool, is_waiting: bool
    ) -> Iterator[tuple[float, CloseReason]]:
        if self.is_silent:
            yield self.active_at, CloseReason.FIRST_BYTE
        elif not is_waiting:
            yield self.active_at, CloseReason.IDLE
        if self.unknown_since is not None:
            yield self.unknown_since, CloseReason.SLOW_LOGIN
        if self.frame_since is not None and is_reading:
            yield self.frame_since, CloseReason.SLOW_FRAME
        if self.behind_since is not None:
            yield self.behind_since, CloseReason.SLOW_READER
