"""What waits for what in the database, and what doesn't."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from coterie_server.storage.abc import FencedError, Lease, Store, StoreError
from coterie_server.storage.postgres import PostgresStore, link, sql
from coterie_server.storage.postgres.address import Address
from tests.server.storage.doubles import Database
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000
RECORD = "SELECT 1 FROM records WHERE shard = 0 FOR UPDATE"
"""Holds an append up when it already holds its fence."""
FENCE = "SELECT 1 FROM fences WHERE shard = 0 FOR UPDATE"
"""Holds an append up before it has looked at its fence."""


@pytest.fixture
def patient_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have claims wait for a row for as long as a busy machine may stand still."""
    monkeypatch.setattr(sql, "_LOCK_MS", 60_000)


async def claimed(store: Store, shard: int = 0, owner: str = "ann") -> Lease:
    """Claim a shard, and have a record in it."""
    (lease,) = await store.claim([shard], owner, TTL_MS)
    await store.append(lease, [(b"a", b"1")])
    return lease


@pytest.mark.usefixtures("patient_claims")
async def test_claim_waits_for_an_append_under_way(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    lease = await claimed(store)
    async with database.holding(RECORD):
        append = asyncio.create_task(store.append(lease, [(b"a", b"2")]))
        await database.waiting()
        claim = asyncio.create_task(other.claim([0], "ann", TTL_MS))
        await database.waiting(2)
        assert not claim.done()
    await append
    assert len(await claim) == 1
    assert await other.load(0) == [(b"a", b"2")]


@pytest.mark.usefixtures("patient_claims")
@pytest.mark.parametrize("beside", [[], [3]])  # of the same lane, so they share a statement
async def test_append_that_waited_for_a_claim_is_refused(
    store: PostgresStore, other: PostgresStore, database: Database, beside: list[int]
) -> None:
    """It looks at the fence as it is when the claim has ended, not as it was when it began."""
    leases = [await claimed(store, shard) for shard in (0, *beside)]
    await claimed(other, 1)
    async with database.holding(FENCE):
        claim = asyncio.create_task(other.claim([0], "ann", TTL_MS))
        await database.waiting()
        results = asyncio.gather(
            *(store.append(lease, [(b"a", b"2"), (b"b", b"2")]) for lease in leases),
            return_exceptions=True,
        )
        await database.waiting(2)
    assert len(await claim) == 1
    assert [type(each) for each in await results] == [FencedError, *(type(None) for _ in beside)]
    assert await other.load(0) == [(b"a", b"1")]
    for shard in beside:
        assert await other.load(shard) == [(b"a", b"2"), (b"b", b"2")]


async def test_renewals_and_surveys_do_not_wait_for_appends(
    store: PostgresStore, database: Database
) -> None:
    lease = await claimed(store)
    async with database.holding(FENCE):
        append = asyncio.create_task(store.append(lease, [(b"a", b"2")]))
        await database.waiting()
        assert len(await store.renew("ann", b"", [lease], TTL_MS)) == 1
        assert len((await store.survey()).leases) == 1
        assert not append.done()
    await append


async def test_claim_of_a_held_shard_does_not_touch_its_fence(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    await claimed(store)
    async with database.holding(FENCE):
        assert await other.claim([0], "bob", TTL_MS) == []


async def test_shard_that_is_stuck_keeps_no_other_from_being_claimed(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    await claimed(store)
    async with database.holding(FENCE):
        taken = await other.claim([0, 1, 2], "ann", TTL_MS)
        assert [lease.shard for lease in taken] == [1, 2]
        with pytest.raises(StoreError, match="another transaction held a row for too long"):
            await other.claim([0], "ann", TTL_MS)
    assert len(await other.claim([0], "ann", TTL_MS)) == 1


@pytest.mark.usefixtures("patient_claims")
async def test_shard_that_is_stuck_is_awaited_for_a_part_of_a_lease_only(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    """Or the leases on the others would be over when they are had."""
    await claimed(store)
    async with database.holding(FENCE), asyncio.timeout(30):
        taken = await other.claim([0, 1, 2], "ann", 1000)
        assert [lease.shard for lease in taken] == [1, 2]


@pytest.mark.slow
async def test_node_that_is_paused_while_it_looks_for_stuck_shards_leaves_no_lock(
    postgres: PostgresServer, schema: str, other: PostgresStore, database: Database
) -> None:
    """It would hold all that are free until it goes on."""
    await claimed(other)
    async with TcpProxy(postgres.port) as proxy:
        url = postgres.url(proxy.port, schema=schema, connect_timeout="30")
        query = FENCE.replace("fences", f"{schema}.fences")
        paused = link.Link(Address.parse(url), answer_s=60)
        async with database.holding(FENCE):
            looking = asyncio.create_task(paused.run(lambda session: session.fetch(query)))
            await database.waiting()
            proxy.hold_answers()
        async with asyncio.timeout(30):
            await database.run(query)
        proxy.cut()
        looking.cancel()
        await asyncio.wait([looking])


FENCES = "SELECT 1 FROM fences WHERE shard < 40 FOR SHARE"
"""Holds many shards, as one append to several does that stands still."""


async def test_many_shards_that_are_stuck_are_awaited_once(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    """One after the other, they would take longer than the leases on the rest last."""
    await store.claim(range(50), "ann", TTL_MS)
    async with database.holding(FENCES):
        began = time.monotonic()
        taken = await other.claim(range(55), "ann", TTL_MS)
        assert time.monotonic() - began < 20
        assert [lease.shard for lease in taken] == [*range(40, 55)]
        assert await other.claim(range(2), "ann", TTL_MS) == []
    assert len(await other.claim(range(50), "ann", TTL_MS)) == 50


async def test_shard_that_is_stuck_keeps_no_other_from_being_given_up(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    leases = await store.claim(range(3), "ann", TTL_MS)
    async with database.holding(FENCE):
        with pytest.raises(StoreError, match="another transaction held a row for too long"):
            await store.release(leases)
        with pytest.raises(StoreError, match="another transaction held a row for too long"):
            await store.release([leases[0], leases[0]])
        taken = await other.claim(range(3), "bob", TTL_MS)
        assert [lease.shard for lease in taken] == [1, 2]
    await store.release(leases)
    assert len(await other.claim([0], "bob", TTL_MS)) == 1


async def test_other_lanes_do_not_wait_for_a_shard_that_is_stuck(
    store: PostgresStore, database: Database
) -> None:
    lease, elsewhere = await claimed(store, 0), await claimed(store, 1)
    async with database.holding(FENCE):
        append = asyncio.create_task(store.append(lease, [(b"a", b"2")]))
        await database.waiting()
        await store.append(elsewhere, [(b"a", b"2")])
        assert not append.done()
    await append


TABLES = "records, fences, leases, nodes, agreed, timelines"
WAITING = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'coterie'"
CALLS: Mapping[str, Callable[[PostgresStore, Lease], Awaitable[object]]] = {
    "reserve": lambda store, _: store.reserve("ann", TTL_MS),
    "renew": lambda store, lease: store.renew("ann", b"", [lease], TTL_MS),
    "withdraw": lambda store, _: store.withdraw("ann"),
    "survey": lambda store, _: store.survey(),
    "claim": lambda store, _: store.claim([0], "ann", TTL_MS),
    "release": lambda store, lease: store.release([lease]),
    "load": lambda store, _: store.load(0),
    "append": lambda store, lease: store.append(lease, [(b"a", b"2")]),
    "agree": lambda store, _: store.agree("shards", "50"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_no_call_is_left_waiting_on_the_server(
    postgres: PostgresServer, schema: str, database: Database, name: str
) -> None:
    """Each would take up one of its connections, for as long as another has locked the tables."""
    url = postgres.url(schema=schema, connect_timeout="0.5")
    async with PostgresStore(url, answer_s=0.5) as store:
        lease = await claimed(store)
        await store.renew("ann", b"", [lease], 1_500)  # looks take no longer than renewals do
        async with database.connected() as connection, connection.transaction():
            await connection.execute(f"LOCK TABLE {TABLES} IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError):
                await CALLS[name](store, lease)
            await database.until(f"SELECT count(*) = 0 {WAITING}")


async def test_append_whose_server_process_is_stopped(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    """Claims wait for it, as it may still be kept; when it goes on, it is kept or refused."""
    lease = await claimed(store)
    async with database.holding(RECORD):
        append = asyncio.create_task(store.append(lease, [(b"a", b"2")]))
        (process,) = await database.waiting()
        os.kill(process, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(StoreError, match="held a row for too long"):
            await other.claim([0], "ann", TTL_MS)
        assert time.monotonic() - began < 30
        assert not append.done()
    finally:
        os.kill(process, signal.SIGCONT)
    await append
    assert len(await other.claim([0], "ann", TTL_MS)) == 1
    assert await other.load(0) == [(b"a", b"2")]


async def test_append_whose_server_process_is_terminated(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    lease = await claimed(store)
    async with database.holding(RECORD):
        append = asyncio.create_task(store.append(lease, [(b"a", b"2")]))
        (process,) = await database.waiting()
        await database.run(f"SELECT pg_terminate_backend({process})")
        with pytest.raises(StoreError, match="the connection was lost"):
            await append
    with pytest.raises(StoreError, match="until it is claimed again"):
        await store.append(lease, [(b"b", b"2")])
    assert len(await other.claim([0], "ann", TTL_MS)) == 1
    assert await other.load(0) == [(b"a", b"1")]


async def test_a_name_lasts_as_long_as_what_was_claimed_under_it(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    """Its next process takes what the name has, and the former one trusts its lease."""
    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"", [], TTL_MS)
    await database.passes(TTL_MS - 1_000)
    await claimed(store)
    await database.passes(2_000)
    reserving = asyncio.create_task(other.reserve("ann", TTL_MS))
    await asyncio.sleep(0.3)
    assert not reserving.done()
    reserving.cancel()
