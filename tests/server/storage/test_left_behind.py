"""What failed appends leave behind, which is nothing, without Python's garbage collector.

The daemon lets it look seldom, and a disk may be full, or a database away, for as long as it likes.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable

import pytest

from coterie_server.storage import FencedError, Store, StoreError
from coterie_server.storage.postgres.address import Address
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


async def test_attempts_to_connect_leave_nothing() -> None:
    link = Link(Address.parse("postgresql://ann@127.0.0.1:1/none?connect_timeout=0.1"))
    await refused(link.run(lambda session: session.execute("SELECT 1")))  # what is made once stays
    with uncollected():
        for _ in range(3):  # of these, each is several attempts
            await refused(link.run(lambda session: session.execute("SELECT 1")))
        assert gc.collect() < 20
