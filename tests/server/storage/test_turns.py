"""Turns: the event loop stands aside for a thread, and never for long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie_server.storage import turns
from coterie_server.storage.turns import Turns
from tests.server.storage.doubles import PATIENCE_S

pytestmark = pytest.mark.asyncio


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop stand aside for as long as it takes."""
    monkeypatch.setattr(turns, "LONGEST_S", PATIENCE_S)


def in_thread(work: Callable[[], None]) -> Awaitable[None]:
    """Run the thread's part."""
    return asyncio.wait_for(asyncio.to_thread(work), PATIENCE_S)


async def asking(given: Turns, begun: asyncio.Task[Any]) -> None:
    """Wait until the thread asks for a turn."""
    async with asyncio.timeout(PATIENCE_S):
        # Nothing else shows it.
        while not given._is_asking and not begun.done():  # noqa: ASYNC110, SLF001
            await asyncio.sleep(0)


@pytest.mark.usefixtures("patient")
async def test_the_loop_does_nothing_in_a_turn() -> None:
    loop = asyncio.get_running_loop()
    given, work, done = Turns(loop), list[int](), list[str]()

    def thread() -> None:
        given.wait(work)
        done.append("thread")
        given.end()

    running = asyncio.ensure_future(in_thread(thread))
    await asking(given, running)
    work.append(1)
    given.give_soon()
    loop.call_soon(done.append, "loop")
    await running
    assert done == ["thread", "loop"]


@pytest.mark.usefixtures("patient")
async def test_a_thread_that_has_work_need_not_be_given_a_turn() -> None:
    given = Turns(asyncio.get_running_loop())

    def thread() -> None:
        given.wait([1])
        given.end()
        given.ask()
        given.end()

    await in_thread(thread)


async def test_the_loop_goes_on_if_a_turn_takes_long() -> None:
    given, goes_on = Turns(asyncio.get_running_loop()), threading.Event()

    def thread() -> None:
        given.ask()
        assert goes_on.wait(PATIENCE_S)
        given.end()

    running = asyncio.ensure_future(in_thread(thread))
    await asking(given, running)
    goes_on.set()
    await running


async def test_a_turn_that_ends_late_does_not_shorten_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    given, late, moved = Turns(loop), threading.Event(), threading.Event()

    def thread() -> None:
        given.ask()
        assert late.wait(PATIENCE_S)  # by when the loop has gone on
        given.end()
        given.ask()
        loop.call_soon_threadsafe(moved.set)
        assert not moved.wait(0.05)
        given.end()

    running = asyncio.ensure_future(in_thread(thread))
    await asking(given, running)
    await asyncio.sleep(0)  # the turn begins, and is over for the loop
    monkeypatch.setattr(turns, "LONGEST_S", PATIENCE_S)
    late.set()
    await running


async def test_a_turn_that_nobody_wants_is_none() -> None:
    given = Turns(asyncio.get_running_loop())
    given.give_soon()
    given.give_soon()
    await asyncio.sleep(0)


async def test_a_thread_whose_loop_is_closed_goes_on() -> None:
    loop = asyncio.new_event_loop()
    given = Turns(loop)
    loop.close()

    def thread() -> None:
        given.wait([1])
        given.ask()
        given.end()

    await in_thread(thread)


# -- a thread that comes back from the disk --------------------------------------------------------


class Disk:
    """The thread's part, which leaves for the disk; the test says when that has answered."""

    def __init__(self, given: Turns) -> None:
        self.has_left, self.answers, self.is_back = (threading.Event() for _ in range(3))
        self._given = given
        self.running = asyncio.ensure_future(in_thread(self._run))

    def _run(self) -> None:
        self._given.leave()
        self.has_left.set()
        assert self.answers.wait(PATIENCE_S)
        self._given.come_back()
        self.is_back.set()
        self._given.end()


@pytest.fixture
def expecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop expect the thread at once, and wait for as long as it takes."""
    monkeypatch.setattr(turns, "FIRST_GUESS_S", 0.0)
    monkeypatch.setattr(turns, "AWAITED_S", PATIENCE_S)


@pytest.mark.usefixtures("expecting")
async def test_the_loop_gives_way_to_a_thread_that_should_be_back() -> None:
    given = Turns(asyncio.get_running_loop())
    disk = Disk(given)
    assert await asyncio.to_thread(disk.has_left.wait, PATIENCE_S)
    disk.answers.set()
    given.give_way()
    assert disk.is_back.is_set()
    await disk.running


async def test_the_loop_does_not_wait_for_a_thread_before_it_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "FIRST_GUESS_S", 10 * PATIENCE_S)
    monkeypatch.setattr(turns, "AWAITED_S", 10 * PATIENCE_S)
    given = Turns(asyncio.get_running_loop())
    disk = Disk(given)
    assert await asyncio.to_thread(disk.has_left.wait, PATIENCE_S)
    given.give_way()
    assert not disk.is_back.is_set()
    disk.answers.set()
    await disk.running


async def test_the_loop_looks_out_once_and_then_expects_the_thread_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "FIRST_GUESS_S", 0.0)
    given = Turns(asyncio.get_running_loop())
    disk = Disk(given)
    assert await asyncio.to_thread(disk.has_left.wait, PATIENCE_S)
    given.give_way()
    assert given._expected_s == turns.AWAITED_S / 2  # noqa: SLF001
    monkeypatch.setattr(turns, "AWAITED_S", 10 * PATIENCE_S)
    given.give_way()
    disk.answers.set()
    await disk.running


async def test_giving_way_to_a_thread_that_is_here_takes_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "AWAITED_S", 10 * PATIENCE_S)
    monkeypatch.setattr(turns, "FIRST_GUESS_S", 0.0)
    given = Turns(asyncio.get_running_loop())
    given.give_way()
    disk = Disk(given)
    disk.answers.set()
    await disk.running
    given.give_way()


async def test_a_thread_that_leaves_again_at_once_is_not_taken_for_one_from_the_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is learnt is how long the disk took that the loop waited for, not the next one."""
    monkeypatch.setattr(turns, "FIRST_GUESS_S", 0.0)
    monkeypatch.setattr(turns, "AWAITED_S", PATIENCE_S)
    given = Turns(asyncio.get_running_loop())
    has_left = threading.Event()

    def thread() -> None:
        given.leave()
        has_left.set()
        time.sleep(0.01)  # the disk
        given.come_back()
        given.leave()

    running = asyncio.ensure_future(in_thread(thread))
    assert await asyncio.to_thread(has_left.wait, PATIENCE_S)
    given.give_way()
    assert given._expected_s >= 0.0025  # noqa: SLF001
    await running
