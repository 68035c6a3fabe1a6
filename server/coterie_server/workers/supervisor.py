"""Starts workers, starts one again that dies, and stops them all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from coterie_server import daemon
from coterie_server.config.listeners import NamedAddress
from coterie_server.log import configure
from coterie_server.log.logger import get_logger
from coterie_server.server import ServerError
from coterie_server.storage import FILE_NAME, MemoryStore, open_store
from coterie_server.storage.division import divide
from coterie_server.storage.lock import hold_directory
from coterie_server.storage.urls import without_password
from coterie_server.workers.child import Child, Start, start_process
from coterie_server.workers.ports import PortHolder, options_of_workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from coterie_server.config.options import ServerOptions
    from coterie_server.workers.channel import Ready

__all__ = ["Supervisor", "run"]

_log = get_logger(__name__)

#: How long to wait before a worker is started again, at first and at most.
_AGAIN_FIRST_S: Final = 0.1
_AGAIN_MAX_S: Final = 30.0
#: A worker that has served for so long is started again as soon as one that has not failed before.
_SOUND_S: Final = 60.0

#: How often a worker is asked whether it is well.
_PING_EVERY_S: Final = 1.0
#: How often a process is killed that is to end, as it may just be starting.
_KILL_EVERY_S: Final = 0.1

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
#: What a shell adds to a signal's number for the exit code of a process that it has ended.
_KILLED_BY: Final = 128


def run(options: ServerOptions) -> int:
    """Run workers until SIGTERM or SIGINT; return the exit code of the process."""
    daemon.open_standard_streams()
    configure(options.settings.log_level, options.settings.log_format, sys.stderr)
    try:
        with _directory(options):
            _prepare_store(options)
            return asyncio.run(_supervise(options))
    except daemon.REFUSALS as error:
        return daemon.complain(str(error))


def _directory(options: ServerOptions) -> contextlib.AbstractContextManager[None]:
    if options.data_dir is None:
        return contextlib.nullcontext()
    return hold_directory(options.data_dir)


def _prepare_store(options: ServerOptions) -> None:
    """Refuse a store that workers can't share; have one of theirs alone in files enough."""
    workers = options.settings.workers
    if options.accept_data_loss:
        raise ServerError(
            "a loss is accepted by one process: start once with --accept-data-loss and --workers 1,"
            " then with all workers again."
        )
    if options.store is not None or options.data_dir is None:
        store = open_store(options.store or "memory:")
        if isinstance(store, MemoryStore):
            raise ServerError(
                f"{workers} workers can't share a store in memory. Keep it in a --data-dir or in"
                " another --store, or start one worker."
            )
        return
    divide(options.data_dir / FILE_NAME, workers)


async def _until_next_ping() -> None:
    await asyncio.sleep(_PING_EVERY_S)


async def _supervise(options: ServerOptions) -> int:
    ports = PortHolder()
    try:
        return await Supervisor(options_of_workers(options, ports)).run()
    finally:
        ports.close()


