"""`coterie serve`: a server that runs until a signal, and what it asks of the system it runs on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from coterie_protocol.version import VERSION
from coterie_server.config.listeners import ListenerError, NamedAddress
from coterie_server.config.setting import SettingsError
from coterie_server.log import configure
from coterie_server.log.logger import get_logger
from coterie_server.log.output import Output
from coterie_server.server import Server, ServerError, ServerOptions
from coterie_server.storage import StoreError, count_parts
from coterie_server.storage.lock import DirectoryInUseError, DirectoryUnusableError
from coterie_server.storage.urls import without_password
from coterie_server.topics import TopicRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence


__all__ = [
    "REFUSALS",
    "Reloading",
    "Supervised",
    "collect_garbage_rarely",
    "complain",
    "note_stop",
    "notify_systemd",
    "open_standard_streams",
    "raise_open_file_limit",
    "ready_line",
    "run",
    "serve",
    "tell",
]

_log = get_logger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

#: Errors that keep a server from starting; their messages say what to do.
REFUSALS: Final = (
    DirectoryInUseError,
    DirectoryUnusableError,
    ListenerError,
    ServerError,
    SettingsError,
    StoreError,
    TopicRefusal,
)

#: Open files that are not connections of clients: the store, the journal, HTTP, listening sockets.
_OTHER_FILES: Final = 100
#: What each file of a divided store takes beyond these: itself, its log, their index and its mark.
_FILES_OF_A_PART: Final = 4
#: How many a watcher of HTTP takes where another node has its group.
_FILES_OF_A_WATCHER: Final = 2
#: How many new objects make the collector look for garbage, and after how many such looks it looks
#: at everything; by the number in the middle, those that a look finds in use count as old at once.
#: Python's default is 700 (2,000 from 3.13 on), 10 and 10.  A look takes some milliseconds, or some
#: ten if all are in use; one at everything as many as there are thousands of groups, so it is for
#: garbage that nothing is known to make.
_LOOKS: Final = (200_000, -1, 150)
#: How many names of machines uvloop looks up at once, where it has four threads for that.  One that
#: no name server knows of, as that of a node that has ended, may take half a minute, and a few of
#: these must not keep the database from being found.
_LOOKUPS: Final = 32
#: The number of the last of the files that each process has.
_STANDARD_ERROR: Final = 2
#: With fewer there would be next to nothing left for clients.
_LEAST_FILES: Final = 128
#: With room for fewer connections than this, members may well be turned away.
_FEW_CONNECTIONS: Final = 1000


class Supervised(Protocol):
    """What a server of several has to do with what has started it."""

    def watch(self, stop: asyncio.Future[str], reload: Callable[[], None]) -> None:
        """Settle a future when the server is to stop, with the reason.

        Call `reload` when it is to read its files again.
        """

    def ready(self, server: Server) -> None:
        """Say that the server serves."""


def run(options: ServerOptions, supervised: Supervised | None = None) -> int:
    """Run a server until SIGTERM or SIGINT; return the exit code of the process.

    A supervised one takes no notice of SIGINT, and says through its supervisor that it is ready.
    """
    open_standard_streams()
    settings = options.settings
    node = None if supervised is None else settings.node_id
    configure(settings.log_level, settings.log_format, sys.stderr, node)
    new_loop = _loop_factory()
    if new_loop is not None:  # asyncio's own loop leaves each connection in a cycle
        collect_garbage_rarely()
    try:
        allowed = _within_open_files(options)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serve(allowed, supervised=supervised))
    except REFUSALS as error:
        return complain(str(error))
    except OSError as error:
        if error.filename is None:
            raise  # not one of the files that it reads at its start, such as its journal's
        return complain(f"{error.filename} can't be used: {error.strerror}.{_way_on(error)}")
    return 0


def _way_on(error: OSError) -> str:
    match error:
        case PermissionError():
            return " Check the rights on it and on its folder."
        case OSError(errno=errno.EIO):
            return " Check the disk, and the system's log."
    return ""


def complain(sentence: str) -> int:
    """Say why the daemon ends, and return its exit code."""
    sys.stderr.write(f"coterie: {sentence}\n")
    return 1


def tell(line: str) -> None:
    """Print a line, at once if it is taken; the daemon does not wait until one is read.

    Where it can't be written, the daemon goes on without it.
    """
    Output(sys.stdout, lambda _: None, _print_no_more).write(line)


def _print_no_more(error: OSError) -> None:
    _log.warning("standard output can't be written", error=error.strerror)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # for what waits in its buffer
    os.close(nowhere)


async def serve(
    options: ServerOptions,
    *,
    say: Callable[[str], None] = tell,
    supervised: Supervised | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; `say` gets the line that says that the server is ready."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    server = Server(options)
    reloading = Reloading(server.reload)
    with _signals(stop, _SIGNALS if supervised is None else (signal.SIGTERM,)):
        if supervised is not None:
            supervised.watch(stop, reloading.begin)
        elif options.reads_files:
            # Where there is nothing to read again, the end of a terminal ends the daemon.
            loop.add_signal_handler(signal.SIGHUP, reloading.begin)
        try:
            if not await _start(server, stop):
                return
            _exempt_from_collection()
            reloading.open()
            if supervised is None:
                say(_ready_line(server))
                notify_systemd("READY=1")
            else:
                supervised.ready(server)
            reason = await stop
        finally:
            if supervised is None:
                notify_systemd("STOPPING=1")
        await server.stop(reason)


async def _start(server: Server, stop: asyncio.Future[str]) -> bool:
    """Start a server; if it is to stop first, undo what was begun, and return False.

    It may wait for long, for the end of a lease or for a database.
    """
    starting = asyncio.ensure_future(server.start())

    def interrupt(_: object) -> None:
        starting.cancel()

    stop.add_done_callback(interrupt)
    try:
        await starting
    except asyncio.CancelledError:
        if not stop.done():
            raise
        _log.info("stopped before it served", reason=stop.result())
        return False
    finally:
        stop.remove_done_callback(interrupt)
    return True


class Reloading:
    """Has files read again: once at a time, and once more for all that was asked for meanwhile."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._read = read
        self._is_open = self._is_wanted = False
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Read them, as soon as that can be done."""
        self._is_wanted = True
        if self._is_open and (self._running is None or self._running.done()):
            self._running = asyncio.get_running_loop().create_task(self._read_while_wanted())

    def open(self) -> None:
        """Go on: they have been read for the first time, and may have changed since."""
        self._is_open = True
        if self._is_wanted:
            self.begin()

    async def _read_while_wanted(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await self._read()


@contextlib.contextmanager
def _signals(stop: asyncio.Future[str], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, note_stop, stop, number.name)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def note_stop(stop: asyncio.Future[str], reason: str) -> None:
    """Settle a future with why the server is to stop, unless it was told so before."""
    if not stop.done():
        stop.set_result(reason)


def _ready_line(server: Server) -> str:
    options = server.options
    return ready_line(
        [str(NamedAddress(at, name)) for name, at in server.addresses.items()],
        "" if server.http_address is None else options.http_url(server.http_address),
        without_password(options.store or str(options.data_dir or "memory")),
        groups=len(server.node.groups()),
        topics=len(server.node.topics),
    )


def ready_line(listening: Sequence[str], http: str, where: str, *, groups: int, topics: int) -> str:
    """What is said when clients are served."""
    answers = f", HTTP on {http}" if http else ""
    counted = f"{groups} group{'s' * (groups != 1)}, {topics} topic{'s' * (topics != 1)}"
    ready = f"coterie {VERSION} is ready on {' and '.join(listening)}"
    return f"{ready}{answers} ({where}: {counted})"


# -- the system ------------------------------------------------------------------------------------


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Make uvloop's event loop where that is installed; asyncio's own works as well, but slower."""
    os.environ.setdefault("UV_THREADPOOL_SIZE", str(_LOOKUPS))  # read with the first lookup
    try:
        import uvloop  # noqa: PLC0415  # not there on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


