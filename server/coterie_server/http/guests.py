"""How many connections there may be for HTTP, and how long one may leave its answer unread.

Clients of the groups and those of the pages share the process's open files and its memory, so
nobody who asks for pages may take all of it.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast, final

from coterie_server.log.logger import get_logger

__all__ = ["Guest", "Guests"]

_log = get_logger(__name__)

#: Each may hold the largest page, which is some megabytes; and a process that is allowed few open
#: files keeps a hundred for all that are no members.
_GUESTS_MAX: Final = 64
#: How long an answer may take to be read.
_UNREAD_S: Final = 60.0


class Guests:
    """The connections for HTTP that are open."""

    def __init__(self, most: int = _GUESTS_MAX, unread_s: float = _UNREAD_S) -> None:
        self._most = most
        self.unread_s: Final = unread_s
        self._here: set[Guest] = set()
        self._is_full = False

    def admit(self, guest: Guest) -> bool:
        """Let a connection in if there is room."""
        if len(self._here) >= self._most:
            if not self._is_full:
                self._is_full = True
                _log.warning("HTTP connections refused", limit=self._most)
            return False
        self._here.add(guest)
        return True

    def forget(self, guest: Guest) -> None:
        """A connection is over."""
        self._here.discard(guest)
        # Told once for each time that there is a crowd.
        self._is_full = self._is_full and len(self._here) > self._most // 2


@final
class Guest(asyncio.Protocol):
    """One connection, let in or not, in front of the protocol that serves it."""

    def __init__(self, guests: Guests, served: asyncio.Protocol) -> None:
        self._guests = guests
        self._served = served
        self._transport: asyncio.Transport | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, or close it."""
        opened = cast(asyncio.Transport, transport)
        if not self._guests.admit(self):
            opened.abort()
            return
        self._transport = opened
        self._served.connection_made(opened)

    def data_received(self, data: bytes) -> None:
        """Hand on what was asked."""
        if self._transport is not None:
            self._served.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on that nothing more will be asked."""
        return None if self._transport is None else self._served.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for somebody else."""
        self._stop_timer()
        if self._transport is not None:
            self._transport = None
            self._guests.forget(self)
            self._served.connection_lost(exc)

    def pause_writing(self) -> None:
        """An answer waits to be read: for so long."""
        if self._transport is not None:
            loop = asyncio.get_running_loop()
            self._unread = loop.call_later(self._guests.unread_s, self._transport.abort)
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """It was read."""
        self._stop_timer()
        if self._transport is not None:
            self._served.resume_writing()

    def _stop_timer(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
