"""Nodes that take shards from each other, while connections and servers die under them."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from coterie_server.storage.abc import Fence, FencedError, Lease, StoreError
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Database
from tests.support.postgres_server import PostgresServer, running_server
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.asyncio

TTL_MS = 60_000
SHARDS = 4

Break = Callable[[random.Random], Awaitable[None]]


@dataclass(slots=True)
class Witness:
    """What nodes were told, and whether it holds."""

    #: Appends that were acknowledged, by shard: their keys and fences.
    acknowledged: dict[int, dict[bytes, Fence]] = field(
        default_factory=lambda: {shard: {} for shard in range(SHARDS)}
    )
    #: What each claim found.
    found: list[tuple[Lease, dict[bytes, Fence]]] = field(default_factory=list)
    failures: int = 0
    fenced: int = 0
    #: Set once one was fenced.
    met: asyncio.Event = field(default_factory=asyncio.Event)

    def claimed(self, lease: Lease, before: set[bytes], found: dict[bytes, Fence]) -> None:
        """A shard was claimed and read; `before` had been acknowledged when that began."""
        assert before <= found.keys()
        assert all(fence < lease.fence for fence in found.values())
        self.found.append((lease, found))

    def ended(self, shard: int, kept: dict[bytes, Fence]) -> None:
        """What is kept in the end: all that was acknowledged, and what each claim found."""
        assert self.acknowledged[shard].keys() <= kept.keys()
        for lease, found in self.found:
            if lease.shard == shard:
                earlier = {key for key, fence in kept.items() if fence < lease.fence}
                assert earlier == found.keys()


def fences_of(records: list[tuple[bytes, bytes]]) -> dict[bytes, Fence]:
    return {key: Fence(*map(int, value.split(b"."))) for key, value in records}


async def node(store: PostgresStore, shard: int, name: str, witness: Witness) -> None:
    """Claim a shard, read it and append to it, again and again until cancelled."""
    for life in range(10**6):
        try:
            before = set(witness.acknowledged[shard])
            # All nodes have one name here, so each may take shards from the others at once.
            taken = await store.claim([shard], "ann", TTL_MS)
            found = fences_of(await store.load(shard))
        except StoreError:
            witness.failures += 1
            continue
        if not taken:  # another node was quicker
            continue
        (lease,) = taken
        witness.claimed(lease, before, {k: f for k, f in found.items() if f < lease.fence})
        value = b"%d.%d" % lease.fence
        for batch in range(random.randrange(1, 60)):
            keys = [f"{name}/{life}/{batch}/{number}".encode() for number in range(3)]
            appends = (store.append(lease, [(key, value)]) for key in keys)
            results = await asyncio.gather(*appends, return_exceptions=True)
            for key, result in zip(keys, results, strict=True):
                if result is None:
                    witness.acknowledged[shard][key] = lease.fence
            refused = [result for result in results if result is not None]
            assert all(isinstance(each, StoreError | FencedError) for each in refused)
            if any(isinstance(each, FencedError) for each in refused):
                witness.fenced += 1
                witness.met.set()
            witness.failures += any(isinstance(each, StoreError) for each in refused)
            if refused:
                # None overtakes one that failed.
                first = results.index(refused[0])
                assert all(result is not None for result in results[first:])
                break


async def live(stores: list[PostgresStore], trouble: Break, seconds: float) -> Witness:
    """Let nodes live while there is trouble; return what they saw."""
    witness = Witness()
    nodes = [
        asyncio.create_task(node(store, shard, f"n{number}", witness))
        for number, store in enumerate(stores)
        for shard in range(SHARDS)
    ]
    async with asyncio.timeout(seconds + 60):
        await trouble(random.Random(random.getrandbits(32)))
        # On a busy machine they may need longer to get into each other's way.
        await witness.met.wait()
    for task in nodes:
        task.cancel()
    async with asyncio.timeout(60):
        ends = await asyncio.gather(*nodes, return_exceptions=True)
    for ended in ends:
        assert isinstance(ended, BaseException)
        if not isinstance(ended, asyncio.CancelledError):
            raise ended
    return witness


async def judged(witness: Witness, store: PostgresStore) -> None:
    for shard in range(SHARDS):
        # What is on its way is kept or refused before this.
        await store.claim([shard], "ann", TTL_MS)
        witness.ended(shard, fences_of(await store.load(shard)))
    assert witness.fenced > 0
    assert sum(map(len, witness.acknowledged.values())) > 0


def moments(seconds: float, step_s: float) -> Iterator[float]:
    for _ in range(int(seconds / step_s)):
        yield step_s


async def test_rivals(store: PostgresStore, other: PostgresStore) -> None:
    async def none(_random: random.Random) -> None:
        await asyncio.sleep(1)

    witness = await live([store, other], none, 1)
    await judged(witness, store)
    assert witness.failures == 0


@pytest.mark.slow
async def test_rivals_whose_server_processes_are_killed(
    store: PostgresStore, other: PostgresStore, database: Database
) -> None:
    async def kill(draw: random.Random) -> None:
        for step_s in moments(6, 0.05):
            await asyncio.sleep(step_s)
            async with database.connected() as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'coterie' AND random() < $1",
                    draw.choice([0.1, 0.5, 1.0]),
                )

    witness = await live([store, other], kill, 6)
    await judged(witness, store)
    assert witness.failures > 0


@pytest.mark.slow
async def test_rivals_whose_network_fails(
    postgres: PostgresServer, other: PostgresStore, schema: str
) -> None:
    async with TcpProxy(postgres.port) as proxy:

        async def lose(draw: random.Random) -> None:
            troubles = [proxy.cut, proxy.hold_requests, proxy.hold_answers, proxy.break_down]
            for step_s in moments(8, 0.2):
                draw.choice(troubles)()
                await asyncio.sleep(step_s * draw.random() * 1.5)
                if draw.random() < 0.5:
                    proxy.cut()
                proxy.mend()
                await asyncio.sleep(step_s * draw.random())

        url = postgres.url(proxy.port, schema=schema, connect_timeout="1")
        async with PostgresStore(url, answer_s=0.15) as distant:
            witness = await live([distant, other], lose, 8)
            await judged(witness, other)
            assert witness.failures > 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_rivals_whose_server_restarts(how: signal.Signals) -> None:
    # A crash of the server, not of the machine: what it has written is kept without fsync.
    with running_server() as server:
        async with PostgresStore(server.url()) as store, PostgresStore(server.url()) as other:

            async def restart(draw: random.Random) -> None:
                for _ in range(4):
                    await asyncio.sleep(0.3 + draw.random() / 2)
                    await asyncio.to_thread(server.stop, how)
                    await asyncio.sleep(draw.random() / 2)
                    await asyncio.to_thread(server.start)
                await asyncio.sleep(0.5)

            witness = await live([store, other], restart, 20)
            await judged(witness, store)
            # A server that ends in good order says that it does, so nothing need be in doubt.
            assert witness.failures > 0 or how is signal.SIGINT
