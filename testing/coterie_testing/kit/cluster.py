"""A coordinator and programs that use it, in one process and in virtual time."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from typing import Any, Final, Self, TypeVar

from coterie_client.membership import Sources
from coterie_client.options import default_sources
from coterie_client.wire import default_dial
from coterie_protocol.journal import Event, Line
from coterie_server.config.settings import Settings
from coterie_testing.kit.faults import Faults
from coterie_testing.kit.topics import checked_topics
from coterie_testing.sim.coordinator import ADDRESS, SimulatedCoordinator
from coterie_testing.virtual import Disk, IdleError, Network, Process, Scheduler
from coterie_testing.virtual.scheduler import ExternalCall

__all__ = ["Cluster", "Program"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MISSING: Final = (
    "In virtual time there are no sockets, threads or child processes. Make groups and other"
    " clients inside the program's coroutine: those that were made elsewhere want a socket."
)


def _first_error(process: Process) -> BaseException | None:
    """The first exception in a process that no code waited for."""
    errors = (each.get("exception") for each in process.errors)
    return next((each for each in errors if isinstance(each, BaseException)), None)


def _holds(condition: Callable[[], object]) -> bool:
    """Whether a condition holds; one that is async would seem to, whatever it came to."""
    found = condition()
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise TypeError(f"a condition must not be async: {condition!r} returned {found!r}")
    return bool(found)


class Program:
    """A program that a test starts, in a virtual process of its own."""

    def __init__(self, cluster: Cluster, name: str, process: Process) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self.name = name
        self.process = process
        self._task: asyncio.Task[Any] | None = None
        self._is_asked = False

    def begin(self, main: Coroutine[Any, Any, Any]) -> None:
        """Run its main coroutine, in a context in which clients use the virtual network."""
        context = copy_context()
        context.run(default_dial.set, self._network.dialler(self.process))
        sources = Sources(self._cluster.scheduler.random.random, self.process.wall_ms)
        context.run(default_sources.set, sources)
        self._task = self.process.create_task(main, name=self.name, context=context)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        # Pytest shows this with the test that fails.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the program %s has failed", self.name, exc_info=error)

    @property
    def is_done(self) -> bool:
        """Whether its main coroutine has ended: it returned, raised, or was stopped."""
        return self._task is not None and self._task.done()

    def result(self) -> Any:  # noqa: ANN401  # whatever its main coroutine returns
        """What its main coroutine returned; raises what that raised.

        If nobody asks for what it raised, that fails the test when the cluster is closed.
        """
        if self._task is None:
            raise RuntimeError(f"{self.name} was not begun")
        self._is_asked = self._task.done()
        self._error()  # with its note
        return self._task.result()

    def ask_for_error(self) -> BaseException | None:
        """What has ended it, or a task of its own that it did not wait for."""
        self._is_asked = self.is_done
        return self._error() or _first_error(self.process)

    def unasked_error(self) -> BaseException | None:
        """What its main coroutine raised, if nobody has asked for it."""
        return None if self._is_asked else self._error()

    def _error(self) -> BaseException | None:
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        error = self._task.exception()
        if isinstance(error, NotImplementedError) and not hasattr(error, "__notes__"):
            error.add_note(_MISSING)
        return error

    # -- faults --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancel its main coroutine, as Ctrl-C would."""
        if self._task is not None:
            self.process.call_soon(self._task.cancel)

    def kill(self) -> None:
        """`kill -9`: none of its code runs, not even a `finally`, until the cluster closes."""
        self.process.kill()

    def pause(self, seconds: float) -> None:
        """Stop the machine it runs on for a while, as a hypervisor does."""
        self.process.pause_for(seconds)

    def cut(self) -> None:
        """Break its connections; it may connect anew at once."""
        self._network.cut(self.process)

    def part(self, seconds: float) -> None:
        """Cut it off from the coordinator for a while."""
        self._cluster.scheduler.after(
            seconds, self._network.conditions.isolate(self.process.host, ADDRESS.host)
        )


