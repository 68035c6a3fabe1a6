"""An event loop whose time passes only when there is nothing else to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["run_virtually", "settle", "virtual_test"]

P = ParamSpec("P")
T = TypeVar("T")


class _Clock:
    """Seconds since the loop was made."""

    def __init__(self) -> None:
        self.now_s = 0.0


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait for a timeout, but moves the clock on by it."""

    def __init__(self, clock: _Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, let the time pass."""
        found = super().select(0)
        if not found and timeout is None:
            raise AssertionError("all tasks wait, and nothing will ever wake them")
        if not found and timeout is not None and timeout > 0:
            self._clock.now_s += timeout
        return found


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Clock()
        super().__init__(_JumpingSelector(self._virtual))
        self.complaints: list[Mapping[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.complaints.append(context))

    def time(self) -> float:
        """Return the virtual time."""
        return self._virtual.now_s


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time; nothing that asyncio complains about passes."""
    loop = _VirtualLoop()
    with asyncio.Runner(debug=True, loop_factory=lambda: loop) as runner:
        result = runner.run(main)
    assert loop.complaints == []
    return result


def virtual_test(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in virtual time; decorators of pytest's, such as parametrize, stand above."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(test(*args, **kwargs))

    return run


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(10):
        await asyncio.sleep(0)
