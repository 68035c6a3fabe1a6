"""One worker, as its supervisor sees it: the processes that it has in turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from coterie_server.log.logger import get_logger
from coterie_server.workers.channel import (
    HELD_BACK,
    PING,
    PONG,
    RELOAD,
    Ready,
    encoded,
    stop_line,
)

if TYPE_CHECKING:
    from coterie_server.config.options import ServerOptions

__all__ = ["FIRST_PINGS_MAX", "PINGS_MAX", "Child", "Process", "Start", "start_process"]

_log = get_logger(__name__)

#: How many pings a worker may leave unanswered, once it serves and while it starts.  They are
#: counted, and not the time, which also goes on while the machine is suspended.
PINGS_MAX: Final = 10
FIRST_PINGS_MAX: Final = 60
#: Stands for the exit code of a worker that could not even be started.
_NOT_STARTED: Final = 1


class Process(Protocol):
    """A process that was started."""

    def kill(self) -> None:
        """End it at once."""

    async def wait(self) -> int:
        """Return its exit code when it has ended, which is negative for a signal."""


async def start_process(options: ServerOptions, its: socket.socket) -> Process:
    """Start a worker, which is told through a socket what it is; raises `OSError`."""
    environ = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    inherited = () if options.worker is None else options.worker.inherited.values()
    # It gets to see them when it can handle them: Ctrl-C reaches all processes of a terminal.
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "coterie_server.workers.worker",
            str(its.fileno()),
            f"node-{options.settings.node_id}",  # for those who look at the processes
            pass_fds=(its.fileno(), *(number for numbers in inherited for number in numbers)),
            env=environ,
            stdin=subprocess.DEVNULL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)


Start = Callable[["ServerOptions", socket.socket], Awaitable[Process]]
"""Starts a worker, which is told through a socket what it is; may raise `OSError`."""


class Child:
    """One worker, with the processes that it has in turn."""

    def __init__(self, options: ServerOptions, start: Start) -> None:
        self.options = options
        self.was_ready = asyncio.Event()
        #: What it said when it was ready last.
        self.ready: Ready | None = None
        self._start = start
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stop_reason = ""
        #: How many pings it has not answered, and how many it may leave so.
        self._unanswered, self._patience = 0, FIRST_PINGS_MAX

    @property
    def node_id(self) -> int:
        """The id of its node."""
        return self.options.settings.node_id

    async def run(self) -> int:
        """Run a process until it ends; return its exit code, which is negative for a signal."""
        try:
            ours = await self._started()
        except OSError as error:
            _log.error("a worker can't be started", node=self.node_id, error=str(error))
            return _NOT_STARTED
        process = self._process
        assert process is not None
        reader, self._writer = await asyncio.open_connection(sock=ours)
        try:
            await self._hear(reader)
            return await process.wait()
        finally:
            self._writer.close()
            self._process = self._writer = None

    async def _started(self) -> socket.socket:
        """Start a process, and return the socket by which to talk to it."""
        self._unanswered, self._patience = 0, FIRST_PINGS_MAX
        with contextlib.ExitStack() as undo:
            ours, its = socket.socketpair()
            undo.callback(ours.close)
            with its:
                self._process = await self._start(self.options, its)
            undo.pop_all()
        return ours

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        """Tell the worker what it is, and note that it is ready, until it ends."""
        assert self._writer is not None
        with contextlib.suppress(OSError):
            self._writer.write(encoded(self._options_now()))
            if self._stop_reason:  # meanwhile
                self._writer.write(stop_line(self._stop_reason))
            await self._writer.drain()
            async for line in reader:
                self._unanswered = 0
                if line != PONG:
                    self.ready = Ready.of(line)
                    self._patience = PINGS_MAX
                    self.was_ready.set()

    def _options_now(self) -> ServerOptions:
        """What it is told: if it served before, nothing that is only meant for a beginning.

        There is a store, and topics and users are as operators have left them.
        """
        worker = self.options.worker
        if worker is None or not self.was_ready.is_set():
            return self.options
        settings = replace(
            self.options.settings, bootstrap_users_file="", bootstrap_user="", bootstrap_password=""
        )
        return replace(
            self.options,
            settings=settings,
            topics={},
            worker=replace(worker, is_again=True),
        )

    def ping(self) -> bool:
        """Ask whether it is well; return False once it is not."""
        if self._writer is None:
            return True
        if self._unanswered >= self._patience:
            return False
        self._unanswered += 1
        self._writer.write(PING)
        return True

    def stop(self, reason: str) -> None:
        """Have it end in good order."""
        self._stop_reason = reason
        if self._writer is not None:
            self._writer.write(stop_line(reason))

    def reload(self) -> None:
        """Have it read its files again; if it is just starting, once it has started."""
        if self._writer is not None:
            self._writer.write(RELOAD)

    def kill(self) -> None:
        """Have it end at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
