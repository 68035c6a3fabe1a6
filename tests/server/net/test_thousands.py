"""Thousands of idle connections cost little memory and do not slow down the others."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import sys
from pathlib import Path

import pytest

from coterie_server.net import Limits, Listener
from tests.server.net.conftest import LogLines
from tests.server.net.doubles import AnsweringHandler, Clock, heartbeat, until
from tests.support.profiles import by_profile

WANTED = by_profile(quick=1_000, long=5_000)
#: Measured: 1.7 kB each with uvloop and 2.3 kB with asyncio, of which 0.4 and 1.7 kB are the
#: loop's own; more in asyncio's debug mode, which remembers where everything was made.
BYTES_EACH_MAX = 8_000

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is read from /proc"
)


def possible() -> int:
    """How many connections the file limit leaves room for; both ends are in this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted_files = 2 * WANTED + 500
    if soft < wanted_files:
        soft = min(wanted_files, hard) if hard != resource.RLIM_INFINITY else wanted_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(WANTED, (soft - 500) // 2)


def resident_bytes() -> int:
    """What this process holds in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def arrive(listener: Listener, count: int) -> list[socket.socket]:
    """Connect clients that each send one request, get their answer and fall silent."""
    loop = asyncio.get_running_loop()
    clients = []
    for number in range(count):
        client = socket.socket()
        client.setblocking(False)  # noqa: FBT003  # a socket's method
        await loop.sock_connect(client, listener.addresses[0])
        client.send(heartbeat(number))
        clients.append(client)
    for client in clients:
        await loop.sock_recv(client, 100)
    return clients


@pytest.mark.asyncio
async def test_thousands_of_idle_connections(log: LogLines) -> None:
    """Each takes at most some kilobytes, a newcomer is answered, and one sweep closes them all."""
    count = possible()
    if count < WANTED // 5:
        pytest.skip(f"the file limit allows only {count} connections")
    clock = Clock()
    listener = Listener(AnsweringHandler(), Limits(connections_max_idle_ms=1_000), now=clock)
    await listener.start("127.0.0.1", 0)
    clients = await arrive(listener, 200)  # what is allocated once, is allocated now
    before_bytes = resident_bytes()
    clients += await arrive(listener, count - 200)
    each_bytes = (resident_bytes() - before_bytes) / (count - 200)
    assert listener.stats().open == count
    assert each_bytes < BYTES_EACH_MAX, f"{each_bytes:.0f} bytes for each of {count} connections"
    clients += await arrive(listener, 1)
    assert listener.stats().requests == count + 1
    clock.now_ms += 1_000
    listener.sweep()
    await until(lambda: listener.stats().open == 0)
    for client in clients:
        client.close()
    await listener.close(0)
    assert any(line.get("lines", 0) > count - 200 for line in log)
