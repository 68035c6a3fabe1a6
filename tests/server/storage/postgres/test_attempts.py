"""Attempts to connect beside each other, of which the first that succeeds counts."""

from __future__ import annotations

import asyncio

import pytest

from coterie_server.storage.postgres.attempts import Attempts

pytestmark = pytest.mark.asyncio


async def test_first_that_succeeds_counts_and_the_others_are_given_up() -> None:
    discarded: list[str] = []
    good, late = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def be_late() -> str:
        try:
            await late.wait()
        except asyncio.CancelledError:
            return "late"  # as one that succeeds at the moment in which it is given up
        raise AssertionError

    async with Attempts[str, str](discarded.append) as attempts:
        attempts.begin("a", be_late())
        attempts.begin("b", good)
        with pytest.raises(TimeoutError):
            await attempts.first(0)
        good.set_result("good")
        assert await attempts.first(60) == ("b", "good")
    assert discarded == ["late"]


async def test_failure_is_told_unless_another_succeeds_at_the_same_moment() -> None:
    loop = asyncio.get_running_loop()
    bad, good = loop.create_future(), loop.create_future()
    async with Attempts[str, str](print) as attempts:
        attempts.begin("a", bad)
        attempts.begin("b", good)
        bad.set_exception(ConnectionError("refused"))
        good.set_result("good")
        assert await attempts.first(60) == ("b", "good")
        with pytest.raises(ConnectionError, match="refused"):
            await attempts.first(60)


async def test_attempt_that_nobody_has_cancelled_fails() -> None:
    async with Attempts[str, str](print) as attempts:
        attempts.begin("a", cancelled := asyncio.get_running_loop().create_future())
        cancelled.cancel()
        with pytest.raises(ConnectionAbortedError):
            await attempts.first(60)
