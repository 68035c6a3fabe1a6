"""`coterie serve`: a server that runs until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from coterie_server.log import configure
from coterie_server.log.logger import get_logger
from coterie_server.process import (
    DirectoryInUseError,
    DirectoryUnusableError,
    collect_rarely,
    notify_systemd,
    overlook_what_is_there,
    room_for_connections,
)
from coterie_server.server import Server, ServerError, ServerOptions
from coterie_server.serving import ShardsTakenError
from coterie_server.storage import StoreError
from coterie_server.topics import TopicRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run", "serve"]

_log = get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: What keeps a server from starting; the messages say what to do.
_REFUSALS = (
    DirectoryInUseError,
    DirectoryUnusableError,
    ServerError,
    ShardsTakenError,
    StoreError,
    TopicRefusal,
)


async def serve(options: ServerOptions, *, say: Callable[[str], None] = print) -> None:
    """Serve until SIGTERM or SIGINT; `say` gets the one line that tells that it is ready."""
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with _signals(stop):
        server = Server(options)
        await server.start()
        overlook_what_is_there()
        try:
            say(_ready_line(server))
            notify_systemd("READY=1")
            reason = await stop
        finally:
            notify_systemd("STOPPING=1")
        await server.stop(reason)


@contextlib.contextmanager
def _signals(stop: asyncio.Future[str]) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def note(number: signal.Signals) -> None:
        if not stop.done():
            stop.set_result(number.name)

    for number in _SIGNALS:
        loop.add_signal_handler(number, note, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _ready_line(server: Server) -> str:
    options = server.options
    groups, topics = len(server.node.groups()), len(server.node.topics)
    where = options.store or options.data_dir or "memory"
    http = f", HTTP on http://{server.http_address}" if server.http_address else ""
    counted = f"{groups} group{'s' * (groups != 1)}, {topics} topic{'s' * (topics != 1)}"
    return f"coterie {version('coterie')} is ready on {server.address}{http} ({where}: {counted})"


def run(options: ServerOptions) -> int:
    """Run a server to its end; answer the process's exit code."""
    configure(options.settings.log_level, options.settings.log_format, sys.stderr)
    collect_rarely()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve(_within_open_files(options)))
    except _REFUSALS as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"can't listen on {options.listen}: {error.strerror}.")
    return 0


def _within_open_files(options: ServerOptions) -> ServerOptions:
    """The options with no more connections than this process may have open files."""
    wanted = options.settings.max_connections
    room = room_for_connections(wanted)
    if room == wanted:
        return options
    _log.info("the limit of open files allows fewer connections", set=wanted, connections=room)
    return replace(options, settings=replace(options.settings, max_connections=room))


def _complain(sentence: str) -> int:
    sys.stderr.write(f"coterie: {sentence}\n")
    return 1


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's loop where there is one; asyncio's own does as well, only slower."""
    try:
        import uvloop  # noqa: PLC0415  # not there on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop
