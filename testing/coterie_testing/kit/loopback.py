"""A coordinator on a loopback port, in a thread of the test's own process: for any client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from coterie_protocol.journal import Event
from coterie_server.config.settings import Settings
from coterie_server.group import Group
from coterie_server.net import Handler
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from coterie_testing.kit.faults import Faults
from coterie_testing.kit.topics import checked_topics

__all__ = ["LoopbackCoordinator"]

T = TypeVar("T")

#: Settings for tests, which do not like to wait.
_QUICK = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 100,
}

_TIMEOUT_S = 30.0


@dataclass(slots=True)
class _EventLog:
    """Keeps the events of all lives of the coordinator."""

    events: list[Event] = field(default_factory=list)

    def observe(self, ts_ms: int, event: Event) -> None:
        """Keep an event."""
        del ts_ms
        self.events.append(event)


class LoopbackCoordinator:
    """A coordinator that any Kafka client can connect to.

    It runs in a thread, so that clients may block, and stores its groups in a folder, so that they
    outlive a restart.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        folder: Path,
    ) -> None:
        values: dict[str, Any] = _QUICK | dict(settings or {})
        self._options = ServerOptions(
            settings=Settings(**values),
            listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
            topics=checked_topics(topics),
            store=f"sqlite:{folder / 'groups.db'}",
        )
        self._thread: _LoopThread | None = None
        self._server: Server | None = None
        self._log = _EventLog()
        #: Faults of requests.
        self.faults = Faults(time.monotonic, self._node)

    @property
    def bootstrap(self) -> str:
        """The address for clients, as HOST:PORT."""
        return str(self._options.listeners[0].bind)

    @property
    def events(self) -> list[Event]:
        """The events of its journal, over all its lives."""
        return list(self._log.events)

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start; the port stays the same from now on."""
        if self._server is not None:
            raise RuntimeError("the coordinator runs already; stop it first")
        if self._thread is None:
            self._thread = _LoopThread()
        try:
            self._do(self._start())
        except BaseException:
            # Nobody closes what did not start, and its thread would keep the process from ending.
            self._end_thread()
            raise

    def stop(self) -> None:
        """Stop; clients are told so."""
        if self._server is not None:
            self._do(self._stop())

    def restart(self) -> None:
        """Stop and start again, on the same port, with what was stored."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and end the thread."""
        try:
            self.stop()
        finally:
            self._end_thread()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self) -> None:
        server = Server(self._options, gate=self.faults.gate)
        server.add_observer(self._log)
        await server.start()
        self._server = server
        # The port that 0 became, for the next life too.
        self._options = replace(self._options, listeners=(ListenerOptions(server.address),))

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    # -- groups and topics ---------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, or let it grow."""
        checked_topics({name: partitions})
        self._do(self._running.ensure_topic(name, partitions))

    def members(self, group: str) -> tuple[str, ...]:
        """The member ids of a group."""
        return self._look(group, lambda found: tuple(found.members), ())

    def state(self, group: str) -> str:
        """A group's state by Kafka's name; "Dead" if there is no such group."""
        return self._look(group, lambda found: found.state.value, "Dead")

    def generation(self, group: str) -> int:
        """A group's generation; 0 if there is no such group."""
        return self._look(group, lambda found: found.generation, 0)

    def _look(self, group: str, see: Callable[[Group], T], otherwise: T) -> T:
        running = self._running

        async def look() -> T:
            found = running.node.group(group)
            return otherwise if found is None else see(found)

        return self._do(look())

    @property
    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the coordinator is stopped; start it first")
        return self._server

    def _node(self) -> Handler | None:
        return None if self._server is None else self._server.node

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the coordinator's thread, and return its result."""
        assert self._thread is not None
        return self._thread.do(work)


class _LoopThread:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon, so that not even a test that forgets to close it hangs at its end.
        self._thread = threading.Thread(target=self._run, name="coterie coordinator", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and return its result."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(_TIMEOUT_S)
        except TimeoutError:
            if not done.cancel():
                raise  # the coroutine's own
            raise TimeoutError(f"the coordinator did not answer for {_TIMEOUT_S:g} s") from None

    def end(self) -> None:
        """End the thread, and all that runs in it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        self._loop.run_forever()
        # A start that took too long was cancelled, and has to give back what it took.
        for task in (left := asyncio.all_tasks(self._loop)):
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()
