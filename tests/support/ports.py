"""Ports for servers that tests start in processes of their own."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["free_port", "free_ports", "take"]

# Ports below every system's ephemeral range. A client that keeps dialling a killed server's port
# can, on loopback, be given that very port as its source and connect to itself; the port is then
# taken when the server comes back.
_PORTS: Final = range(20_000, 32_000)
_HOST: Final = "127.0.0.1"
_handed_out: Final[set[int]] = set()


def free_port() -> int:
    """A loopback port that is free, and that no other caller gets while this process runs."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """As `free_port`, for a port and those that follow it; return the first."""
    for _ in range(1000):
        first = random.choice(_PORTS[: len(_PORTS) - count + 1])
        if all(take(port) for port in range(first, first + count)):
            return first
    raise RuntimeError(f"no {count} free ports found in {_PORTS}")


def take(port: int) -> bool:
    """Whether a port is free; if so, it is this process's until it ends.

    The server binds it seconds later, or again and again, and other processes run tests as well.
    """
    if port in _handed_out or not _can_bind(port):
        return False
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _handed_out.add(port)
    return True


@cache
def _locks() -> int:
    """An open file that has a byte for each port; locks end with the process that has them."""
    path = Path(tempfile.gettempdir()) / f"coterie-test-ports-{os.geteuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
