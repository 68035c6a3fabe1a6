"""What a daemon owes the system it runs on: one process per data directory, and word to systemd."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DirectoryInUseError", "hold_directory", "notify_systemd"]


class DirectoryInUseError(Exception):
    """Another process of this machine uses the data directory."""


@contextlib.contextmanager
def hold_directory(directory: Path) -> Iterator[None]:
    """Make a data directory this process's own for as long as it runs.

    The leases in the store can't do that alone: a node that comes back after a crash gets its own
    shards again at once, and so would a second process started by mistake.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise DirectoryInUseError(
                f"{directory} is in use by process {holder}. Stop it, or choose another --data-dir."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def notify_systemd(state: str) -> None:
    """Tell systemd how it goes, if it asked to be told: READY=1, STOPPING=1."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract sockets begin with a zero byte
        address = f"\0{address[1:]}"
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto(state.encode(), address)
