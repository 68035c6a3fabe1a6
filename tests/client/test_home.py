"""Clients that are used in another event loop than their own, or in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coterie_client import Admin, Directory, Group
from coterie_client.errors import GroupMisuseError, NoOwnerError
from coterie_client.home import Home
from tests.client.group.world import world

REFUSAL = "belongs to the event loop in which it was entered or first used"


def outcome_in_a_thread(call: Callable[[], object]) -> BaseException | object:
    """What a call returned or raised in a thread of its own."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001  # whatever it is
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


async def refused(call: Callable[[], object]) -> None:
    """See that a call is refused in another thread, while this loop goes on."""
    outcome = await asyncio.to_thread(outcome_in_a_thread, call)
    assert isinstance(outcome, GroupMisuseError), outcome
    assert REFUSAL in str(outcome)


def alone(make: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], object]:
    """Run a coroutine in a loop of its own."""
    return lambda: asyncio.run(asyncio.wait_for(make(), timeout=30))  # and not for ever


@pytest.mark.asyncio
async def test_a_group_is_used_in_its_own_loop_only() -> None:
    async def idle(_: object) -> None:
        await asyncio.get_running_loop().create_future()

    async with world(1) as here, here.member("a") as a:
        await here.until_shared(a=1)
        (partition,) = a.group.owned
        for call in (
            a.group.stop,
            a.group.rejoin,
            lambda: a.group.subscribe(["t"]),
            a.group.announce,
            a.group.changes,
            alone(lambda: a.group.run(idle)),
            alone(a.group.aclose),
            alone(lambda: partition.commit(1)),
            alone(partition.committed),
            lambda: partition.load(1),
            lambda: partition.lag(1),
        ):
            await refused(call)
        assert not a.group.is_over
        await partition.commit(2)


@pytest.mark.asyncio
async def test_changes_are_read_in_the_loop_of_their_group_only() -> None:
    async with world(1) as here, Group(here.address, "g", topics=["orders"]) as group:
        changes = group.changes()

        async def read() -> None:
            await anext(changes)

        await refused(alone(read))
        await anext(changes)


@pytest.mark.asyncio
async def test_an_administrator_is_used_in_the_loop_of_its_first_call_only() -> None:
    async with world(1) as here, Admin(here.address) as admin:
        await admin.topics.list()
        await refused(alone(admin.topics.list))
        await refused(alone(admin.aclose))
        assert await admin.topics.list()


def test_an_administrator_of_a_loop_that_has_ended_says_so_at_once() -> None:
    async def first() -> Admin:
        async with world(1) as here:
            admin = Admin(here.address)
            await admin.topics.list()
            return admin

    admin = asyncio.run(first())
    with pytest.raises(GroupMisuseError, match="make another one"):
        asyncio.run(admin.topics.list())


@pytest.mark.asyncio
async def test_a_directory_is_used_in_its_own_loop_only() -> None:
    async with Directory("http://127.0.0.1:1", "g") as directory:
        await refused(alone(lambda: directory.owner(partition=0, wait=0)))
        await refused(alone(directory.aclose))
        with pytest.raises(NoOwnerError):  # it has not been closed
            await directory.owner(partition=0, wait=0)


@pytest.mark.asyncio
async def test_what_was_never_used_is_closed_anywhere() -> None:
    for made in (Admin("127.0.0.1:1"), Directory("http://127.0.0.1:1", "g")):
        assert await asyncio.to_thread(outcome_in_a_thread, alone(made.aclose)) is None


def test_the_thread_of_a_loop_may_use_a_client_while_the_loop_pauses() -> None:
    """As a test of virtual time does between two runs."""
    home = Home("A group")

    async def settle() -> None:
        home.settle()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(settle())
        home.require()
        with pytest.raises(GroupMisuseError, match=REFUSAL):
            raise outcome_in_a_thread(home.require)  # type: ignore[misc]  # if it is no error
    finally:
        loop.close()
