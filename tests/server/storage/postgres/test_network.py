"""A store whose network fails: nothing hangs, and nothing that is late does harm."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coterie_server.storage.abc import FencedError, Lease, Store, StoreError
from coterie_server.storage.postgres import PostgresStore, link
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.session import Session
from coterie_server.storage.postgres.store import LANES, READERS
from tests.server.storage.doubles import Database
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TTL_MS = 60_000


async def claimed(store: Store, shard: int = 0) -> Lease:
    """Claim a shard, and let its lane connect."""
    (lease,) = await store.claim([shard], "ann", TTL_MS)
    await store.append(lease, [])
    return lease


async def all_connected(proxy: TcpProxy) -> None:
    """Wait until a node that has a shard has all connections."""
    async with asyncio.timeout(30):
        while proxy.connections < LANES + READERS + 2:  # noqa: ASYNC110  # the network's time
            await asyncio.sleep(0.01)


async def connected(store: Store, proxy: TcpProxy) -> Lease:
    """Renew a lease, and wait until the node has all connections."""
    lease = await claimed(store)
    await store.renew("ann", b"", [lease], TTL_MS)
    await all_connected(proxy)
    return lease


async def used(store: Store) -> Lease:
    """Read and write shards by all connections; return the last one's lease."""
    leases = []
    for shard in range(2 * LANES):
        assert await store.load(shard) == []
        leases.append(await claimed(store, shard))
    return leases[-1]


async def test_lost_connection_is_made_again(distant: PostgresStore, proxy: TcpProxy) -> None:
    lease = await claimed(distant)
    await distant.append(lease, [(b"a", b"1")])
    proxy.cut()
    await asyncio.sleep(0.01)  # the network's time, for the reset to arrive
    await distant.append(lease, [(b"b", b"2")])
    assert await distant.load(0) == [(b"a", b"1"), (b"b", b"2")]
    assert await distant.renew("ann", b"", [lease], TTL_MS) != []


async def test_calls_wait_briefly_for_a_connection(distant: PostgresStore, proxy: TcpProxy) -> None:
    lease = await claimed(distant)
    proxy.refuses = True
    proxy.cut()
    await asyncio.sleep(0.01)
    append = asyncio.create_task(distant.append(lease, [(b"a", b"1")]))
    survey = asyncio.create_task(distant.survey())
    await asyncio.sleep(0.1)
    assert not append.done()
    proxy.refuses = False
    await append
    assert (await survey).leases[0].fence == lease.fence