class Supervisor:
    """Keeps workers running until it is told to stop.

    It asks all of them whether they are well each time that `until_next_ping` is over.
    """

    def __init__(
        self,
        workers: Sequence[ServerOptions],
        *,
        start: Start = start_process,
        say: Callable[[str], None] = daemon.tell,
        until_next_ping: Callable[[], Awaitable[object]] = _until_next_ping,
    ) -> None:
        self._workers = [Child(each, start) for each in workers]
        self._say = say
        self._until_next_ping = until_next_ping
        #: Why all are to end, once that is so; the exit code if they are to do so at once.
        self._stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._at_once: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Start all workers and keep them running; return the exit code."""
        with self._signals():
            keeping = [asyncio.create_task(self._keep(worker)) for worker in self._workers]
            telling = asyncio.create_task(self._tell_when_ready())
            watching = asyncio.create_task(self._watch())
            try:
                await _first(self._stop, self._at_once, *keeping)
                daemon.notify_systemd("STOPPING=1")
                telling.cancel()
                if self._stop.done():
                    for worker in self._workers:
                        worker.stop(self._stop.result())
                return await self._ended(keeping)
            finally:
                watching.cancel()
                await self._killed(keeping)

    async def _killed(self, keeping: Sequence[asyncio.Task[int]]) -> None:
        """Kill all workers, also those that are just being started."""
        while not all(each.done() for each in keeping):
            for worker in self._workers:
                worker.kill()
            await asyncio.wait(keeping, timeout=_KILL_EVERY_S)

    @property
    def _is_over(self) -> bool:
        """Whether no worker is to be started again."""
        return self._stop.done() or self._at_once.done()

    async def _ended(self, keeping: Sequence[asyncio.Task[int]]) -> int:
        """Wait until all workers have ended in good order, or are to end at once."""
        codes = asyncio.gather(*keeping)
        await _first(codes, self._at_once)
        if self._at_once.done():
            return self._at_once.result()
        return 1 if any(codes.result()) else 0

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        if any(each.options.reads_files for each in self._workers):
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        if not self._stop.done():
            self._stop.set_result(number.name)
        elif not self._at_once.done():
            _log.warning("ending at once, without waiting for workers", signal=number.name)
            self._at_once.set_result(_KILLED_BY + number)

    def _reload(self) -> None:
        for worker in self._workers:
            worker.reload()

    async def _tell_when_ready(self) -> None:
        for worker in self._workers:
            await worker.was_ready.wait()
        ready = [worker.ready for worker in self._workers if worker.ready is not None]
        self._say(_ready_line([worker.options for worker in self._workers], ready))
        daemon.notify_systemd("READY=1")

    async def _watch(self) -> None:
        """Kill a worker that hangs: clients that come to it would wait in vain.

        One that is to stop may be slow, as its store may be, but it answers meanwhile.  One that
        does not would have the others' end waited for without end.
        """
        while True:
            await self._until_next_ping()
            for worker in self._workers:
                if not worker.ping():
                    _log.error("a worker does not answer, and is killed", node=worker.node_id)
                    worker.kill()

    async def _keep(self, worker: Child) -> int:
        """Run a worker, again and again, until all are to stop; return its last exit code."""
        loop = asyncio.get_running_loop()
        wait_s = _AGAIN_FIRST_S
        while True:
            began_s = loop.time()
            code = await worker.run()
            if self._stop.done() and code == -signal.SIGTERM:
                return 0  # as it was asked to, before it could take note
            if self._is_over:
                return code
            if code and not worker.was_ready.is_set():
                # It has said why.  What it could not do at first, it can't do the next time.
                self._at_once.set_result(code if code > 0 else 1)
                return code
            if loop.time() - began_s >= _SOUND_S:
                wait_s = _AGAIN_FIRST_S
            _log.error(
                "a worker has ended, and is started again",
                node=worker.node_id,
                ended=_how_ended(code),
                wait_s=wait_s,
            )
            await _first(self._stop, self._at_once, within_s=wait_s)
            if self._is_over:
                return 0
            wait_s = min(wait_s * 2, _AGAIN_MAX_S)


async def _first(*futures: asyncio.Future[Any], within_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)


def _how_ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _ready_line(workers: Sequence[ServerOptions], ready: Sequence[Ready]) -> str:
    options = workers[0]
    listening = [
        str(NamedAddress(each.shared or each.bind, each.name)) for each in options.listeners
    ]
    own = [str(each) for told in ready for each in told.advertised.values()]
    where = without_password(options.store or str(options.data_dir))
    return daemon.ready_line(
        listening,
        "" if options.http is None else options.http_url(options.http),
        f"{len(workers)} workers on {', '.join(own)}; {where}",
        groups=sum(told.groups for told in ready),
        topics=max(told.topics for told in ready),
    )
