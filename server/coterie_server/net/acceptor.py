"""Accepts connections in place of the event loop's servers.

Those would tell nothing of handshakes that fail, would begin them before it is known whether there
is room for the client, and would go on with the certificate that they began with.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final, final

from coterie_server.log.logger import get_logger
from coterie_server.net.addresses import Peer

__all__ = ["Acceptor"]

_log = get_logger(__name__)

Receive = Callable[[socket.socket, Peer], None]
"""Takes a connection, which is its own from then on."""

#: How many connections are accepted before others have their turn.
_ACCEPTED_AT_ONCE: Final = 100
#: Errors of accept() that more patience may cure, and how much of it.
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SCARCE_S: Final = 1.0


@final
class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(self, listening: socket.socket, receive: Receive) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening, self._receive = listening, receive
        self._timer: asyncio.TimerHandle | None = None
        self._start()

    def _start(self) -> None:
        self._timer = None
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._timer is not None:
            self._timer.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                _log.error("no connection can be accepted", error=error.strerror)
                self._loop.remove_reader(self._listening)
                self._timer = self._loop.call_later(_SCARCE_S, self._start)
                return
            accepted.setblocking(False)  # noqa: FBT003  # the socket module's API
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._receive(accepted, Peer(*address[:2]))