def _within_open_files(options: ServerOptions) -> ServerOptions:
    """The options, with no more connections than this process may have open files."""
    wanted = options.settings.max_connections
    watchers = 0 if options.http is None else options.settings.http_max_watchers
    total = wanted + watchers * _FILES_OF_A_WATCHER
    of_parts = _FILES_OF_A_PART * _parts(options)
    possible = raise_open_file_limit(total, _OTHER_FILES + of_parts)
    if possible < total:  # most are for members
        watchers = min(watchers, possible // 4 // _FILES_OF_A_WATCHER)
    possible -= watchers * _FILES_OF_A_WATCHER
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = _LEAST_FILES + of_parts
    if _is_less(files, least):
        raise ServerError(
            f"this process may have {files} open files, and needs {least} at least. Raise"
            " the limit, as with `ulimit -n 4096`."
        )
    if possible == wanted:
        return options
    tell = _log.warning if possible < _FEW_CONNECTIONS else _log.info
    tell("the limit of open files allows fewer connections", set=wanted, connections=possible)
    allowed = replace(options.settings, max_connections=possible, http_max_watchers=watchers)
    return replace(options, settings=allowed)


def _parts(options: ServerOptions) -> int:
    """Of how many files the store is or will be, beside the main one."""
    wanted = 0 if options.worker is None else len(options.worker.node_ids)
    return max(count_parts(options.store_url), wanted if wanted > 1 else 0)


def raise_open_file_limit(connections: int, others: int = _OTHER_FILES) -> int:
    """Raise the limit of open files as far as needed; return how many connections it allows.

    The usual limit of a thousand is meant for programs that use select(), which this one does not.
    At the limit no file could be opened any more, not even by the journal and HTTP, so fewer
    connections must be let in.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + others
    if _is_less(soft, needed):
        attainable = hard if _is_less(hard, needed) else needed
        # Some systems have a lower limit than the one that they report.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (attainable, hard))
            soft = attainable
    return max(soft - others, 1) if _is_less(soft, needed) else connections


def _is_less(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed


def open_standard_streams() -> None:
    """Open to nowhere what was closed of standard input, output and error.

    Files of the store would get their numbers otherwise, and what is printed would go there.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= _STANDARD_ERROR:
        os.set_inheritable(number, True)  # noqa: FBT003  # the os module's API
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    # Python has no streams for those that were closed when it began.
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(_STANDARD_ERROR, "w", closefd=False)


def notify_systemd(state: str) -> None:
    """Send READY=1 or STOPPING=1 to systemd, if it started this process as Type=notify."""
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


def collect_garbage_rarely() -> None:
    """Look for cyclic garbage less often than Python does by default.

    Members and offsets are many, live long and are in no cycles, and clients leave none behind.  To
    look at each object was a sixth of the work while thousands joined at once, as they are all over
    the memory; by now most are gone again before a look.  With 100,000 groups, one look at
    everything kept all clients waiting for 0.8 s, and with members it takes longer.
    """
    gc.set_threshold(*_LOOKS)


def _exempt_from_collection() -> None:
    """Never look for garbage among the objects that exist by now, as they are there to stay."""
    gc.collect()
    gc.freeze()
