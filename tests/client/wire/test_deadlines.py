"""Timeouts end what takes too long, and nothing whose answer has arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie_client.wire.deadlines import SECOND_LOOK_S, time_limit, wait_for_task
from coterie_testing.virtual import Process, Scheduler

TIMEOUT_S = 5.0


async def limited(answer: asyncio.Future[str]) -> str:
    """Wait for an answer within a limit."""
    try:
        async with time_limit(TIMEOUT_S):
            return await answer
    except TimeoutError:
        return "too late"


async def watched(answer: asyncio.Future[str]) -> str:
    """Wait for a task that waits for an answer."""

    async def wait() -> str:
        return await answer

    task = asyncio.ensure_future(wait())
    await wait_for_task(task, TIMEOUT_S)
    if task.done():
        return task.result()
    task.cancel()
    return "too late"


@pytest.fixture
def process() -> Process:
    """Return a process in virtual time of its own."""
    return Process(Scheduler(), "p")


Wait = Callable[[asyncio.Future[str]], Coroutine[Any, Any, str]]

ways = pytest.mark.parametrize("wait", [limited, watched])


@ways
def test_block_that_ends_in_time_leaves_nothing_behind(process: Process, wait: Wait) -> None:
    answer: asyncio.Future[str] = process.create_future()
    process.call_later(TIMEOUT_S - 0.1, answer.set_result, "here")
    assert process.run_until_done(wait(answer)) == "here"
    process.scheduler.run(10.0)
    assert process.errors == []


@ways
def test_time_limit_raises_when_the_time_is_up(process: Process, wait: Wait) -> None:
    answer: asyncio.Future[str] = process.create_future()
    assert process.run_until_done(wait(answer)) == "too late"
    assert process.time() == pytest.approx(TIMEOUT_S + SECOND_LOOK_S)


@ways
def test_answer_that_arrived_during_a_pause_counts_although_the_time_is_up(
    process: Process, wait: Wait
) -> None:
    answer: asyncio.Future[str] = process.create_future()
    task = process.create_task(wait(answer))
    process.scheduler.run(1.0)
    process.pause()
    process.scheduler.after(1.0, lambda: process.arrive(answer.set_result, "here"))
    process.scheduler.run(20.0)
    process.resume()
    process.scheduler.run(1.0)
    assert task.result() == "here"
