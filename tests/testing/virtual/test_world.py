"""Virtual time: what happens when, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from coterie_testing.virtual import IdleError, Process, World


def test_time_jumps_to_what_is_due() -> None:
    """No time passes but the time until the next thing that is due."""
    world = World()
    moments: list[float] = []
    for delay_s in (3.0, 1.0, 2.0):
        world.after(delay_s, lambda: moments.append(world.now_s))
    world.run(10.0)
    assert moments == [1.0, 2.0, 3.0]
    assert world.now_s == 10.0


def test_one_moment_keeps_the_order_of_asking() -> None:
    """What is due at the same moment happens in the order in which it was asked for."""
    world = World()
    done: list[int] = []
    for number in range(20):
        world.after(1.0, done.append, number)
    world.run(1.0)
    assert done == list(range(20))


def test_what_is_due_later_waits() -> None:
    """Nothing happens before its time, however often the world is run."""
    world = World()
    done: list[str] = []
    world.after(1.0, done.append, "due")
    world.run(0.5)
    assert done == []
    world.run(0.5)
    assert done == ["due"]


def test_what_was_called_off_does_not_happen() -> None:
    """A happening that was cancelled is passed over."""
    world = World()
    done: list[str] = []
    world.after(1.0, done.append, "cancelled").cancel()
    world.after(1.0, done.append, "kept")
    world.run(2.0)
    assert done == ["kept"]


def test_waiting_in_vain_is_an_error() -> None:
    """A world in which nothing is left to do does not wait for ever."""
    world = World()
    with pytest.raises(IdleError, match="5 s"):
        world.run_until(lambda: False, within_s=5.0)


def test_watch_is_called_after_each_step() -> None:
    """Whoever watches sees the world after every step, those of processes included."""
    world = World()
    process = Process(world, "p")
    seen: list[int] = []
    world.watch = lambda: seen.append(world.steps)
    process.call_soon(lambda: None)
    process.call_later(1.0, lambda: None)
    world.after(2.0, lambda: None)
    world.run(3.0)
    assert seen == [1, 2, 3]


def test_going_round_in_circles_is_an_error() -> None:
    """A process that is busy for ever without time passing does not hang the world."""
    world = World()
    process = Process(world, "p")

    def again() -> None:
        process.call_soon(again)

    again()
    with pytest.raises(IdleError, match="time stands still"):
        world.run(1.0)


def test_result_of_work_is_handed_out() -> None:
    """Work that is run in a process gives its result, and its exception."""
    world = World()
    process = Process(world, "p")

    async def divide(by: int) -> float:
        await asyncio.sleep(1.0)
        return 1 / by

    assert world.run_in(process, divide(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        world.run_in(process, divide(0))


def test_same_seed_draws_the_same() -> None:
    """The seed decides all that is drawn."""
    assert World(7).random.random() == World(7).random.random()
    assert World(7).random.random() != World(8).random.random()


def test_world_within_a_loop_leaves_it_running() -> None:
    """A world can be run by a coroutine of a real loop, which goes on afterwards."""

    async def outer() -> str:
        world = World()
        inner = Process(world, "p")
        assert world.run_in(inner, _loop_of_mine()) is inner
        assert asyncio.get_running_loop() is not inner
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(outer()) == "went on"


async def _loop_of_mine() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(1.0)
    return asyncio.get_running_loop()


def test_ending_a_world_ends_its_processes() -> None:
    """After its end nothing of a world runs any more, and no task is left to complain."""
    world = World()
    process = Process(world, "p")
    task = process.create_task(asyncio.sleep(100.0))
    world.run(1.0)
    world.end()
    world.run(200.0)
    assert process.is_dead
    assert not task.done()
