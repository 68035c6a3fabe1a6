"""A worker: a server in a process that a supervisor started."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from coterie_server import daemon
from coterie_server.workers.channel import HELD_BACK, PING, PONG, RELOAD, Ready, receive_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_server.server import Server

__all__ = ["main"]

#: The exit code of a worker whose supervisor has ended before it.
_ORPHANED = 70
#: PR_SET_PDEATHSIG of Linux's prctl.
_SET_DEATH_SIGNAL = 1


def main(number: int) -> int:
    """Serve as the supervisor at the other end of a socket says; return the exit code."""
    _die_with_parent()
    # Ctrl-C and hang-ups reach all processes of the terminal; the supervisor acts on them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    channel = socket.socket(fileno=number)
    try:
        options = receive_options(channel)
    except EOFError:
        return _ORPHANED
    return daemon.run(options, _Supervisor(channel))


def _die_with_parent() -> None:
    """Have Linux kill this process when its supervisor ends, even if it is suspended by then.

    On other systems it notices by itself, as soon as it runs, that the channel has ended.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


class _Supervisor:
    """The process that started this one."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def watch(self, stop: asyncio.Future[str], reload: Callable[[], None]) -> None:
        """End when the supervisor says so, and at once when it has ended itself.

        That is seen to by a thread, as the event loop may be held up.
        """
        loop = asyncio.get_running_loop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)

        def listen() -> None:
            # It is asked until the process has ended, and the event loop ends before that.
            with contextlib.suppress(RuntimeError):
                while True:
                    heed(self._line())

        def heed(said: bytes) -> None:
            if said == PING:
                loop.call_soon_threadsafe(self._channel.sendall, PONG)
            elif said == RELOAD:
                loop.call_soon_threadsafe(reload)
            else:
                loop.call_soon_threadsafe(daemon.note_stop, stop, said.decode().strip())

        threading.Thread(target=listen, name="supervisor", daemon=True).start()

    def _line(self) -> bytes:
        """What the supervisor says next; if it has ended, so does this process."""
        said = b""
        while not said.endswith(b"\n"):
            try:
                part = self._channel.recv(1)
            except OSError:
                part = b""
            if not part:
                os._exit(_ORPHANED)
            said += part
        return said

    def ready(self, server: Server) -> None:
        """Tell the supervisor that the worker serves."""
        advertised = {name: str(address) for name, address in server.advertised.items()}
        said = Ready(advertised, len(server.node.groups()), len(server.node.topics))
        self._channel.sendall(said.line())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
