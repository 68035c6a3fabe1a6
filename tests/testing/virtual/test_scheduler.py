"""Virtual time: what happens when, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from coterie_testing.virtual import IdleError, Process, Scheduler


def test_time_jumps_to_the_next_call_that_is_due() -> None:
    scheduler = Scheduler()
    moments: list[float] = []
    for delay_s in (3.0, 1.0, 2.0):
        scheduler.after(delay_s, lambda: moments.append(scheduler.now_s))
    scheduler.run(10.0)
    assert moments == [1.0, 2.0, 3.0]
    assert scheduler.now_s == 10.0


def test_calls_of_one_moment_run_in_the_order_of_scheduling() -> None:
    scheduler = Scheduler()
    done: list[int] = []
    for number in range(20):
        scheduler.after(1.0, done.append, number)
    scheduler.run(1.0)
    assert done == list(range(20))


def test_call_that_is_due_later_waits() -> None:
    scheduler = Scheduler()
    done: list[str] = []
    scheduler.after(1.0, done.append, "due")
    scheduler.run(0.5)
    assert done == []
    scheduler.run(0.5)
    assert done == ["due"]


def test_cancelled_call_does_not_run() -> None:
    scheduler = Scheduler()
    done: list[str] = []
    scheduler.after(1.0, done.append, "cancelled").cancel()
    scheduler.after(1.0, done.append, "kept")
    scheduler.run(2.0)
    assert done == ["kept"]


def test_run_until_fails_when_nothing_is_left_to_do() -> None:
    scheduler = Scheduler()
    with pytest.raises(IdleError, match="5 s"):
        scheduler.run_until(lambda: False, within_s=5.0)


def test_endless_loop_without_time_passing_is_an_error() -> None:
    scheduler = Scheduler()
    process = Process(scheduler, "p")

    def again() -> None:
        process.call_soon(again)

    again()
    with pytest.raises(IdleError, match="time stands still"):
        scheduler.run(1.0)


def test_result_and_exception_of_a_coroutine() -> None:
    scheduler = Scheduler()
    process = Process(scheduler, "p")

    async def divide(by: int) -> float:
        await asyncio.sleep(1.0)
        return 1 / by

    assert process.run_until_done(divide(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        process.run_until_done(divide(0))


def test_same_seed_draws_the_same_numbers() -> None:
    assert Scheduler(7).random.random() == Scheduler(7).random.random()
    assert Scheduler(7).random.random() != Scheduler(8).random.random()


def test_scheduler_within_a_real_loop_leaves_that_running() -> None:
    async def outer() -> str:
        scheduler = Scheduler()
        inner = Process(scheduler, "p")
        assert inner.run_until_done(_loop_of_mine()) is inner
        assert asyncio.get_running_loop() is not inner
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(outer()) == "went on"


async def _loop_of_mine() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(1.0)
    return asyncio.get_running_loop()


def test_closing_kills_all_processes() -> None:
    scheduler = Scheduler()
    process = Process(scheduler, "p")
    task = process.create_task(asyncio.sleep(100.0))
    scheduler.run(1.0)
    scheduler.close()
    scheduler.run(200.0)
    assert process.is_dead
    assert not task.done()
