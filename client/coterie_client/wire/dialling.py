"""How a transport is made; tests and simulators replace it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.lookups import look_up

__all__ = ["Dial", "default_dial", "dial_tcp", "reach"]

#: Connects a protocol made by the first argument to an address, with TLS if a context is given.
#: When it returns, `connection_made` has been called; its result is ignored.
Dial = Callable[
    [Callable[[], asyncio.Protocol], NodeAddress, ssl.SSLContext | None], Awaitable[object]
]

#: The default way to connect; virtual worlds set it for all that runs in them.
default_dial: ContextVar[Dial | None] = ContextVar("coterie_default_dial", default=None)

#: How long to try one of several addresses of a host before the next one.
_ADDRESS_TIMEOUT_S: Final = 3.0
#: How long to wait for the server's close_notify of TLS.
_TLS_SHUTDOWN_S: Final = 1.0


async def dial_tcp(
    make: Callable[[], asyncio.Protocol], address: NodeAddress, tls: ssl.SSLContext | None
) -> object:
    """Connect over TCP, to the first of a host's addresses that can be reached."""
    connected = await reach(address)
    # From here on, the loop owns the socket.
    return await asyncio.get_running_loop().create_connection(
        make,
        sock=connected,
        ssl=tls,
        server_hostname=None if tls is None else address.host,
        ssl_shutdown_timeout=None if tls is None else _TLS_SHUTDOWN_S,
    )


async def reach(address: NodeAddress) -> socket.socket:
    """A socket that is connected to a host, whose addresses are tried in turn.

    The loop can try several at a time (`happy_eyeballs_delay`), but leaks a socket if it is
    cancelled at the wrong moment, at least in Python 3.11.
    """
    found = await look_up(address)
    reasons: list[str] = []
    for number, (family, _, protocol, _, target) in enumerate(found, 1):
        timeout_s = _ADDRESS_TIMEOUT_S if number < len(found) else None
        try:
            async with asyncio.timeout(timeout_s):
                return await _connect(family, protocol, target)
        except TimeoutError:
            reasons.append(f"{target[0]} does not answer")
        except OSError as error:
            # The loop's own words contain a tuple.
            reasons.append(os.strerror(error.errno) if error.errno else str(error))
    raise OSError("; ".join(dict.fromkeys(reasons)))


async def _connect(family: int, protocol: int, target: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        connecting.setblocking(False)  # noqa: FBT003  # the socket module's API
        await asyncio.get_running_loop().sock_connect(connecting, target)
    except BaseException:
        connecting.close()
        raise
    return connecting
