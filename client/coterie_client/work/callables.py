"""Whether a user's callable is async, as far as that can be told without calling it."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

from coterie_client import checks
from coterie_client.errors import ConfigurationError

__all__ = ["NotAwaitableError", "awaited", "is_async", "require_async"]

P = TypeVar("P")

_AWAITABLE_GENERATOR: Final = inspect.CO_ITERABLE_COROUTINE


class NotAwaitableError(ConfigurationError):
    """A user's function returned what can't be awaited."""


async def awaited(function: Callable[[P], object], argument: P, name: str) -> object:
    """Call a user's function, which a parameter of the given name stands for, and await it."""
    result = function(argument)
    if not inspect.isawaitable(result):
        kind = "None" if result is None else f"a value of type {type(result).__name__}"
        raise NotAwaitableError(
            f"{name} must be an async function, but this one returned {kind}, which can't be"
            " awaited"
        )
    return await result


def is_async(function: Any) -> bool:  # noqa: ANN401  # anything a user passes
    """Whether calling it certainly returns a coroutine."""
    return inspect.iscoroutinefunction(_called(function))


def require_async(work: Any, name: str = "work", takes: str = "a Partition") -> None:  # noqa: ANN401
    """Refuse work that can't be called, or whose result certainly can't be awaited.

    A plain function may return another function's coroutine, so one that returns anything is
    accepted until it is called.  One that never returns a value is refused: called in the event
    loop, it would only block it.
    """
    wanted = f"an async function that takes {takes}"
    if inspect.iscoroutine(work):
        work.close()  # otherwise Python also warns that it was never awaited
        raise ConfigurationError(
            f"{name} must be {wanted}, got a coroutine: pass the function without calling it"
        )
    if not callable(work):
        checks.must_be(name, wanted, work)
    function = _called(work)
    code = function.__code__ if isinstance(function, FunctionType) else None
    # Generators decorated with `types.coroutine` can be awaited.
    if code is not None and not code.co_flags & (inspect.CO_COROUTINE | _AWAITABLE_GENERATOR):
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
            checks.must_be(name, f"{wanted}, and not a generator", work)
        if _returns_nothing(code):
            checks.must_be(name, f"{wanted}, and not a plain function", work)
    try:
        signature = inspect.signature(work)
    except (TypeError, ValueError):  # written in C without one, or a mock that Python can't read
        return
    try:
        signature.bind(object())
    except TypeError as error:
        raise ConfigurationError(
            f"{name} must be {wanted}, but this one can't be called with one: {error}"
        ) from None


def _called(function: Any) -> Any:  # noqa: ANN401
    """The underlying function of partials, bound methods and objects with `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    return getattr(function, "__func__", function)


def _returns_nothing(code: CodeType) -> bool:
    """Whether a function returns None, or not at all, on every path.

    A return gives None if the instruction before loads None and no jump skips that one.
    """
    before: dis.Instruction | None = None
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_CONST":  # Python 3.12 and 3.13
            if each.argval is not None:
                return False
        elif each.opname == "RETURN_VALUE" and (
            each.is_jump_target
            or before is None
            or before.opname != "LOAD_CONST"
            or before.argval is not None
        ):
            return False
        before = each
    return True
