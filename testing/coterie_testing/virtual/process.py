"""A virtual process: an event loop that can be paused, and killed without a word."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, TypeVarTuple, Unpack

from coterie_client.wire.addresses import NodeAddress
from coterie_testing.virtual.scheduler import EPOCH_S, Scheduler

if TYPE_CHECKING:
    # For the type checker, a loop that lacks nothing: what is left out here is never called.
    from asyncio import SelectorEventLoop as _Loop
else:
    _Loop = asyncio.AbstractEventLoop

__all__ = ["Dial", "MakeProtocol", "Process"]


class _Arrival(asyncio.Handle):
    """What a loop learns from its sockets."""

    __slots__ = ()


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MakeProtocol: TypeAlias = Callable[[], asyncio.Protocol]
Dial: TypeAlias = Callable[
    [MakeProtocol, NodeAddress, ssl.SSLContext | None], Awaitable[asyncio.Transport]
]


def _set_task(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> Any:  # noqa: ANN401
    """Have a loop that is running be within a task, or none; the task that it was within.

    Since Python 3.14 no task can run while another one does, of whatever loop.
    """
    if sys.version_info >= (3, 14):
        return asyncio.tasks._swap_current_task(loop, task)  # noqa: SLF001
    return None


class Process(_Loop):
    """An event loop in virtual time, whose turns the scheduler gives out.

    It is to asyncio what any loop is, but for sockets, files, threads, signals and child
    processes: what is missing raises `NotImplementedError`.
    """

    def __init__(self, scheduler: Scheduler, name: str, host: str | None = None) -> None:
        # Not the base's: it would make what a loop with sockets needs.
        self.scheduler = scheduler
        self.name = name
        #: The machine it runs on; several processes may share one.
        self.host = host or name
        self.is_dead = False
        self.is_paused = False
        self._paused_until_s = 0.0
        #: How far its clock is off.
        self.clock_error_s = 0.0
        #: Exceptions that no code in it waited for.
        self.errors: list[dict[str, Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._missed: deque[asyncio.Handle] = deque()
        #: Called when it dies.
        self.on_death: list[Callable[[], None]] = []
        #: Connects it to an address, if it is in a network.
        self.dial: Dial | None = None
        scheduler.processes.append(self)

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether it was not killed."""
        return not self.is_dead

    def wall_ms(self) -> int:
        """The date, as its clock shows it."""
        return round((EPOCH_S + self.scheduler.now_s + self.clock_error_s) * 1000)

    def run(self, handle: asyncio.Handle) -> bool:
        """Run a callback that is due, unless the process is dead, or paused: then keep it."""
        if self.is_dead or handle.cancelled():
            return False
        if self.is_paused:
            self._missed.append(handle)
            return False
        # The scheduler may itself be run by a loop.
        outer = asyncio._get_running_loop()  # noqa: SLF001  # what a loop does
        task = None if outer is None else _set_task(outer, None)
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            handle._run()  # noqa: SLF001
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001
            if outer is not None:
                _set_task(outer, task)
        return True

    def run_until_done(self, work: Coroutine[Any, Any, T], within_s: float = 600.0) -> T:
        """Run a coroutine to its end, and everything else meanwhile; return its result."""
        task = self.create_task(work)
        self.scheduler.run_until(task.done, within_s)
        return task.result()

    def pause(self) -> None:
        """Stop it, as a virtual machine is stopped: it notices nothing, and time passes."""
        self.is_paused = True

    def pause_for(self, seconds: float) -> None:
        """Stop it for a while; of several pauses, it stays until all of them are over."""
        self.pause()
        self._paused_until_s = max(self._paused_until_s, self.scheduler.now_s + seconds)
        self.scheduler.after(seconds, self._resume_if_due)

    def _resume_if_due(self) -> None:
        if self.scheduler.now_s >= self._paused_until_s:
            self.resume()

    def resume(self) -> None:
        """Let it go on; what it missed runs first.

        Timers run before what was read from sockets, and so does all that follows from them at
        once: libuv runs timers before it polls, so the system has to survive this order.
        """
        self.is_paused = False
        missed, self._missed = self._missed, deque()
        timers = [each for each in missed if isinstance(each, asyncio.TimerHandle)]
        arrivals = [each for each in missed if isinstance(each, _Arrival)]
        others = [e for e in missed if not isinstance(e, asyncio.TimerHandle | _Arrival)]
        self.scheduler.call_first(self, (*sorted(timers, key=asyncio.TimerHandle.when), *others))
        for arrival in arrivals:
            self.scheduler.call_at(self.scheduler.now_s, self, arrival)

    def kill(self) -> None:
        """End it at once, as `kill -9` does: none of its code runs again, not even a `finally`.

        But for `discard_tasks`, for which Python insists on it.
        """
        if self.is_dead:
            return
        self.is_dead = True
        for die in self.on_death:
            die()

    def discard_tasks(self) -> None:
        """Close the coroutines of a dead process, so that Python does not warn about them.

        It runs each `finally` in them, as it would whenever it collected them.
        """
        self._missed.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self._tasks.clear()

    # -- asyncio's interface of a loop ---------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self.scheduler.now_s

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self.scheduler.call_soon(self, handle)
        return handle

    def arrive(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Run a callback for something that came over the network."""
        self.scheduler.call_soon(self, _Arrival(callback, args, self))

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after a delay."""
        return self.call_at(self.scheduler.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.scheduler.call_at(when, self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A timer was cancelled; it is dropped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """A task of this loop."""
        title = None if name is None else str(name)
        task = asyncio.Task(coro, loop=self, name=title, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that no code waits for; a process that was killed has none."""
        if not self.is_dead:
            self.errors.append(context)

    async def create_connection(  # type: ignore[override]  # what is asked for here, and no more
        self,
        protocol_factory: MakeProtocol,
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to an address in its network."""
        if self.dial is None:
            raise OSError(f"{self.name} is in no network")
        transport = await self.dial(protocol_factory, NodeAddress(host, port), ssl)
        return transport, transport.get_protocol()

    def get_debug(self) -> bool:
        """Whether asyncio's slow checks are on: they are not."""
        return False

    def is_running(self) -> bool:
        """A virtual loop runs until its process dies."""
        return not self.is_dead

    def is_closed(self) -> bool:
        """Whether its process is dead."""
        return self.is_dead
