"""What a worker does about its supervisor."""

from __future__ import annotations

import asyncio
import socket
import threading

from coterie_server.workers.channel import PING
from coterie_server.workers.worker import _Supervisor


def test_worker_that_is_asked_after_its_event_loop_has_ended_says_nothing() -> None:
    """As its process is ending; an error of the thread would fail the test."""
    ours, its = socket.socketpair()
    with ours, its:
        asyncio.run(watched(its))
        (listening,) = (each for each in threading.enumerate() if each.name == "supervisor")
        ours.sendall(PING)
        listening.join()


async def watched(its: socket.socket) -> None:
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    _Supervisor(its).watch(stop, lambda: None)
