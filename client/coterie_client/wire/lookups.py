"""Looking up the addresses of hosts, with threads that nothing waits for.

A resolver can't be interrupted, and may hang for half a minute.  Event loops look names up in the
threads that the program's own work runs in, and wait for them before they end.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from coterie_client.wire.addresses import NodeAddress

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
    # A loop that no thread can reach, such as a simulated one, is to say so here.
    asyncio.get_running_loop().call_soon_threadsafe(_do_nothing)
    new: Future[Found] = Future()
    found = _under_way.setdefault(address, new)
    if found is new:
        # Or else whoever waits no longer would call it off for all.
        new.set_running_or_notify_cancel()
        _begin(address, new)
    return await asyncio.wrap_future(found)


def _do_nothing() -> None:
    """Wake the loop for nothing."""


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _begin(address: NodeAddress, answer: Future[Found]) -> None:
    name = f"coterie look-up of {address.host}"
    try:
        threading.Thread(target=_answer, args=(address, answer), name=name, daemon=True).start()
    except RuntimeError as error:  # there are too many
        _under_way.pop(address, None)
        answer.set_exception(OSError(str(error)))


def _answer(address: NodeAddress, answer: Future[Found]) -> None:
    """Look up an address; what a thread does."""
    try:
        found = _ask(address)
    except BaseException as error:  # noqa: BLE001  # whoever waits gets it
        _under_way.pop(address, None)
        answer.set_exception(error)
    else:
        _under_way.pop(address, None)
        answer.set_result(found)


def _ask(address: NodeAddress) -> Found:
    try:
        return list(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except ValueError:  # for what can't be a name at all
        raise socket.gaierror(socket.EAI_NONAME, "it is no valid name") from None


# A child that is forked has none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_under_way.clear)
