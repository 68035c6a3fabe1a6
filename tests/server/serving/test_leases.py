"""A node acts as the owner of its shards only while no other node can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from coterie_server.serving import LeaseKeeper, LeaseTerms, LeaseTrust, ShardsTakenError
from coterie_server.serving import leases as leases_module
from coterie_server.storage import Lease, MemoryStore, StoreError

pytestmark = pytest.mark.asyncio

TTL_MS = 9_000


class Time:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def ms(self) -> int:
        """The same for the store."""
        return int(self.s * 1000)


class UnreliableStore(MemoryStore):
    """A store that renews no leases when it is told not to, or takes its time."""

    error: Exception | None = None
    gate: asyncio.Event | None = None

    async def renew(self, leases: Iterable[Lease], now_ms: int, ttl_ms: int) -> list[Lease]:
        """Renew, or not."""
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await super().renew(leases, now_ms, ttl_ms)


class RecordingHolder:
    """Records the calls of a lease keeper."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def lost(self, shard: int) -> None:
        """Note it."""
        self.told.append(f"lost {shard}")

    def gained(self, lease: Lease) -> None:
        """Note it."""
        self.told.append(f"gained {lease.shard}")

    def confirmed(self) -> None:
        """Note it."""
        self.told.append("confirmed")

    def doubted(self) -> None:
        """Note it."""
        self.told.append("doubted")


class Harness:
    """A keeper of three shards."""

    def __init__(self, store: UnreliableStore) -> None:
        self.time, self.store, self.holder = Time(), store, RecordingHolder()
        self.trust = LeaseTrust(lambda: self.time.s)
        terms = LeaseTerms("node-1", "one:9092", TTL_MS)
        self.keeper = LeaseKeeper(store, terms, self.trust, self.time.ms, self.holder)

    async def renewed(self) -> list[str]:
        """What is told when the keeper is asked to look after the leases."""
        self.holder.told.clear()
        self.trust.doubt()
        for _ in range(20):
            await asyncio.sleep(0)
        return self.holder.told

    async def steal(self, shard: int, ttl_ms: int = TTL_MS) -> None:
        """Have another node take a shard, as it may once the lease has run out."""
        taken = await self.store.claim(shard, "node-2", "two:9092", self.time.ms(), ttl_ms)
        assert taken is not None


@pytest_asyncio.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """A keeper at work."""
    monkeypatch.setattr(leases_module, "_RETRY_S", 3_600.0)
    async with UnreliableStore() as store:
        harness = Harness(store)
        await harness.keeper.claim_all(range(3))
        harness.keeper.start()
        yield harness
        await harness.keeper.stop()


async def test_trust_ends_before_the_lease_does(harness: Harness) -> None:
    """A tenth before: until then no other node can have the shards, whatever clocks do."""
    harness.time.s += TTL_MS * 0.9 / 1000 - 0.001
    assert harness.trust.holds
    harness.time.s += 0.002
    assert not harness.trust.holds


async def test_trust_counts_from_before_the_store_was_asked(harness: Harness) -> None:
    """An answer that took long is worth less."""
    harness.store.gate = asyncio.Event()
    asking = asyncio.ensure_future(harness.renewed())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    harness.time.s += 5.0
    harness.store.gate.set()
    assert await asking == ["confirmed"]
    harness.time.s += TTL_MS * 0.9 / 1000 - 5.0 + 0.001
    assert not harness.trust.holds


async def test_a_renewal_restores_trust(harness: Harness) -> None:
    """After a pause in which no other node claimed the shards, the node goes on."""
    harness.time.s += 60.0
    assert not harness.trust.holds
    assert await harness.renewed() == ["confirmed"]
    assert harness.trust.holds


async def test_a_shard_that_another_node_took_is_lost_and_the_others_stay(harness: Harness) -> None:
    harness.time.s += 60.0
    await harness.steal(1)
    assert await harness.renewed() == ["lost 1", "confirmed"]


async def test_a_lost_shard_is_taken_back_when_its_new_lease_has_ended(harness: Harness) -> None:
    harness.time.s += 60.0
    await harness.steal(1)
    await harness.renewed()
    harness.time.s += 5.0
    assert await harness.renewed() == ["confirmed"]
    harness.time.s += 5.0
    assert await harness.renewed() == ["confirmed", "gained 1"]


async def test_a_process_of_the_same_name_is_another_one_all_the_same(harness: Harness) -> None:
    """Two processes that take their shards from each other would never end."""
    usurper = await harness.store.claim(1, "node-1", "one:9092", harness.time.ms(), TTL_MS)
    assert usurper is not None
    assert await harness.renewed() == ["lost 1", "confirmed"]


async def test_a_store_that_fails_leaves_doubt_until_it_works_again(harness: Harness) -> None:
    harness.store.error = StoreError("the disk is full")
    assert await harness.renewed() == ["doubted"]
    assert harness.keeper.trouble == "the disk is full"
    harness.store.error = None
    assert await harness.renewed() == ["confirmed"]
    assert harness.keeper.trouble == ""


async def test_a_store_that_does_not_answer_leaves_doubt(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request does not have to wait for as long as the store does."""
    real = asyncio.wait

    async def impatient(tasks: Iterable[asyncio.Future[object]], timeout: float) -> object:  # noqa: ASYNC109  # asyncio's own
        assert timeout > 0
        return await real(set(tasks), timeout=0)

    monkeypatch.setattr(asyncio, "wait", impatient)
    harness.store.gate = asyncio.Event()
    assert "doubted" in await harness.renewed()
    assert "does not answer" in harness.keeper.trouble
    harness.store.gate.set()
    assert "confirmed" in await harness.renewed()
    monkeypatch.undo()


async def test_if_another_node_has_a_shard_none_is_kept() -> None:
    async with UnreliableStore() as store:
        harness = Harness(store)
        await harness.steal(2)
        with pytest.raises(ShardsTakenError, match="in use by node-2 at two:9092"):
            await harness.keeper.claim_all(range(3))
        assert [lease.shard for lease in await store.leases()] == [2]
