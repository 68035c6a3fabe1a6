"""A process of a virtual world: an event loop that can be paused, and killed without a word."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from coterie_testing.virtual.world import EPOCH_S, World

if TYPE_CHECKING:
    # For the type checker, a loop that lacks nothing: what is left out here is never called.
    from asyncio import SelectorEventLoop as _Loop
else:
    _Loop = asyncio.AbstractEventLoop

__all__ = ["Process"]


class _Arrival(asyncio.Handle):
    """What a loop learns from its sockets."""

    __slots__ = ()


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Process(_Loop):
    """An event loop whose time is the world's, and whose life ends when the world says so.

    It is to asyncio what any loop is, short of sockets, files, threads, signals and children:
    what is not here raises `NotImplementedError`.
    """

    def __init__(self, world: World, name: str, host: str | None = None) -> None:
        # Not the base's: it would make what a loop with sockets needs.
        self.world = world
        self.name = name
        #: Where it runs; processes of one host fail together when that does.
        self.host = host or name
        self.is_dead = False
        self.is_paused = False
        #: How far its clock is off.
        self.clock_error_s = 0.0
        #: What went wrong in it without anybody waiting for it.
        self.errors: list[dict[str, Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._missed: deque[asyncio.Handle] = deque()
        #: Called when it dies.
        self.on_death: list[Callable[[], None]] = []
        world.processes.append(self)

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether it was not killed."""
        return not self.is_dead

    def wall_ms(self) -> int:
        """The date, as its clock shows it."""
        return round((EPOCH_S + self.world.now_s + self.clock_error_s) * 1000)

    def pause(self) -> None:
        """Stop it, as a virtual machine is stopped; it notices nothing but the time."""
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on; what it missed happens first.

        Timers come before what was found out from sockets, and so does all that follows from them
        at once: libuv runs timers before it polls, so this order has to be survived.
        """
        self.is_paused = False
        missed, self._missed = self._missed, deque()
        timers = [each for each in missed if isinstance(each, asyncio.TimerHandle)]
        arrivals = [each for each in missed if isinstance(each, _Arrival)]
        others = [e for e in missed if not isinstance(e, asyncio.TimerHandle | _Arrival)]
        self.world.sooner(self, (*sorted(timers, key=asyncio.TimerHandle.when), *others))
        for arrival in arrivals:
            self.world.at(self.world.now_s, self, arrival)

    def miss(self, handle: asyncio.Handle) -> None:
        """Keep a callback until the process goes on."""
        self._missed.append(handle)

    def kill(self) -> None:
        """End it at once, as `kill -9` does: nothing of it runs any more, not even a `finally`."""
        if self.is_dead:
            return
        self.is_dead = True
        for die in self.on_death:
            die()

    def bury(self) -> None:
        """Take its tasks apart, once nobody cares any more what they do meanwhile."""
        self._missed.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        self._tasks.clear()

    # -- what asyncio asks of a loop -----------------------------------------------------------

    def time(self) -> float:
        """Seconds since the world began."""
        return self.world.now_s

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Run a callback in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self.world.soon(self, handle)
        return handle

    def arrive(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Run a callback for something that came over the network."""
        self.world.soon(self, _Arrival(callback, args, self))

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after some time."""
        return self.call_at(self.world.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.at(when, self, handle)
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
        """Keep what went wrong, for checks; a process that was killed does not complain."""
        if not self.is_dead:
            self.errors.append(context)

    def get_debug(self) -> bool:
        """Whether everything is to be checked at the cost of speed."""
        return False

    def is_running(self) -> bool:
        """A loop of a virtual world always is, until it dies."""
        return not self.is_dead

    def is_closed(self) -> bool:
        """Whether it is dead."""
        return self.is_dead