class Cluster:
    """A coordinator, a network, and time that passes only when the test lets it.

    Programs are plain asyncio code that uses `coterie_client`. What they await takes no real time,
    and the seed decides everything that is random::

        with Cluster({"orders": 4}) as cluster:
            first, second = (cluster.start(name, consume(cluster.bootstrap)) for name in "ab")
            cluster.run_until(lambda: everything_is_owned())
            first.kill()
            cluster.run(seconds=60)
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        #: Faults of requests.
        self.faults = Faults(lambda: self.scheduler.now_s, lambda: self._coordinator.node)
        values: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0} | dict(settings or {})
        self._coordinator = SimulatedCoordinator(
            self.scheduler,
            self.network,
            Settings(**values),
            checked_topics(topics),
            Disk(self.scheduler),
            gate=self.faults.gate,
        )
        self._programs: list[Program] = []
        self._restart: ExternalCall | None = None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self._coordinator.start()
        self.run_until(lambda: self.is_up or self._coordinator.refusal is not None)
        if self._coordinator.refusal is not None:
            raise self._coordinator.refusal

    @property
    def bootstrap(self) -> str:
        """Where clients connect; hand it to `Group` or `Admin`."""
        return str(ADDRESS)

    @property
    def is_up(self) -> bool:
        """Whether the coordinator serves."""
        return self._coordinator.is_up

    @property
    def now_s(self) -> float:
        """Seconds since the cluster began."""
        return self.scheduler.now_s

    @property
    def journal(self) -> list[Line]:
        """The coordinator's journal, as a reader of its files would find it."""
        return list(self._coordinator.journal)

    @property
    def events(self) -> list[Event]:
        """What the coordinator's journal says."""
        return [line.event for line in self._coordinator.journal]

    # -- programs and time ---------------------------------------------------------------------

    def start(self, name: str, main: Coroutine[Any, Any, Any]) -> Program:
        """Start a program; what it raises fails the test in the end, unless that asks for it."""
        program = Program(self, name, Process(self.scheduler, name))
        self._programs.append(program)
        program.begin(main)
        return program

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run(seconds)

    def run_until(self, done: Callable[[], bool], within_s: float = 600.0) -> None:
        """Let time pass until a condition holds; raise `IdleError` if it never does.

        The error names programs that have failed, of which the first is its cause.
        """
        try:
            self.scheduler.run_until(lambda: _holds(done), within_s)
        except IdleError as idle:
            asked = {each.name: each.ask_for_error() for each in self._programs}
            errors = {name: error for name, error in asked.items() if error is not None}
            process = self._coordinator.process
            if process is not None and (error := _first_error(process)) is not None:
                errors["the coordinator"] = error
            if not errors:
                raise
            told = ", and ".join(f"{name} failed with {e!r}" for name, e in errors.items())
            raise IdleError(f"{idle}; {told}") from next(iter(errors.values()))

    def call(self, work: Coroutine[Any, Any, T], within_s: float = 600.0) -> T:
        """Run a coroutine to its end in a process of its own, and return its result."""
        program = self.start("call", work)
        self.run_until(lambda: program.is_done, within_s)
        answer: T = program.result()
        return answer

    # -- the coordinator -----------------------------------------------------------------------

    def kill_coordinator(self) -> None:
        """`kill -9` the coordinator; its disk stays, and a restart that is due is called off."""
        self._call_off_restart()
        self._coordinator.kill()

    def start_coordinator(self) -> None:
        """Start the coordinator again, with what it has stored, and instead of a later restart."""
        self._call_off_restart()
        process = self._coordinator.process
        if process is not None and not process.is_dead:
            raise RuntimeError("the coordinator runs already: kill it first")
        self._coordinator.start()

    def restart_coordinator(self, after_s: float = 1.0) -> None:
        """Kill the coordinator now, and start it again after a while; the last restart counts."""
        self.kill_coordinator()
        self._restart = self.scheduler.after(after_s, self.start_coordinator)

    def _call_off_restart(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None

    def pause_coordinator(self, seconds: float) -> None:
        """Stop the coordinator's machine for a while."""
        process = self._coordinator.process
        if process is not None:
            process.pause_for(seconds)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything; raise what programs raised that nobody asked for by `result`."""
        failed = self._end()
        if failed:
            raise BaseExceptionGroup(_told(failed), list(failed.values()))

    def _end(self) -> dict[Program, BaseException]:
        errors = {program: program.unasked_error() for program in self._programs}
        self._programs.clear()
        self.scheduler.close()
        return {program: error for program, error in errors.items() if error is not None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is None:
            self.close()
        elif failed := self._end():
            error.add_note(f"{_told(failed)}: {', '.join(map(repr, failed.values()))}")


def _told(failed: Mapping[Program, BaseException]) -> str:
    names = ", ".join(program.name for program in failed)
    return f"nobody asked, with result(), for what these programs raised: {names}"