async def test_calls_fail_when_there_is_no_connection_for_long(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    lease = await claimed(distant)
    proxy.refuses = True
    proxy.cut()
    await asyncio.sleep(0.01)
    began = time.monotonic()
    results = await asyncio.gather(
        *(distant.append(lease, [(b"%d" % number, b"1")]) for number in range(20)),
        distant.load(1),
        distant.claim([5], "ann", TTL_MS),
        distant.renew("ann", b"", [lease], TTL_MS),
        distant.survey(),
        distant.agree("a", "b"),
        distant.reserve("ann", TTL_MS),
        return_exceptions=True,
    )
    assert all(isinstance(result, StoreError) for result in results), results
    assert str(results[0]).startswith(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?")
    assert time.monotonic() - began < 30


async def test_no_call_outlasts_a_silent_network(distant: PostgresStore, proxy: TcpProxy) -> None:
    lease = await claimed(distant)
    proxy.hold_requests()
    began = time.monotonic()
    results = await asyncio.gather(
        *(distant.append(lease, [(b"%d" % number, b"1")]) for number in range(20)),
        distant.load(1),
        distant.claim([5], "ann", TTL_MS),
        distant.renew("ann", b"", [lease], 900),
        distant.survey(),
        return_exceptions=True,
    )
    assert all(isinstance(result, StoreError) for result in results), results
    assert time.monotonic() - began < 30
    proxy.go_on()
    again = await claimed(distant)
    await distant.append(again, [(b"a", b"1")])


async def test_silent_connections_are_given_up(distant: PostgresStore, proxy: TcpProxy) -> None:
    """As firewalls leave them that have forgotten a connection."""
    lease = await claimed(distant)
    assert await distant.load(0) == []
    await distant.renew("ann", b"", [lease], 900)
    proxy.strand()
    with pytest.raises(StoreError, match="did not answer in time"):
        await distant.append(lease, [(b"a", b"1")])
    assert len(await distant.renew("ann", b"", [lease], 900)) == 1
    (again,) = await distant.claim([0], "ann", TTL_MS)
    await distant.append(again, [(b"b", b"1")])
    assert await distant.load(0) == [(b"b", b"1")]


async def test_append_without_an_answer_is_not_sent_again(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    lease = await claimed(distant)
    proxy.hold_answers()
    with pytest.raises(StoreError, match="did not answer in time"):
        await distant.append(lease, [(b"a", b"1")])
    proxy.go_on()
    with pytest.raises(StoreError, match="takes no appends until it is claimed again") as caught:
        await distant.append(lease, [(b"a", b"2")])
    assert "did not answer" in str(caught.value)
    again = await claimed(distant)
    assert await distant.load(0) == [(b"a", b"1")]
    await distant.append(again, [(b"a", b"3")])
    assert await distant.load(0) == [(b"a", b"3")]


async def test_appends_behind_a_failed_one_fail(distant: PostgresStore, proxy: TcpProxy) -> None:
    lease, beside = await claimed(distant, 0), await claimed(distant, 1)
    await distant.append(beside, [(b"a", b"1")])
    proxy.requested = 0
    proxy.hold_answers()
    first = asyncio.create_task(distant.append(lease, [(b"a", b"1")]))
    await proxy.until_requested(100)
    second = asyncio.create_task(distant.append(lease, [(b"b", b"2")]))
    proxy.cut()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [StoreError, StoreError]
    proxy.go_on()
    await distant.append(beside, [(b"a", b"2")])  # other lanes go on
    assert await distant.load(0) in ([(b"a", b"1")], [])


async def test_append_that_arrives_after_a_claim_is_refused(
    distant: PostgresStore, other: PostgresStore, proxy: TcpProxy
) -> None:
    lease = await claimed(distant)
    await distant.append(lease, [(b"a", b"1")])
    proxy.hold_requests()
    with pytest.raises(StoreError):
        await distant.append(lease, [(b"a", b"late")])
    await claimed(other)
    before = await other.load(0)
    proxy.go_on()
    await asyncio.sleep(0.1)  # the server's time, for what arrives only now
    assert await other.load(0) == before == [(b"a", b"1")]
    with pytest.raises(StoreError):
        await distant.append(lease, [(b"a", b"later")])


async def test_node_that_is_paused_while_it_claims_leaves_no_lock(
    distant: PostgresStore, other: PostgresStore, proxy: TcpProxy
) -> None:
    await claimed(distant)
    proxy.hold_answers()
    claim = asyncio.create_task(distant.claim([0, 1], "ann", TTL_MS))
    await asyncio.sleep(0.1)  # the server's time
    assert len(await other.claim([0, 1], "ann", TTL_MS)) == 2
    assert not claim.done()
    proxy.mend()
    await asyncio.gather(claim, return_exceptions=True)


async def test_closing_does_not_wait_for_a_lost_network(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    await distant.reserve("ann", TTL_MS)
    proxy.hold_requests()
    began = time.monotonic()
    await distant.close()
    assert time.monotonic() - began < 30


async def test_closing_does_not_wait_for_an_append_that_is_lost(
    postgres: PostgresServer, distant: PostgresStore, proxy: TcpProxy, schema: str
) -> None:
    await distant.close()
    patient = PostgresStore(postgres.url(proxy.port, schema=schema))
    await patient.open()
    lease = await claimed(patient)
    proxy.hold_requests()
    appends = [asyncio.create_task(patient.append(lease, [(b"a", b"1")])) for _ in range(2)]
    await asyncio.sleep(0.1)  # the network's time, for the first to be sent
    began = time.monotonic()
    await patient.close()
    assert time.monotonic() - began < link.ANSWER_S - 3
    for append in appends:
        with pytest.raises(StoreError):
            await append


async def test_old_fence_is_told_apart_from_a_lost_network(
    distant: PostgresStore, other: PostgresStore
) -> None:
    lease = await claimed(distant)
    await claimed(other)
    with pytest.raises(FencedError):
        await distant.append(lease, [(b"a", b"1")])


@pytest.mark.parametrize("call", ["survey", "load"])
async def test_cancelled_call_ends_though_its_connection_is_lost_as_well(
    distant: PostgresStore, proxy: TcpProxy, database: Database, call: str
) -> None:
    """A call that failed instead would be tried again by tasks that were told to end."""
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "survey": distant.survey,
        "load": lambda: distant.load(0),
    }
    await calls[call]()
    async with database.holding("LOCK TABLE leases, records"):
        task = asyncio.ensure_future(calls[call]())
        await database.waiting()
        task.cancel()
        proxy.cut()
        await asyncio.wait([task])
    assert task.cancelled()


async def test_no_connection_is_needed_for_what_was_never_done(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    """When a node takes over from another, names of machines may not be found just then."""
    await connected(distant, proxy)
    proxy.refuses = True
    await used(distant)


async def test_node_without_shards_makes_no_more_connections_than_it_uses(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    await distant.renew("ann", b"", [], TTL_MS)
    assert await distant.load(0) == []
    await distant.renew("ann", b"", [], TTL_MS)
    assert proxy.made == 3


async def test_server_without_room_is_not_asked_for_connections_again_and_again(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    lease = await claimed(distant)
    await distant.renew("ann", b"", [], TTL_MS)
    proxy.refuses = True
    await distant.renew("ann", b"", [lease], TTL_MS)
    await asyncio.sleep(3.5)  # longer than connecting may take
    before = proxy.made
    for _ in range(5):
        await distant.renew("ann", b"", [lease], TTL_MS)
    await asyncio.sleep(0.2)
    assert proxy.made == before


async def test_connections_are_back_before_they_are_needed(
    distant: PostgresStore, proxy: TcpProxy
) -> None:
    lease = await claimed(distant)
    proxy.cut()
    await asyncio.sleep(0.01)
    await distant.renew("ann", b"", [lease], TTL_MS)
    await all_connected(proxy)
    proxy.refuses = True
    await used(distant)


async def test_connection_that_was_lost_without_a_word_is_found_while_it_is_idle(
    distant: PostgresStore, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As firewalls do that forget connections over which nothing went for a while."""
    monkeypatch.setattr(link, "_IDLE_S", 0.5)
    monkeypatch.setattr(link, "_LEFT_S", 0.1)
    await connected(distant, proxy)
    lease = await used(distant)  # or some were just about to be connected
    before = proxy.made
    proxy.strand()
    async with asyncio.timeout(30):
        while proxy.made < 2 * before:
            with contextlib.suppress(StoreError):
                await distant.renew("ann", b"", [lease], 900)
            await asyncio.sleep(0.01)
    began = time.monotonic()
    assert await distant.load(1) == []
    await claimed(distant, 1)
    assert time.monotonic() - began < 30


async def test_node_without_shards_finds_out_about_the_connections_that_it_has(
    distant: PostgresStore, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would be late when it takes over."""
    monkeypatch.setattr(link, "_IDLE_S", 0.0)
    await claimed(distant)
    proxy.strand()
    made = proxy.made
    async with asyncio.timeout(30):
        while proxy.made < made + 3:  # for renewals, claims, and the shard's appends
            with contextlib.suppress(StoreError):
                await distant.renew("ann", b"", [], 900)
            await asyncio.sleep(0.01)


async def test_connections_that_are_lost_together_are_found_out_together(
    postgres: PostgresServer, proxy: TcpProxy, schema: str
) -> None:
    """Renewals learn of it first; an append would wait for ten seconds, and then a claim."""
    async with PostgresStore(postgres.url(proxy.port, schema=schema)) as store:
        await connected(store, proxy)
        lease = await used(store)
        await store.renew("ann", b"", [lease], 1500)
        proxy.strand()
        began = time.monotonic()
        lost = asyncio.create_task(store.append(lease, [(b"a", b"1")]))
        while not lost.done():
            await store.renew("ann", b"", [lease], 1500)
            await asyncio.sleep(0.05)
        with pytest.raises(StoreError, match="lost"):
            await lost
        await store.append(await claimed(store, lease.shard), [(b"b", b"2")])
        assert await store.load(lease.shard) == [(b"b", b"2")]
        assert time.monotonic() - began < 9


async def test_looks_at_the_store_take_no_longer_than_renewals(
    postgres: PostgresServer, proxy: TcpProxy, schema: str
) -> None:
    """They share a connection, and keep the next renewal waiting."""
    async with PostgresStore(postgres.url(proxy.port, schema=schema)) as store:
        await store.reserve("ann", 1500)
        await store.renew("ann", b"", [], 1500)
        proxy.strand()
        async with asyncio.timeout(5):
            assert [node.owner for node in (await store.survey()).nodes] == ["ann"]


async def test_renewal_waits_for_no_connection_that_hangs(
    postgres: PostgresServer, proxy: TcpProxy, schema: str
) -> None:
    async with PostgresStore(
        postgres.url(proxy.port, schema=schema, connect_timeout="20")
    ) as store:
        await store.reserve("ann", 1500)
        proxy.cut()
        proxy.hold_requests()
        await asyncio.sleep(0.01)
        made = proxy.made
        renewal = asyncio.create_task(store.renew("ann", b"", [], 1500))
        async with asyncio.timeout(5):
            while proxy.made == made:  # noqa: ASYNC110  # the network's time
                await asyncio.sleep(0.01)
            proxy.strand()
            await renewal


async def test_server_that_is_silent_is_tried_once(
    postgres: PostgresServer, proxy: TcpProxy, schema: str
) -> None:
    """The next connection goes to the one that was good."""
    async with TcpProxy(postgres.port) as silent:
        silent.hold_requests()
        url = postgres.url(proxy.port, schema=schema, connect_timeout="2")
        url = url.replace(f":{proxy.port}", f":{silent.port},127.0.0.1:{proxy.port}")
        alone = link.Link(Address.parse(url))
        for times in (1, 2):
            await alone.run(lambda session: session.execute("SELECT 1"))
            assert (silent.made, proxy.made) == (1, times)
            alone.abort()


async def _nothing(_: Session) -> None:
    pass


@pytest.mark.parametrize("silent", [0, 2])
async def test_slow_network_may_take_longer_to_connect_than_an_answer_may(
    postgres: PostgresServer, proxy: TcpProxy, silent: int
) -> None:
    """To say hello takes several round trips, and those before it in the URL their time."""
    proxy.delay_s = 0.05
    async with contextlib.AsyncExitStack() as stack:
        dumb = [await stack.enter_async_context(TcpProxy(postgres.port)) for _ in range(silent)]
        for each in dumb:
            each.hold_requests()
        places = ",".join(f"127.0.0.1:{each.port}" for each in (*dumb, proxy))
        url = f"postgresql://postgres@{places}/postgres?connect_timeout=60"
        alone = link.Link(Address.parse(url))
        await alone.run(_nothing, answer_s=0.15)
        await alone.close()
        for each in dumb:
            each.go_on()
        async with asyncio.timeout(30):  # what was begun in vain was given up
            while any(each.connections for each in (*dumb, proxy)):  # noqa: ASYNC110  # the network's time
                await asyncio.sleep(0.01)


async def test_slow_network_lets_a_node_learn_which_leases_it_has_lost(
    postgres: PostgresServer, proxy: TcpProxy, schema: str, other: PostgresStore
) -> None:
    """Or it would renew the others for ever, and never hear that it has."""
    async with PostgresStore(
        postgres.url(proxy.port, schema=schema, connect_timeout="20")
    ) as store:
        leases = [await claimed(store, shard) for shard in (0, 1)]
        await claimed(other, 0)
        proxy.delay_s = 0.035
        assert [each.shard for each in await store.renew("ann", b"", leases, 900)] == [1]


async def test_many_shards_are_read_in_few_round_trips(
    distant: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that takes over from another one reads dozens, and the database may be far away."""
    for shard in range(50):
        await distant.append(await claimed(distant, shard), [(b"a", b"%d" % shard)])
    queries: list[str] = []
    fetch = Session.fetch

    async def noted(session: Session, query: str, *values: object) -> list[Any]:
        queries.append(query)
        return await fetch(session, query, *values)

    monkeypatch.setattr(Session, "fetch", noted)
    found = await asyncio.gather(*map(distant.load, range(50)))
    assert found == [[(b"a", b"%d" % shard)] for shard in range(50)]
    assert sum("place" in query for query in queries) == READERS


async def test_append_that_is_fenced_keeps_no_other_shard_waiting_for_long(
    postgres: PostgresServer, schema: str, database: Database
) -> None:
    """Who has the shard now is asked by another statement, which may have to wait."""
    async with PostgresStore(postgres.url(schema=schema)) as store:
        old, other = await claimed(store), await claimed(store, LANES)
        await claimed(store)
        async with database.holding("LOCK TABLE leases"), asyncio.timeout(5):
            late = asyncio.create_task(store.append(old, [(b"a", b"1")]))
            await asyncio.sleep(0)
            await store.append(other, [(b"b", b"2")])
            with pytest.raises(FencedError, match="not known"):
                await late


async def _never(_: Session) -> None:
    await asyncio.Event().wait()


async def test_failure_is_told_though_there_was_no_time_to_connect_again(
    postgres: PostgresServer, proxy: TcpProxy
) -> None:
    async def fail(_: Session) -> None:
        proxy.hold_requests()
        raise ConnectionResetError("something pulled the plug")

    alone = link.Link(Address.parse(postgres.url(proxy.port, connect_timeout="1")))
    with pytest.raises(StoreError, match="something pulled the plug"):
        await alone.run(fail)


async def test_call_that_nobody_has_cancelled_fails(postgres: PostgresServer) -> None:
    async def give_up(_: Session) -> None:
        raise asyncio.CancelledError

    alone = link.Link(Address.parse(postgres.url()))
    with pytest.raises(StoreError, match="given up"):
        await alone.run(give_up)
    calls = [asyncio.create_task(alone.run(_never)) for _ in range(2)]
    await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert all(call.cancelled() for call in calls)
    alone.abort()
