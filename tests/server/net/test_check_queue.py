"""Checks of passwords take turns, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coterie_server.net.check_queue import Checked, CheckQueue, CheckThreads
from coterie_server.security import Principal
from coterie_server.security.sasl import Accepted, Check, LoginRefusedError


class Threads:
    """Has what it is given done when the test says so."""

    def __init__(self) -> None:
        self.given: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def start(self, run: Callable[[], None], finish: Callable[[], None]) -> None:
        """Keep it."""
        self.given.append((run, finish))

    def do(self) -> None:
        """Do the first."""
        run, finish = self.given.pop(0)
        run()
        finish()


def named(name: str) -> Check:
    return Check(lambda: Accepted(Principal("User", name)))


def played(order: list[tuple[str, str]], at_once: int = 1) -> list[str]:
    """In which order names are checked, each added by somebody."""
    threads, seen = Threads(), []

    def note(checked: Checked) -> None:
        assert isinstance(checked, Accepted)
        seen.append(checked.principal.name)

    queue = CheckQueue(threads.start, at_once)
    for asker, name in order:
        queue.add(asker, named(name), note)
    while threads.given:
        threads.do()
    return seen


def test_one_asker_is_served_in_order() -> None:
    assert played([("a", "1"), ("a", "2"), ("a", "3")]) == ["1", "2", "3"]


def test_askers_take_turns() -> None:
    order = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"), ("c", "c1")]
    assert played(order) == ["a1", "a2", "b1", "c1", "a3", "b2"]


def test_no_more_than_so_many_are_checked_at_once() -> None:
    threads = Threads()
    queue = CheckQueue(threads.start, 2)
    for _ in range(5):
        queue.add("a", named("x"), lambda _: None)
    for left in (2, 2, 2, 2, 1):
        assert len(threads.given) == left
        threads.do()


def test_cancelled_check_is_not_begun() -> None:
    threads, seen = Threads(), list[Checked]()
    queue = CheckQueue(threads.start, 1)
    jobs = [queue.add("a", named("x"), seen.append) for _ in range(3)]
    jobs[0].cancel()
    jobs[1].cancel()
    threads.do()
    assert (len(threads.given), seen) == (1, [])
    threads.do()
    assert len(seen) == 1


def test_refusals_and_bugs_are_told() -> None:
    def fail(error: Exception) -> Check:
        def run() -> Accepted:
            raise error

        return Check(run)

    threads, seen = Threads(), list[Checked]()
    queue = CheckQueue(threads.start, 1)
    errors = [LoginRefusedError("wrong"), ZeroDivisionError()]
    for error in errors:
        queue.add("a", fail(error), seen.append)
    threads.do()
    threads.do()
    assert seen == errors


@pytest.mark.asyncio
async def test_checks_are_done_in_threads() -> None:
    threads = CheckThreads()
    done: asyncio.Future[Checked] = asyncio.get_running_loop().create_future()
    CheckQueue(threads.start).add("a", named("ann"), done.set_result)
    assert await done == Accepted(Principal("User", "ann"))
    await threads.close()
