"""Virtual time: what happens when, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from coterie_testing.virtual import IdleError, Process, Scheduler


def test_time_jumps_to_what_is_due() -> None:
    """No time passes but the time until the next thing that is due."""
    scheduler = Scheduler()
    moments: list[float] = []
    for delay_s in (3.0, 1.0, 2.0):
        scheduler.after(delay_s, lambda: moments.append(scheduler.now_s))
    scheduler.run(10.0)
    assert moments == [1.0, 2.0, 3.0]
    assert scheduler.now_s == 10.0


def test_one_moment_keeps_the_order_of_asking() -> None:
    """What is due at the same moment happens in the order in which it was asked for."""
    scheduler = Scheduler()
    done: list[int] = []
    for number in range(20):
        scheduler.after(1.0, done.append, number)
    scheduler.run(1.0)
    assert done == list(range(20))


def test_what_is_due_later_waits() -> None:
    """Nothing happens before its time, however often the world is run."""
    scheduler = Scheduler()
    done: list[str] = []
    scheduler.after(1.0, done.append, "due")
    scheduler.run(0.5)
    assert done == []
    scheduler.run(0.5)
    assert done == ["due"]


def test_what_was_called_off_does_not_happen() -> None:
    """A happening that was cancelled is passed over."""
    scheduler = Scheduler()
    done: list[str] = []
    scheduler.after(1.0, done.append, "cancelled").cancel()
    scheduler.after(1.0, done.append, "kept")
    scheduler.run(2.0)
    assert done == ["kept"]


def test_waiting_in_vain_is_an_error() -> None:
    """A world in which nothing is left to do does not wait for ever."""
    scheduler = Scheduler()
    with pytest.raises(IdleError, match="5 s"):
        scheduler.run_until(lambda: False, within_s=5.0)


def test_going_round_in_circles_is_an_error() -> None:
    """A process that is busy for ever without time passing does not hang the scheduler."""
    scheduler = Scheduler()
    process = Process(scheduler, "p")

    def again() -> None:
        process.call_soon(again)

    again()
    with pytest.raises(IdleError, match="time stands still"):
        scheduler.run(1.0)


def test_result_of_work_is_handed_out() -> None:
    """Work that is run in a process gives its result, and its exception."""
    scheduler = Scheduler()
    process = Process(scheduler, "p")

    async def divide(by: int) -> float:
        await asyncio.sleep(1.0)
        return 1 / by

    assert process.run_until_done(divide(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        process.run_until_done(divide(0))


def test_same_seed_draws_the_same() -> None:
    """The seed decides all that is drawn."""
    assert Scheduler(7).random.random() == Scheduler(7).random.random()
    assert Scheduler(7).random.random() != Scheduler(8).random.random()


def test_world_within_a_loop_leaves_it_running() -> None:
    """A world can be run by a coroutine of a real loop, which goes on afterwards."""

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


def test_ending_a_world_ends_its_processes() -> None:
    """After its end nothing of a world runs any more, and no task is left to complain."""
    scheduler = Scheduler()
    process = Process(scheduler, "p")
    task = process.create_task(asyncio.sleep(100.0))
    scheduler.run(1.0)
    scheduler.close()
    scheduler.run(200.0)
    assert process.is_dead
    assert not task.done()
