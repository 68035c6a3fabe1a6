"""Looking up the addresses of hosts, with threads that nothing waits for.

A resolver can't be interrupted, and may hang for half a minute.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeAlias

from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.threads import refuse_without_threads, run_in_thread

__all__ = ["look_up"]

#: What `socket.getaddrinfo` returns.
Found: TypeAlias = list[tuple[Any, ...]]

#: The look-ups of all event loops; whoever wants the same waits for the same, so that the retries
#: of what hangs take no further threads.
_under_way: Final[dict[NodeAddress, Future[Found]]] = {}


async def look_up(address: NodeAddress) -> Found:
    """The addresses of a host, as `socket.getaddrinfo` tells them; raises `socket.gaierror`."""
    if _is_numeric(address.host):
        return _ask(address)
    refuse_without_threads()
    new: Future[Found] = Future()
    found = _under_way.setdefault(address, new)
    if found is new:
        new.add_done_callback(lambda _: _under_way.pop(address, None))
        run_in_thread(partial(_ask, address), new, f"coterie look-up of {address.host}")
    return await asyncio.wrap_future(found)


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _ask(address: NodeAddress) -> Found:
    try:
        return list(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except ValueError:  # for what can't be a name at all
        raise socket.gaierror(socket.EAI_NONAME, "it is no valid name") from None


# A child that is forked has none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_under_way.clear)
