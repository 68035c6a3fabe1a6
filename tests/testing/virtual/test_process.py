"""A virtual process keeps asyncio's promises, and can be paused and killed."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from coterie_testing.virtual import Process, Scheduler


@pytest.fixture
def scheduler() -> Scheduler:
    """Return an empty scheduler."""
    return Scheduler()


@pytest.fixture
def process(scheduler: Scheduler) -> Process:
    """Return a process in it."""
    return Process(scheduler, "p")


# -- asyncio's contract ----------------------------------------------------------------------------


def test_callbacks_run_in_order(scheduler: Scheduler, process: Process) -> None:
    done: list[int] = []
    for number in range(10):
        process.call_soon(done.append, number)
    scheduler.run(0.0)
    assert done == list(range(10))


def test_callback_of_a_callback_runs_behind_those_that_are_ready(
    scheduler: Scheduler, process: Process
) -> None:
    done: list[str] = []

    def first() -> None:
        done.append("a")
        process.call_soon(done.append, "c")

    process.call_soon(first)
    process.call_soon(done.append, "b")
    scheduler.run(0.0)
    assert done == ["a", "b", "c"]


def test_call_soon_runs_nothing_at_once(process: Process) -> None:
    done: list[str] = []
    process.call_soon(done.append, "a")
    assert done == []


def test_cancelled_callback_does_not_run(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    process.call_soon(done.append, "soon").cancel()
    timer = process.call_later(1.0, done.append, "later")
    process.call_later(0.5, timer.cancel)
    scheduler.run(2.0)
    assert done == []


def test_timers_run_at_their_time_in_order(scheduler: Scheduler, process: Process) -> None:
    done: list[tuple[str, float]] = []
    process.call_at(2.0, lambda: done.append(("at", process.time())))
    process.call_later(1.0, lambda: done.append(("later", process.time())))
    timer = process.call_later(-1.0, lambda: done.append(("overdue", process.time())))
    scheduler.run(3.0)
    assert done == [("overdue", 0.0), ("later", 1.0), ("at", 2.0)]
    assert timer.when() == -1.0


def test_ready_callbacks_run_before_timers(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    process.call_later(0.0, done.append, "timer")
    process.call_soon(done.append, "soon")
    scheduler.run(0.0)
    assert done == ["soon", "timer"]


def test_tasks_see_their_loop_and_themselves(scheduler: Scheduler, process: Process) -> None:
    async def look() -> tuple[object, object]:
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), asyncio.current_task()

    task = process.create_task(look(), name="looker")
    scheduler.run(0.0)
    assert task.result() == (process, task)
    assert task.get_name() == "looker"


def test_sleep_takes_virtual_time(process: Process) -> None:
    async def rest() -> float:
        await asyncio.sleep(3600.0)
        return process.time()

    assert process.run_until_done(rest(), within_s=4000.0) == 3600.0


def test_timeouts_are_virtual(process: Process) -> None:
    async def hurry() -> list[float]:
        moments = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(10.0)
        moments.append(process.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 3.0)
        moments.append(process.time())
        return moments

    assert process.run_until_done(hurry()) == [2.0, 5.0]


def test_cancelled_task_cleans_up(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await asyncio.sleep(1.0)
            done.append("cleaned up")

    task = process.create_task(work())
    process.call_later(5.0, task.cancel)
    scheduler.run(10.0)
    assert task.cancelled()
    assert done == ["cleaned up"]


def test_events_and_task_groups_work(process: Process) -> None:
    heard: list[float] = []

    async def listen(event: asyncio.Event) -> None:
        await event.wait()
        heard.append(process.time())

    async def meet() -> None:
        event = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(listen(event))
            await asyncio.sleep(4.0)
            event.set()

    process.run_until_done(meet())
    assert heard == [4.0, 4.0, 4.0]


def test_callback_runs_in_its_context(scheduler: Scheduler, process: Process) -> None:
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    context = contextvars.copy_context()
    context.run(variable.set, "given")
    process.call_soon(lambda: seen.append(variable.get()), context=context)
    process.call_soon(lambda: seen.append(variable.get()))
    scheduler.run(0.0)
    assert seen == ["given", "none"]


def test_unhandled_error_is_kept_and_ends_nothing(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    process.call_soon(lambda: 1 / 0)
    process.call_soon(done.append, "after")
    scheduler.run(0.0)
    assert done == ["after"]
    (context,) = process.errors
    assert isinstance(context["exception"], ZeroDivisionError)


def test_missing_features_raise_not_implemented(process: Process) -> None:
    async def thread() -> None:
        await asyncio.to_thread(len, "abc")

    with pytest.raises(NotImplementedError):
        process.run_until_done(thread())


# -- pausing ---------------------------------------------------------------------------------------


def test_paused_process_runs_nothing_while_others_do(
    scheduler: Scheduler, process: Process
) -> None:
    other = Process(scheduler, "other")
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "mine")
    other.call_soon(done.append, "other's")
    scheduler.run(1.0)
    assert done == ["other's"]


def test_resumed_process_catches_up_in_order(scheduler: Scheduler, process: Process) -> None:
    done: list[tuple[str, float]] = []

    def note(name: str) -> None:
        done.append((name, process.time()))

    process.call_later(1.0, note, "first")
    process.call_later(2.0, note, "second")
    process.call_later(9.0, note, "not missed")
    process.pause()
    scheduler.run(5.0)
    process.resume()
    scheduler.run(5.0)
    assert done == [("first", 5.0), ("second", 5.0), ("not missed", 9.0)]


def test_missed_callbacks_run_before_new_ones(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "missed")
    scheduler.run(1.0)
    process.call_soon(done.append, "new")
    process.resume()
    scheduler.run(1.0)
    assert done == ["missed", "new"]


def test_cancelled_while_paused_stays_cancelled(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    timer = process.call_later(1.0, done.append, "missed")
    process.pause()
    scheduler.run(2.0)
    timer.cancel()
    process.resume()
    scheduler.run(2.0)
    assert done == []


def test_overdue_timeout_fires_after_a_pause(scheduler: Scheduler, process: Process) -> None:
    async def work() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.sleep(100.0)
        return process.time()

    task = process.create_task(work())
    scheduler.run(1.0)
    process.pause()
    scheduler.run(9.0)
    process.resume()
    scheduler.run(1.0)
    assert task.result() == 10.0


# -- killing ---------------------------------------------------------------------------------------


def test_killed_process_runs_no_finally(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(5.0)
            done.append("went on")
        finally:
            done.append("finally")

    process.create_task(work())
    process.call_later(2.0, done.append, "timer")
    scheduler.run(1.0)
    process.kill()
    process.call_soon(done.append, "soon")
    scheduler.run(10.0)
    assert done == []
    assert not process.is_alive
    assert process.is_closed()


def test_death_is_reported_once(process: Process) -> None:
    told: list[str] = []
    process.on_death.append(lambda: told.append("dead"))
    process.kill()
    process.kill()
    assert told == ["dead"]


def test_process_killed_in_a_pause_can_not_resume(scheduler: Scheduler, process: Process) -> None:
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "missed")
    scheduler.run(1.0)
    process.kill()
    process.resume()
    scheduler.run(1.0)
    assert done == []


# -- clocks ----------------------------------------------------------------------------------------


def test_clock_error_changes_only_the_date(scheduler: Scheduler, process: Process) -> None:
    scheduler.run(10.0)
    right_ms = process.wall_ms()
    process.clock_error_s = -3.5
    assert process.wall_ms() == right_ms - 3_500
    assert process.time() == 10.0
    assert scheduler.now_ms == right_ms


def test_timers_come_before_arrivals_after_a_pause(scheduler: Scheduler, process: Process) -> None:
    """Loops of libuv have this order; what follows from timers at once comes first as well."""
    done: list[str] = []

    def late(name: str) -> None:
        done.append(name)
        process.call_soon(done.append, f"after {name}")

    process.call_later(3.0, late, "second timer")
    process.call_later(2.0, late, "first timer")
    process.pause()
    scheduler.after(1.0, lambda: process.arrive(done.append, "arrival"))
    scheduler.run(5.0)
    process.resume()
    scheduler.run(0.0)
    assert done == [
        "first timer",
        "second timer",
        "after first timer",
        "after second timer",
        "arrival",
    ]
