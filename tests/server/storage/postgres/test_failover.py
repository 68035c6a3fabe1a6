"""A replica that takes over from the primary, and may lack its last transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from coterie_server.storage.abc import Fence, FencedError, OwnerTakenError, StoreError
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Database
from tests.support.postgres_server import PostgresServer, missing, running_pair
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TTL_MS = 1500
LONG_MS = 60_000


@dataclass(slots=True)
class Cluster:
    """A primary, its standby, and an address that leads to the one that is in charge."""

    primary: PostgresServer
    standby: PostgresServer
    address: TcpProxy

    @property
    def url(self) -> str:
        return self.primary.url(self.address.port, connect_timeout="2")

    async def caught_up(self) -> None:
        """Wait until the standby has all that the primary has."""
        async with Database(self.primary.url(), "coterie").connected() as ahead:
            sent = await ahead.fetchval("SELECT pg_current_wal_lsn()::text")
        query = "SELECT coalesce(pg_last_wal_replay_lsn(), '0/0') >= $1::text::pg_lsn"
        await Database(self.standby.url(), "coterie").until(query, sent)

    async def begun(self) -> None:
        """Wait until the standby follows; a synchronous one would keep all waiting until then."""
        query = "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'"
        await Database(self.primary.url(), "coterie").until(query)

    async def part(self) -> None:
        """Let the standby hear no more of the primary."""
        standby = Database(self.standby.url(), "coterie")
        await standby.run("ALTER SYSTEM SET primary_conninfo = ''")
        await standby.run("SELECT pg_reload_conf()")
        query = "SELECT count(*) = 0 FROM pg_stat_replication"
        await Database(self.primary.url(), "coterie").until(query)

    async def fail_over(self) -> None:
        """Promote the standby, and lead all connections to it."""
        await asyncio.to_thread(self.standby.promote)
        self.address.target = self.standby.port
        self.address.cut()
        await asyncio.sleep(0.05)


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with running_pair() as servers:
        yield servers


@pytest_asyncio.fixture
async def cluster(pair: tuple[PostgresServer, PostgresServer]) -> AsyncIterator[Cluster]:
    async with TcpProxy(pair[0].port) as address:
        yield Cluster(*pair, address)


async def test_standby_is_refused(cluster: Cluster) -> None:
    with pytest.raises(StoreError, match="read-only: a standby"):
        await PostgresStore(cluster.standby.url(connect_timeout="1")).open()


async def test_first_server_that_can_be_written_to_is_used(cluster: Cluster) -> None:
    hosts = f"127.0.0.1:1,127.0.0.1:{cluster.standby.port},127.0.0.1:{cluster.primary.port}"
    async with PostgresStore(f"postgresql://postgres@{hosts}/postgres") as store:
        assert len(await store.claim([0], "ann", TTL_MS)) == 1


async def test_lost_transactions_are_fenced(cluster: Cluster) -> None:
    async with PostgresStore(cluster.url) as store, PostgresStore(cluster.url) as other:
        await store.reserve("ann", TTL_MS)
        leases = await store.claim([0], "ann", TTL_MS)
        assert leases[0].fence == Fence(1, 1)
        leases = await store.renew("ann", b"", leases, TTL_MS)
        await store.append(leases[0], [(b"both", b"1")])
        await cluster.caught_up()
        await cluster.part()
        # From here on, the primary alone knows.
        await store.append(leases[0], [(b"lost", b"1")])
        (lost,) = await other.claim([1], "bob", TTL_MS)
        await other.append(lost, [(b"lost", b"1")])
        await cluster.fail_over()

        for lease, handle in ((leases[0], store), (lost, other)):
            with pytest.raises(FencedError):
                await handle.append(lease, [(b"late", b"1")])
        assert await store.renew("ann", b"", leases, TTL_MS) == []
        # A node that had claimed a shard, or renewed its lease, may trust that for as long.
        assert await store.claim([0, 1, 2], "ann", TTL_MS) == []
        assert await other.claim([0, 1, 2], "bob", TTL_MS) == []
        assert [lease.is_valid for lease in (await store.survey()).leases] == [True]
        assert [entry.owner for entry in (await store.survey()).nodes] == ["ann"]

        await asyncio.sleep(TTL_MS / 1000)
        taken = await other.claim([0, 1], "bob", TTL_MS)
        assert [lease.fence for lease in taken] == [Fence(2, 2), Fence(2, 1)]
        assert await other.load(0) == [(b"both", b"1")]
        assert await other.load(1) == []
        await other.append(taken[0], [(b"new", b"1")])
        for lease in (leases[0], lost):
            with pytest.raises(FencedError):
                await store.append(lease, [(b"later", b"1")])


async def test_leases_that_were_long_are_awaited(cluster: Cluster) -> None:
    async with PostgresStore(cluster.url) as store:
        await store.claim([0], "ann", LONG_MS)
        await cluster.caught_up()
        await cluster.fail_over()
        assert await store.claim([5], "bob", 100) == []
        (lease,) = (await store.survey()).leases
        assert LONG_MS - 10_000 < lease.left_ms <= LONG_MS
        await Database(cluster.standby.url(), "coterie").passes(LONG_MS)
        assert len(await store.claim([0, 5], "bob", 100)) == 2


async def test_names_survive(cluster: Cluster) -> None:
    async with PostgresStore(cluster.url) as store, PostgresStore(cluster.url) as other:
        await store.reserve("ann", LONG_MS)
        await cluster.caught_up()
        await cluster.fail_over()
        reserve = asyncio.create_task(other.reserve("ann", LONG_MS))
        await asyncio.sleep(0.3)
        await store.renew("ann", b"", [], LONG_MS)
        with pytest.raises(OwnerTakenError):
            await reserve


async def test_synchronous_replica_loses_nothing(cluster: Cluster) -> None:
    async with PostgresStore(cluster.url) as store:
        database = Database(cluster.primary.url(), "coterie")
        await cluster.begun()
        await database.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await database.run("SELECT pg_reload_conf()")
        (lease,) = await store.claim([0], "ann", TTL_MS)
        acknowledged: list[bytes] = []

        async def append() -> None:
            for number in range(100_000):
                key = b"%d" % number
                await store.append(lease, [(key, b"1")])
                acknowledged.append(key)

        appending = asyncio.create_task(append())
        await asyncio.sleep(0.5)
        await cluster.fail_over()
        with pytest.raises((StoreError, FencedError)):
            await appending
        await asyncio.sleep(TTL_MS / 1000 + 0.1)
        await store.claim([0], "ann", TTL_MS)
        await asyncio.sleep(TTL_MS / 1000 + 0.1)
        assert len(await store.claim([0], "ann", TTL_MS)) == 1
        found = dict(await store.load(0))
        assert acknowledged
        assert set(acknowledged) <= found.keys()
