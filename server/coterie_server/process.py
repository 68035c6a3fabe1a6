"""What a daemon owes the system it runs on, and what it asks of it."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
from typing import TYPE_CHECKING, Final

from coterie_server.storage.lock import FileLock, HeldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "DirectoryInUseError",
    "DirectoryUnusableError",
    "collect_rarely",
    "hold_directory",
    "notify_systemd",
    "overlook_what_is_there",
    "room_for_connections",
]

#: Open files that are no client's connection: the store, the journal, HTTP, listening sockets.
_OTHER_FILES: Final = 100
#: After so many new objects the collector looks for garbage among them; Python's default is 700.
_NEW_OBJECTS: Final = 20_000


class DirectoryInUseError(Exception):
    """Another process of this machine uses the data directory."""


class DirectoryUnusableError(Exception):
    """The data directory can't be made or written to."""


@contextlib.contextmanager
def hold_directory(directory: Path) -> Iterator[None]:
    """Make a data directory this process's own for as long as it runs.

    The leases in the store can't do that alone: a node that comes back after a crash gets its own
    shards again at once, and so would a second process started by mistake.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / "lock")
    except HeldError as error:
        raise DirectoryInUseError(
            f"{directory} is in use by process {error.holder}. Stop it, or choose another"
            " --data-dir."
        ) from None
    except OSError as error:
        raise DirectoryUnusableError(
            f"can't keep data in {directory}: {error.strerror}. Choose another --data-dir."
        ) from error
    try:
        yield
    finally:
        lock.release()


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


def room_for_connections(wanted: int) -> int:
    """Let this process open as many files as it needs; answer for how many connections that is.

    The usual limit of a thousand is meant for programs that wait with select(), which we do not.
    At the limit nothing could be opened any more, so the journal and HTTP would stop as well: fewer
    connections are to be let in than that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if _is_less(soft, needed):
        attainable = hard if _is_less(hard, needed) else needed
        # Some systems have a lower limit than the one that they tell.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (attainable, hard))
            soft = attainable
    return max(soft - _OTHER_FILES, 1) if _is_less(soft, needed) else wanted


def _is_less(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed


def collect_rarely() -> None:
    """Look for garbage in cycles less often than Python does by itself.

    What a coordinator keeps, members and offsets above all, is much, lives long and is in no
    cycles.  Looking at all of it again and again was a sixth of the work when 1,000 members
    joined at once, and found nothing.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


def overlook_what_is_there() -> None:
    """Never look for garbage in what the process is made of by now: it is there to stay."""
    gc.collect()
    gc.freeze()
