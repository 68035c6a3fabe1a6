"""Listening sockets, of one process or of several that share a port."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

__all__ = ["BACKLOG", "adopted", "can_share_ports", "listening_sockets", "opened", "reserved"]

#: Room for a thousand members that come at once, with some to spare; the kernel may allow less.
BACKLOG: Final = 2048

#: Set on the listening sockets, from which accepted ones inherit them: that spares each connection
#: the system calls. Keep-alive finds out within two minutes that the host behind a parked request
#: has gone; the default would be two hours.
_OPTIONS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 60),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 6),
)

_Found = tuple[int, int, int, str, tuple[object, ...]]


def can_share_ports() -> bool:
    """Whether the system divides the connections to a port among the sockets that listen there.

    Others than Linux have the option as well, but mostly give all of them to one socket.
    """
    return sys.platform == "linux" and hasattr(socket, "SO_REUSEPORT")


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int, *, shares_port: bool = False
) -> list[socket.socket]:
    """A listening socket for each address of a host, or none at all."""
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made = opened(found, shares_port=shares_port)
    try:
        for each in made:
            each.listen(BACKLOG)
    except OSError:
        _close(made)
        raise
    return made


def reserved(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host, all with one port, that other sockets can share.

    They keep the port, and get no connections as long as they don't listen.
    """
    flags = socket.AI_PASSIVE
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    if port:
        # Another daemon that shares its port would not be noticed otherwise.
        _close(opened(found, shares_port=False))
        return opened(found, shares_port=True)
    first = opened(found[:1], shares_port=True)
    if len(found) == 1:
        return first
    chosen = first[0].getsockname()[1]
    try:
        more = socket.getaddrinfo(host or None, chosen, type=socket.SOCK_STREAM, flags=flags)
        return first + opened(more[1:], shares_port=True)
    except OSError:
        _close(first)
        raise


def opened(found: Sequence[_Found], *, shares_port: bool) -> list[socket.socket]:
    """A bound socket for each address, or none at all."""
    with contextlib.ExitStack() as undo:
        made = [
            undo.enter_context(_bound(family, proto, address, shares_port=shares_port))
            for family, _, proto, _, address in dict.fromkeys(found)
        ]
        undo.pop_all()
    return made


def adopted(number: int) -> socket.socket:
    """A listening socket that another process has opened, by its number."""
    found = socket.socket(fileno=number)
    found.settimeout(0)
    return found


def _close(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _bound(
    family: int, proto: int, address: tuple[object, ...], *, shares_port: bool
) -> socket.socket:
    with contextlib.ExitStack() as undo:
        # With its protocol named: asyncio sets TCP_NODELAY where it sees that a socket is TCP.
        made = undo.enter_context(socket.socket(family, socket.SOCK_STREAM, proto))
        if os.name == "posix":
            # Elsewhere this would let two servers share an address.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port and can_share_ports():
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # An address of IPv4 has a socket of its own.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for level, name, value in _OPTIONS:
            if hasattr(socket, name):
                made.setsockopt(level, getattr(socket, name), value)
        made.settimeout(0)
        made.bind(address)
        undo.pop_all()
    return made
