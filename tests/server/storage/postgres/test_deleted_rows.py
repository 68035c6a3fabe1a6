"""Rows that somebody has deleted: what they said is found anew, and nothing is written twice."""

from __future__ import annotations

import pytest

from coterie_server.storage.abc import FencedError
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Database

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000


async def test_timeline_that_is_not_known_is_taken_for_new(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    leases = await store.claim([0], "ann", TTL_MS)
    await database.run("TRUNCATE timelines")
    # Until a node renews its leases, nobody knows when any of them ends.
    assert (await other.survey()).leases == ()
    assert len(await store.renew("ann", b"note", leases, TTL_MS)) == 1
    assert [each.is_valid for each in (await other.survey()).leases] == [True]
    await store.append(leases[0], [(b"a", b"1")])
    # Before it was deleted, it may have said that nothing was to be claimed yet.
    assert await other.claim([0, 1], "bob", TTL_MS) == []
    await database.passes(TTL_MS)
    assert [each.shard for each in await other.claim([0, 1], "bob", TTL_MS)] == [0, 1]


@pytest.mark.parametrize("table", ["fences", "leases", "nodes"])
async def test_shards_can_be_claimed_again(
    table: str, store: PostgresStore, database: Database
) -> None:
    (lease,) = await store.claim([0], "ann", TTL_MS)
    await store.append(lease, [(b"a", b"1")])
    await database.run(f"TRUNCATE {table}")
    await store.renew("ann", b"note", [lease], TTL_MS)
    (again,) = await store.claim([0], "ann", TTL_MS)
    await store.append(again, [(b"b", b"2")])
    assert await store.load(0) == [(b"a", b"1"), (b"b", b"2")]
    if again.fence > lease.fence:
        with pytest.raises(FencedError):
            await store.append(lease, [(b"late", b"1")])
