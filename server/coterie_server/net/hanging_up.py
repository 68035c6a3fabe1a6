"""Whether a client has closed its connection, which is not told while nothing is read from it."""

from __future__ import annotations

import os
import select
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

__all__ = ["has_hung_up"]

#: Linux tells of a close also when there are bytes before it; zero elsewhere.
_CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the client has closed its side, or the connection is broken.

    Where the system does not tell, bytes that were not read yet hide it.
    """
    connected = transport.get_extra_info("socket")
    number = -1 if connected is None else connected.fileno()
    if number < 0:
        return False
    return _is_closed(number) if _CLOSED else _is_at_the_end(number)


def _is_closed(number: int) -> bool:
    poll = select.poll()
    poll.register(number, _CLOSED)
    return bool(poll.poll(0))


def _is_at_the_end(number: int) -> bool:
    with socket.socket(fileno=os.dup(number)) as peeking:
        try:
            return not peeking.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
