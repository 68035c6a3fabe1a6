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
    """Callbacks run in the order in which they were asked for, each once."""
    done: list[int] = []
    for number in range(10):
        process.call_soon(done.append, number)
    scheduler.run(0.0)
    assert done == list(range(10))


def test_callback_of_a_callback_runs_later(scheduler: Scheduler, process: Process) -> None:
    """What a callback asks for runs after what was asked for before."""
    done: list[str] = []

    def first() -> None:
        done.append("a")
        process.call_soon(done.append, "c")

    process.call_soon(first)
    process.call_soon(done.append, "b")
    scheduler.run(0.0)
    assert done == ["a", "b", "c"]


def test_no_callback_runs_at_once(process: Process) -> None:
    """`call_soon` only takes note, as any loop's does."""
    done: list[str] = []
    process.call_soon(done.append, "a")
    assert done == []


def test_cancelled_callback_does_not_run(scheduler: Scheduler, process: Process) -> None:
    """Neither a callback nor a timer runs once it was cancelled."""
    done: list[str] = []
    process.call_soon(done.append, "soon").cancel()
    timer = process.call_later(1.0, done.append, "later")
    process.call_later(0.5, timer.cancel)
    scheduler.run(2.0)
    assert done == []


def test_timers_run_at_their_time(scheduler: Scheduler, process: Process) -> None:
    """Timers run when the loop's clock shows their time, the earliest first."""
    done: list[tuple[str, float]] = []
    process.call_at(2.0, lambda: done.append(("at", process.time())))
    process.call_later(1.0, lambda: done.append(("later", process.time())))
    timer = process.call_later(-1.0, lambda: done.append(("overdue", process.time())))
    scheduler.run(3.0)
    assert done == [("overdue", 0.0), ("later", 1.0), ("at", 2.0)]
    assert timer.when() == -1.0


def test_ready_callbacks_run_before_timers(scheduler: Scheduler, process: Process) -> None:
    """A callback that is ready does not wait for a timer of the same moment."""
    done: list[str] = []
    process.call_later(0.0, done.append, "timer")
    process.call_soon(done.append, "soon")
    scheduler.run(0.0)
    assert done == ["soon", "timer"]


def test_tasks_see_their_loop_and_themselves(scheduler: Scheduler, process: Process) -> None:
    """Inside a task, asyncio knows the loop and the task."""

    async def look() -> tuple[object, object]:
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), asyncio.current_task()

    task = process.create_task(look(), name="looker")
    scheduler.run(0.0)
    assert task.result() == (process, task)
    assert task.get_name() == "looker"


def test_sleep_takes_virtual_time(scheduler: Scheduler, process: Process) -> None:
    """A sleep lasts as long as it says, by the world's clock."""

    async def rest() -> float:
        await asyncio.sleep(3600.0)
        return process.time()

    assert process.run_until_done(rest(), within_s=4000.0) == 3600.0


def test_timeout_cancels_what_takes_too_long(scheduler: Scheduler, process: Process) -> None:
    """`asyncio.timeout` and `wait_for` end what takes longer than they allow."""

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


def test_cancelled_task_runs_its_finally(scheduler: Scheduler, process: Process) -> None:
    """Cancelling a task, unlike killing its process, lets it clean up, waiting if it wants to."""
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


def test_events_and_groups_work(scheduler: Scheduler, process: Process) -> None:
    """Tasks of one process meet by events, and a task group waits for all of its own."""
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


def test_context_is_the_callers(scheduler: Scheduler, process: Process) -> None:
    """A callback runs in the context that it was given, or in a copy of its caller's."""
    variable = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    context = contextvars.copy_context()
    context.run(variable.set, "given")
    process.call_soon(lambda: seen.append(variable.get()), context=context)
    process.call_soon(lambda: seen.append(variable.get()))
    scheduler.run(0.0)
    assert seen == ["given", "none"]


def test_error_nobody_waits_for_is_kept(scheduler: Scheduler, process: Process) -> None:
    """What a callback raises ends neither the process nor the scheduler, and is kept for checks."""
    done: list[str] = []
    process.call_soon(lambda: 1 / 0)
    process.call_soon(done.append, "after")
    scheduler.run(0.0)
    assert done == ["after"]
    (context,) = process.errors
    assert isinstance(context["exception"], ZeroDivisionError)


def test_what_is_not_there_says_so(scheduler: Scheduler, process: Process) -> None:
    """A loop without sockets and threads refuses them rather than doing nothing."""

    async def thread() -> None:
        await asyncio.to_thread(len, "abc")

    with pytest.raises(NotImplementedError):
        process.run_until_done(thread())


# -- pausing ---------------------------------------------------------------------------------------


def test_paused_process_does_nothing(scheduler: Scheduler, process: Process) -> None:
    """While it is paused nothing of a process runs, and others go on."""
    other = Process(scheduler, "other")
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "mine")
    other.call_soon(done.append, "other's")
    scheduler.run(1.0)
    assert done == ["other's"]


def test_resumed_process_catches_up_in_order(scheduler: Scheduler, process: Process) -> None:
    """What a process missed happens as soon as it goes on, in order, and at the present time."""
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


def test_what_was_missed_comes_before_what_is_new(scheduler: Scheduler, process: Process) -> None:
    """A callback asked for at the moment of going on does not overtake those that were missed."""
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "missed")
    scheduler.run(1.0)
    process.call_soon(done.append, "new")
    process.resume()
    scheduler.run(1.0)
    assert done == ["missed", "new"]


def test_cancelled_while_paused_stays_cancelled(scheduler: Scheduler, process: Process) -> None:
    """What was missed and then cancelled does not happen after all."""
    done: list[str] = []
    timer = process.call_later(1.0, done.append, "missed")
    process.pause()
    scheduler.run(2.0)
    timer.cancel()
    process.resume()
    scheduler.run(2.0)
    assert done == []


def test_overdue_timeout_strikes_after_a_pause(scheduler: Scheduler, process: Process) -> None:
    """A process that slept through its timeouts finds them due when it goes on."""

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
    """`kill -9` gives a process no time to clean up, and its timers never come."""
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


def test_death_is_told_once(process: Process) -> None:
    """Whoever wants to know of a process's death is told, once, however often it is killed."""
    told: list[str] = []
    process.on_death.append(lambda: told.append("dead"))
    process.kill()
    process.kill()
    assert told == ["dead"]


def test_dead_process_does_not_come_back(scheduler: Scheduler, process: Process) -> None:
    """A process that was killed while it was paused does not go on when it is resumed."""
    done: list[str] = []
    process.pause()
    process.call_soon(done.append, "missed")
    scheduler.run(1.0)
    process.kill()
    process.resume()
    scheduler.run(1.0)
    assert done == []


# -- clocks ----------------------------------------------------------------------------------------


def test_clock_error_moves_the_date_only(scheduler: Scheduler, process: Process) -> None:
    """A clock that is off shows another date; how long things take stays the same."""
    scheduler.run(10.0)
    right_ms = process.wall_ms()
    process.clock_error_s = -3.5
    assert process.wall_ms() == right_ms - 3_500
    assert process.time() == 10.0
    assert scheduler.now_ms == right_ms


def test_timers_come_before_arrivals_after_a_pause(scheduler: Scheduler, process: Process) -> None:
    """And so does what follows from them at once: that is the order that loops of libuv have."""
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
