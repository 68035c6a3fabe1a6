"""Names of nodes: one process has one at a time."""

from __future__ import annotations

import asyncio
import time

import pytest

from coterie_server.storage.abc import OwnerTakenError
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Another, Passes

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000


async def test_name_of_a_process_that_died_is_awaited(another: Another) -> None:
    dead = another()
    await dead.open()
    began = time.monotonic()
    await dead.reserve("ann", 400)
    async with another() as store:
        await store.reserve("ann", TTL_MS)
        # The time that it takes to open a store counts as well.
        assert 0.3 < time.monotonic() - began < 30
    await dead.close()


async def test_name_is_had_as_soon_as_it_is_given_up(another: Another) -> None:
    async with another() as store:
        async with another() as former:
            await former.reserve("ann", TTL_MS)
            waiting = asyncio.create_task(store.reserve("ann", TTL_MS))
            await asyncio.sleep(0.2)
            assert not waiting.done()
        async with asyncio.timeout(60):
            await waiting


async def test_process_that_lost_its_name_while_it_was_paused(
    store: PostgresStore, other: PostgresStore, passes: Passes
) -> None:
    await store.reserve("ann", TTL_MS)
    (old,) = await store.claim([0], "ann", TTL_MS)
    await passes(TTL_MS)
    await other.reserve("ann", TTL_MS)
    (lease,) = await other.claim([0], "ann", TTL_MS)
    with pytest.raises(OwnerTakenError, match="in use as ann by another process"):
        await store.renew("ann", b"", [old], TTL_MS)
    with pytest.raises(OwnerTakenError):
        await store.renew("ann", b"", [], TTL_MS)
    assert await store.claim([0, 1], "ann", TTL_MS) == []
    await store.withdraw("ann")
    await store.close()
    assert await other.renew("ann", b"", [lease], TTL_MS) != []
    assert [entry.owner for entry in (await other.survey()).nodes] == ["ann"]


async def test_process_that_was_paused_keeps_a_name_that_no_other_took(
    store: PostgresStore, passes: Passes
) -> None:
    await store.reserve("ann", TTL_MS)
    leases = await store.claim([0], "ann", TTL_MS)
    await passes(2 * TTL_MS)
    assert len(await store.renew("ann", b"", leases, TTL_MS)) == 1
