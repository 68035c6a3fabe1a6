"""What can be told of a user's function without calling it."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from coterie_client.errors import ConfigurationError
from coterie_client.work.callables import is_async, require_async


async def work(partition: object) -> None:
    """Do nothing."""


async def with_more(jobs: object, partition: object, *, eager: bool = False) -> None:
    """Do nothing."""


def hands_on(partition: object) -> Awaitable[None]:
    """Be plain, and return what can be awaited."""
    return work(partition)


def sometimes(partition: object) -> Awaitable[None] | None:
    """Return something on one path."""
    return work(partition) if partition else None


@types.coroutine
def old_style(_partition: object) -> Iterator[Any]:
    """A generator that can be awaited."""
    yield


def wrapped(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Decorate as people do who do not know whether what they decorate is async."""

    @functools.wraps(function)
    def wrapper(*args: object) -> Awaitable[None]:
        return function(*args)

    return wrapper


class Worker:
    """Has all kinds of methods."""

    async def __call__(self, partition: object) -> None:
        """Do nothing."""

    async def method(self, partition: object) -> None:
        """Do nothing."""

    @classmethod
    async def of_the_class(cls, partition: object) -> None:
        """Do nothing."""

    @staticmethod
    async def static(partition: object) -> None:
        """Do nothing."""

    def plain(self, partition: object) -> None:
        """Block."""


class Blocking:
    """Is called and not awaited."""

    def __call__(self, partition: object) -> None:
        """Block."""


@pytest.mark.parametrize(
    "good",
    [
        work,
        functools.partial(with_more, 1),
        functools.partial(functools.partial(with_more, 1), eager=True),
        functools.partial(hands_on),
        Worker(),
        functools.partial(Worker()),
        Worker().method,
        Worker.of_the_class,
        Worker.static,
        lambda partition: work([partition]),
        lambda _: asyncio.sleep(0),
        hands_on,
        sometimes,
        old_style,
        wrapped(work),
        AsyncMock(),
        Mock(),
    ],
)
def test_work_that_may_return_an_awaitable_is_accepted(good: Any) -> None:
    require_async(good)


def plain(partition: object) -> None:
    """Block."""


def endless(partition: object) -> None:
    """Never return."""
    while True:
        str(partition)


def returns_early(partition: object) -> None:
    """Have several ends."""
    if partition:
        return
    str(partition)


def generator(_partition: object) -> Iterator[None]:
    """Yield."""
    yield


async def async_generator(_partition: object) -> AsyncIterator[None]:
    """Yield."""
    yield


async def takes_nothing() -> None:
    """Have no use for a partition."""


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (plain, "not a plain function"),
        (endless, "not a plain function"),
        (returns_early, "not a plain function"),
        (lambda _: None, "not a plain function"),
        (functools.partial(plain), "not a plain function"),
        (Worker().plain, "not a plain function"),
        (Blocking(), "not a plain function"),
        (generator, "not a generator"),
        (async_generator, "not a generator"),
        (None, "got None"),
        (7, "got 7"),
        (takes_nothing, "too many positional arguments"),
        (with_more, "missing a required argument: 'partition'"),
        (functools.partial(with_more, 1, 2), "too many positional arguments"),
        (Worker.method, "missing a required argument: 'partition'"),
    ],
)
def test_work_that_never_will(bad: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^work must be an async function") as caught:
        require_async(bad)
    assert reason in str(caught.value)


def test_coroutine_is_not_a_function() -> None:
    with pytest.raises(ConfigurationError, match="without calling it"):
        require_async(work(1))


@pytest.mark.parametrize("yes", [work, Worker(), functools.partial(work), Worker().method])
def test_async(yes: Any) -> None:
    assert is_async(yes)


@pytest.mark.parametrize("no", [plain, hands_on, lambda _: work(1), Blocking(), print])
def test_not_async(no: Any) -> None:
    assert not is_async(no)
