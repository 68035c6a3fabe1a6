"""What failed appends leave behind, which is nothing, without Python's garbage collector.

The daemon lets it look seldom, and a disk may be full, or a database away, for as long as it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import Awaitable

import pytest

from coterie_server.storage import FencedError, Store, StoreError
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.attempts import Attempts
from coterie_server.storage.postgres.link import Link
from tests.server.storage.doubles import Failing
from tests.support.uncollected import uncollected

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000


class Value(bytes):
    """A value that can be found among all objects."""


async def refused(call: Awaitable[object]) -> None:
    try:
        await call
    except (StoreError, FencedError):
        return
    raise AssertionError("it has worked")


async def left_behind() -> int:
    for _ in range(3):  # what was done is forgotten in the loop's next turns
        await asyncio.sleep(0)
    return sum(type(each) is Value for each in gc.get_objects())


async def test_failed_appends_leave_nothing(failing: Failing) -> None:
    store = failing.store
    leases = await store.claim([0, 1], "ann", TTL_MS)
    with uncollected():
        failing.fail()
        calls = [
            store.append(lease, [(b"%d" % number, Value(b"1"))])
            for lease in leases
            for number in range(3)
        ]
        await asyncio.gather(*(refused(call) for call in calls))
        failing.mend()
        await refused(store.append(leases[0], [(b"later", Value(b"1"))]))
        del calls
        assert await left_behind() == 0


async def test_fenced_appends_leave_nothing(store: Store) -> None:
    (old,) = await store.claim([0], "ann", TTL_MS)
    await store.claim([0], "ann", TTL_MS)
    with uncollected():
        for _ in range(3):
            await refused(store.append(old, [(b"a", Value(b"1"))]))
        assert await left_behind() == 0


@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"])
async def test_attempts_to_connect_leave_nothing(hosts: str) -> None:
    """Of several servers, each is tried, and all may be away, as during a fail-over."""
    link = Link(Address.parse(f"postgresql://ann@{hosts}/none?connect_timeout=0.1"))
    await refused(link.run(lambda session: session.execute("SELECT 1")))  # what is made once stays
    with uncollected():
        for _ in range(3):  # of these, each is several attempts
            await refused(link.run(lambda session: session.execute("SELECT 1")))
        assert gc.collect() < 20


async def refused_too_late() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        error = ConnectionRefusedError("when nobody waits any more")
        raise error from None  # which holds this frame, and that the error


async def given_up() -> None:
    async with Attempts[str, None](lambda _: None) as attempts:
        attempts.begin("", refused_too_late())
        with contextlib.suppress(TimeoutError):
            await attempts.first(0.001)
    await asyncio.sleep(0)


async def test_attempts_that_fail_when_they_are_given_up_leave_nothing() -> None:
    await given_up()
    with uncollected():
        await given_up()
        assert gc.collect() == 0


async def test_attempts_to_connect_that_take_too_long_leave_no_errors() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        link = Link(Address.parse(f"postgresql://ann@127.0.0.1:{port}/none?connect_timeout=0.05"))
        await refused(link.run(lambda session: session.execute("SELECT 1")))
        with uncollected():
            for _ in range(3):
                await refused(link.run(lambda session: session.execute("SELECT 1")))
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                gc.collect()
                assert not [each for each in gc.garbage if isinstance(each, BaseException)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
