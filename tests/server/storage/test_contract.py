"""What every store promises, held against each of them."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.config.settings import SETTINGS
from coterie_server.storage import (
    Fence,
    FencedError,
    KeptRecord,
    Lease,
    MemoryStore,
    OwnerTakenError,
    Record,
    SqliteStore,
    Store,
    StoreError,
)
from coterie_server.storage.abc import LEASE_MS_MAX
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import Another, Failing, Passes
from tests.support.postgres_server import PostgresServer
from tests.support.profiles import examples

pytestmark = pytest.mark.asyncio

TTL_MS = 10_000


async def claimed(store: Store, shard: int = 0, owner: str = "ann") -> Lease:
    """Claim a shard that must be free to claim."""
    (lease,) = await store.claim([shard], owner, TTL_MS)
    return lease


async def held(store: Store) -> list[tuple[int, str, Fence]]:
    """Who has which shard, and under which fence."""
    return [(each.shard, each.owner, each.fence) for each in (await store.survey()).leases]


def known(lease: Lease) -> tuple[int, str, Fence]:
    """A lease as `held` tells it."""
    return lease.shard, lease.owner, lease.fence


# Records


async def test_unused_shard_is_empty(store: Store) -> None:
    assert await store.load(7) == []


async def test_records_come_back_in_key_order(store: Store) -> None:
    lease = await claimed(store)
    keys = [b"b", b"\xff", b"a\x00", b"a", b"", b"\x00", b"ab"]
    await store.append(lease, [(key, b"of " + key) for key in keys])
    assert await store.load(0) == [(key, b"of " + key) for key in sorted(keys)]


async def test_last_value_counts(store: Store) -> None:
    lease = await claimed(store)
    await store.append(lease, [(b"a", b"1"), (b"b", b"1"), (b"b", b"2")])
    await store.append(lease, [(b"a", b"3")])
    assert await store.load(0) == [(b"a", b"3"), (b"b", b"2")]


async def test_none_deletes(store: Store) -> None:
    lease = await claimed(store)
    await store.append(lease, [(b"a", b"1"), (b"b", b"1"), (b"c", None)])
    await store.append(lease, [(b"a", None), (b"b", None), (b"b", b"2")])
    assert await store.load(0) == [(b"b", b"2")]


async def test_empty_value_is_a_value(store: Store) -> None:
    lease = await claimed(store)
    await store.append(lease, [(b"a", b"")])
    assert await store.load(0) == [(b"a", b"")]


async def test_shards_are_apart(store: Store) -> None:
    for shard in (-1, 0, 1):
        lease = await claimed(store, shard)
        await store.append(lease, [(b"a", b"%d" % shard)])
    assert [await store.load(shard) for shard in (-1, 0, 1)] == [
        [(b"a", b"-1")],
        [(b"a", b"0")],
        [(b"a", b"1")],
    ]


class Growing:
    """Records that may be more by the time at which a store asks for them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.times_asked = 0

    def __iter__(self) -> Iterator[Record]:
        self.times_asked += 1
        return iter(self.records)


async def test_appended_records_are_asked_for_when_they_are_written(store: Store) -> None:
    """What comes while others are written joins those that wait, of whatever shard."""
    lease = await claimed(store)
    growing = Growing()
    growing.records.append((b"a", b"1"))
    append = store.append(lease, growing)
    growing.records.append((b"b", b"2"))
    await append
    assert growing.times_asked == 1
    growing.records.append((b"c", b"3"))
    assert await store.load(0) == [(b"a", b"1"), (b"b", b"2")]


async def test_records_of_which_some_can_not_be_had_are_not_kept(store: Store) -> None:
    lease = await claimed(store)

    def records() -> Iterator[Record]:
        yield b"a", b"1"
        raise StoreError("no more")

    with pytest.raises(StoreError):
        await store.append(lease, records())
    (lease,) = await store.claim([0], lease.owner, TTL_MS)
    await store.append(lease, [(b"b", b"2")])
    assert await store.load(0) == [(b"b", b"2")]


async def test_appended_records_are_not_asked_for_where_they_are_refused(store: Store) -> None:
    lease = await claimed(store)
    await store.release([lease])
    growing = Growing()
    growing.records.append((b"a", b"1"))
    with pytest.raises(FencedError):
        await store.append(lease, growing)
    assert await store.load(0) == []
    assert growing.times_asked <= 1


@pytest.mark.parametrize("count", [0, 1, 6, 7])
async def test_scan_yields_chunks(store: Store, count: int) -> None:
    lease = await claimed(store)
    records: list[KeptRecord] = [(b"%d" % number, b"value") for number in range(count)]
    await store.append(lease, records)
    chunks = [chunk async for chunk in store.scan(0, chunk_records=3)]
    assert chunks == [records[start : start + 3] for start in range(0, count, 3)]


async def test_shards_that_are_scanned_at_once_have_their_own_records(store: Store) -> None:
    counts = (0, 1, 7, 20, 6)
    stored: list[list[KeptRecord]] = [
        [(b"%d-%02d" % (shard, number), b"%d" % shard) for number in range(count)]
        for shard, count in enumerate(counts)
    ]
    for shard, records in enumerate(stored):
        await store.append(await claimed(store, shard), records)

    async def scanned(shard: int) -> list[list[KeptRecord]]:
        return [chunk async for chunk in store.scan(shard, chunk_records=6)]

    found = await asyncio.gather(*map(scanned, range(len(counts))))
    assert [[record for chunk in chunks for record in chunk] for chunks in found] == stored
    assert all(0 < len(chunk) <= 6 for chunks in found for chunk in chunks)


async def test_records_outlive_closing(another: Another) -> None:
    async with another() as store:
        lease = await claimed(store)
        await store.append(lease, [(b"a", b"1")])
    async with another() as store:
        assert await store.load(0) == [(b"a", b"1")]


async def test_returned_append_is_seen_by_others(store: Store, other: Store) -> None:
    lease = await claimed(store)
    await store.append(lease, [(b"a", b"1")])
    assert await other.load(0) == [(b"a", b"1")]


Batches = list[tuple[int, list[Record]]]
few_bytes = st.binary(max_size=2)
batches = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.tuples(few_bytes, st.none() | few_bytes), max_size=5)),
    max_size=8,
)


async def left_after(store: Store, appended: Batches) -> list[list[KeptRecord]]:
    """Append batches all at once and return what two shards hold then."""
    async with store:
        leases = [await claimed(store, shard) for shard in (0, 1)]
        await asyncio.gather(*(store.append(leases[shard], records) for shard, records in appended))
        return [await store.load(shard) for shard in (0, 1)]


def expected_after(appended: Batches) -> list[list[KeptRecord]]:
    """Return what the same batches leave in two dicts."""
    shards: list[dict[bytes, bytes | None]] = [{}, {}]
    for shard, records in appended:
        shards[shard].update(records)
    return [
        [(key, value) for key, value in sorted(kept.items()) if value is not None]
        for kept in shards
    ]


@examples(20)
@given(appended=batches)
async def test_appends_are_updates_of_a_dict_in_memory(appended: Batches) -> None:
    assert await left_after(MemoryStore(), appended) == expected_after(appended)


@examples(20)
@given(appended=batches)
async def test_appends_are_updates_of_a_dict_in_a_file(appended: Batches) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "coterie.db")
        assert await left_after(store, appended) == expected_after(appended)


@examples(20)
@given(appended=batches)
async def test_appends_are_updates_of_a_dict_in_postgres(
    postgres: PostgresServer, appended: Batches
) -> None:
    store = PostgresStore(postgres.url(schema=f"test_{uuid4().hex[:12]}"))
    assert await left_after(store, appended) == expected_after(appended)


# Order


async def test_appends_take_effect_in_call_order(store: Store) -> None:
    lease = await claimed(store)
    await asyncio.gather(*(store.append(lease, [(b"a", b"%d" % number)]) for number in range(300)))
    assert await store.load(0) == [(b"a", b"299")]


async def test_load_sees_appends_called_before_it(store: Store) -> None:
    lease = await claimed(store)
    append = asyncio.create_task(store.append(lease, [(b"a", b"1")]))
    await asyncio.sleep(0)
    assert await store.load(0) == [(b"a", b"1")]
    await append


async def test_cancelled_append_disturbs_no_other(store: Store) -> None:
    lease = await claimed(store)
    appends = [
        asyncio.create_task(store.append(lease, [(b"%d" % number, b"1")])) for number in range(3)
    ]
    await asyncio.sleep(0)
    appends[1].cancel()
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert results[0] is None
    assert results[2] is None
    kept = dict(await store.load(0))
    assert {b"0", b"2"} <= set(kept)


# Fences


async def test_append_needs_a_claim(store: Store) -> None:
    with pytest.raises(FencedError) as caught:
        await store.append(Lease(0, Fence(0, 1), "ann", TTL_MS), [(b"a", b"1")])
    assert str(caught.value) == "epoch 1 of shard 0 has passed: no node holds shard 0"


async def test_claim_raises_the_fence(store: Store, passes: Passes) -> None:
    first, again = await claimed(store), await claimed(store)
    await passes(TTL_MS)
    after = await claimed(store, owner="bob")
    assert first.fence < again.fence < after.fence


async def test_passed_fence_is_refused(store: Store, passes: Passes) -> None:
    old = await claimed(store)
    await passes(TTL_MS)
    new = await claimed(store, owner="bob")
    with pytest.raises(FencedError) as caught:
        await store.append(old, [(b"a", b"1")])
    assert str(caught.value) == (
        f"epoch {old.fence} of shard 0 has passed: shard 0 is held by bob, epoch {new.fence}"
    )
    assert await store.load(0) == []


async def test_own_earlier_fence_is_refused(store: Store) -> None:
    """The owner's former process may still be writing."""
    earlier = await claimed(store)
    await claimed(store)
    with pytest.raises(FencedError):
        await store.append(earlier, [(b"a", b"1")])


async def test_fence_to_come_is_refused(store: Store) -> None:
    lease = await claimed(store)
    to_come = replace(lease, fence=lease.fence._replace(epoch=lease.fence.epoch + 1))
    with pytest.raises(FencedError):
        await store.append(to_come, [(b"a", b"1")])


async def test_fences_are_the_shards_own(store: Store) -> None:
    lease = await claimed(store, 0)
    await claimed(store, 1)
    await claimed(store, 1)
    await store.append(lease, [(b"a", b"1")])
    assert await store.load(0) == [(b"a", b"1")]


async def test_fenced_append_concerns_no_other(store: Store) -> None:
    old = await claimed(store)
    new = await claimed(store)
    results = await asyncio.gather(
        store.append(new, [(b"a", b"1")]),
        store.append(old, [(b"a", b"2"), (b"b", b"2")]),
        store.append(new, [(b"c", b"3")]),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), FencedError, type(None)]
    assert await store.load(0) == [(b"a", b"1"), (b"c", b"3")]


async def test_claim_fences_what_is_called_behind_it(store: Store) -> None:
    old = await claimed(store)
    await store.append(old, [(b"a", b"1")])
    await claimed(store)
    with pytest.raises(FencedError):
        await store.append(old, [(b"b", b"2")])
    assert await store.load(0) == [(b"a", b"1")]


async def test_claim_of_another_process_fences(store: Store, other: Store, passes: Passes) -> None:
    """Also appends that followed earlier ones."""
    old = await claimed(store)
    await store.append(old, [(b"a", b"1")])
    await passes(TTL_MS)
    new = await claimed(other, owner="bob")
    await other.append(new, [(b"a", b"2")])
    with pytest.raises(FencedError):
        await store.append(old, [(b"a", b"3")])
    assert await store.load(0) == [(b"a", b"2")]


async def test_expired_lease_still_writes(store: Store, passes: Passes) -> None:
    """Only another claim fences a writer."""
    lease = await claimed(store)
    await passes(2 * TTL_MS)
    await store.append(lease, [(b"a", b"1")])
    assert await store.load(0) == [(b"a", b"1")]


async def test_append_under_way_is_kept_before_a_new_claim_or_refused(
    store: Store, other: Store
) -> None:
    """What is found after a claim stays, and nothing is added to it."""

    async def appended(lease: Lease) -> list[bytes]:
        kept: list[bytes] = []
        for number in range(1000):
            key = b"%d/%04d" % (lease.fence.epoch, number)
            try:
                await store.append(lease, [(key, b"1")])
            except FencedError:
                break
            kept.append(key)
            await asyncio.sleep(0)
        return kept

    acknowledged: list[bytes] = []
    for pause in range(10):
        appending = asyncio.create_task(appended(await claimed(store)))
        for _ in range(10 * pause):
            await asyncio.sleep(0)
        await claimed(other)
        found = await other.load(0)
        acknowledged += await appending
        assert [key for key, _ in found] == sorted(acknowledged)
        assert await store.load(0) == found


async def test_fences_outlive_closing(another: Another) -> None:
    async with another() as store:
        kept, released = await claimed(store, 0), await claimed(store, 1)
        await store.release([released])
    async with another() as store:
        assert (await claimed(store, 0)).fence > kept.fence
        assert (await claimed(store, 1)).fence > released.fence


# After a failure


async def failed(failing: Failing, lease: Lease) -> None:
    """Have an append under a lease fail, and mend the store."""
    failing.fail()
    with pytest.raises(StoreError):
        await failing.store.append(lease, [(b"failed", b"1")])
    failing.mend()


async def test_append_fails_behind_one_that_failed(failing: Failing) -> None:
    """Or it would be kept without what came before it."""
    lease = await claimed(failing.store)
    await failed(failing, lease)
    for _ in range(2):
        with pytest.raises(StoreError):
            await failing.store.append(lease, [(b"later", b"1")])
        assert b"later" not in dict(await failing.store.load(0))


async def test_renewing_a_lease_does_not_mend_it(failing: Failing) -> None:
    lease = await claimed(failing.store)
    await failed(failing, lease)
    (renewed,) = await failing.store.renew("ann", b"", [lease], TTL_MS)
    with pytest.raises(StoreError):
        await failing.store.append(renewed, [(b"later", b"1")])


async def test_appends_that_wait_fail_with_the_first(failing: Failing) -> None:
    lease = await claimed(failing.store)
    failing.fail()
    appends = (failing.store.append(lease, [(b"%d" % number, b"1")]) for number in range(5))
    results = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(result) for result in results] == [StoreError] * 5


async def test_append_under_a_new_claim_succeeds_after_a_failure(failing: Failing) -> None:
    old = await claimed(failing.store)
    await failed(failing, old)
    found = await claimed(failing.store), await failing.store.load(0)
    await failing.store.append(found[0], [(b"later", b"1")])
    assert await failing.store.load(0) == sorted([*found[1], (b"later", b"1")])
    with pytest.raises(FencedError):
        await failing.store.append(old, [(b"too late", b"1")])


async def test_failed_append_concerns_no_other_shard(failing: Failing) -> None:
    lease, elsewhere = await claimed(failing.store, 0), await claimed(failing.store, 1)
    await failed(failing, lease)
    await failing.store.append(elsewhere, [(b"a", b"1")])
    assert await failing.store.load(1) == [(b"a", b"1")]


# Leases


async def test_lease_says_what_was_claimed(store: Store) -> None:
    (lease,) = await store.claim([3], "ann", TTL_MS)
    assert (lease.shard, lease.owner, lease.fence.epoch) == (3, "ann", 1)
    assert TTL_MS / 2 < lease.left_ms <= TTL_MS


async def test_held_shard_cannot_be_claimed(store: Store, other: Store, passes: Passes) -> None:
    await claimed(store)
    await passes(TTL_MS // 2)
    assert await other.claim([0], "bob", TTL_MS) == []
    await passes(TTL_MS // 2)
    assert await other.claim([0], "bob", TTL_MS) != []


async def test_refused_claim_changes_nothing(store: Store) -> None:
    lease = await claimed(store)
    assert await store.claim([0], "bob", TTL_MS) == []
    await store.append(lease, [(b"a", b"1")])
    assert await held(store) == [known(lease)]


async def test_claim_takes_what_it_can_have(store: Store, other: Store) -> None:
    theirs = await claimed(store, 1)
    taken = await other.claim([0, 1, 2], "bob", TTL_MS)
    assert [lease.shard for lease in taken] == [0, 2]
    assert await held(store) == sorted(map(known, (*taken, theirs)))


async def test_owner_claims_again_at_once(store: Store) -> None:
    """A restarted owner need not wait for its former lease."""
    await claimed(store)
    (lease,) = await store.claim([0], "ann", TTL_MS)
    assert await held(store) == [known(lease)]


async def test_each_shard_is_given_once(store: Store, other: Store) -> None:
    shards = range(20)
    claims = [
        handle.claim([shard], owner, TTL_MS)
        for shard in shards
        for handle, owner in ((store, "ann"), (other, "bob"))
    ]
    won = [lease.shard for taken in await asyncio.gather(*claims) for lease in taken]
    assert sorted(won) == list(shards)


async def test_renewed_lease_lasts_longer(store: Store, passes: Passes) -> None:
    lease = await claimed(store)
    await passes(TTL_MS // 2)
    (renewed,) = await store.renew("ann", b"", [lease], TTL_MS)
    assert known(renewed) == known(lease)
    await passes(TTL_MS // 2)
    assert await store.claim([0], "bob", TTL_MS) == []
    assert await held(store) == [known(lease)]


async def test_only_held_leases_are_renewed(store: Store, passes: Passes) -> None:
    taken, given_up, kept = [await claimed(store, shard) for shard in (0, 1, 2)]
    await passes(TTL_MS)
    bobs = await claimed(store, 0, "bob")
    await store.release([given_up])
    renewed = await store.renew("ann", b"", [taken, given_up, kept], TTL_MS)
    assert [lease.shard for lease in renewed] == [2]
    assert await held(store) == [known(bobs), known(kept)]


async def test_expired_lease_can_be_renewed(store: Store, passes: Passes) -> None:
    lease = await claimed(store)
    await passes(2 * TTL_MS)
    (before,) = (await store.survey()).leases
    (renewed,) = await store.renew("ann", b"", [lease], TTL_MS)
    (after,) = (await store.survey()).leases
    assert renewed.fence == lease.fence
    assert (before.is_valid, after.is_valid) == (False, True)


async def test_lease_shows_that_it_was_renewed(store: Store, passes: Passes) -> None:
    """Whatever clocks say."""

    async def until() -> str:
        (lease,) = (await store.survey()).leases
        return lease.until

    lease = await claimed(store)
    before = await until()
    assert before
    assert await until() == before
    await passes(TTL_MS // 2)
    await store.renew("ann", b"", [lease], TTL_MS)
    assert await until() != before


async def test_entry_of_a_node_shows_that_it_was_renewed(store: Store, passes: Passes) -> None:
    """Or one of a node that is gone counts until a clock that was set back has caught up."""

    async def until() -> str:
        (node,) = (await store.survey()).nodes
        return node.until

    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"", [], TTL_MS)
    before = await until()
    assert before
    assert await until() == before
    await passes(TTL_MS // 2)
    await store.renew("ann", b"", [], TTL_MS)
    assert await until() != before


async def test_lease_and_node_from_before_the_clock_was_set_back_are_not_waited_for(
    store: Store, passes: Passes
) -> None:
    """Or their shards had no node until the clock has caught up, a day later perhaps."""
    lease = await claimed(store)
    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"", [lease], TTL_MS)
    await passes(-2 * LEASE_MS_MAX)
    survey = await store.survey()
    assert [node.is_valid for node in survey.nodes] == [False]
    assert [each.is_valid for each in survey.leases] == [False]
    assert (await claimed(store, owner="bob")).fence > lease.fence


async def test_no_lease_can_be_longer_than_the_store_believes() -> None:
    (setting,) = (each for each in SETTINGS if each.key == "shard.lease.ms")
    assert setting.at_most == LEASE_MS_MAX


async def test_released_shard_can_be_claimed_at_once(store: Store) -> None:
    lease = await claimed(store)
    await store.release([lease])
    assert await held(store) == []
    assert (await claimed(store, owner="bob")).fence > lease.fence


async def test_released_lease_writes_no_more(store: Store) -> None:
    lease = await claimed(store)
    await store.release([lease])
    with pytest.raises(FencedError, match="no node holds shard 0"):
        await store.append(lease, [(b"a", b"1")])


async def test_released_lease_stays_released(store: Store) -> None:
    lease = await claimed(store)
    await store.release([lease])
    await store.release([lease])
    assert await store.renew("ann", b"", [lease], TTL_MS) == []
    assert await held(store) == []


async def test_release_of_a_lost_lease_changes_nothing(store: Store, passes: Passes) -> None:
    lost = await claimed(store)
    await passes(TTL_MS)
    kept = await claimed(store, owner="bob")
    await store.release([lost])
    assert await held(store) == [known(kept)]
    await store.append(kept, [(b"a", b"1")])


async def test_leases_are_listed_by_shard(store: Store, other: Store) -> None:
    late, early = await claimed(store, 5), await claimed(other, -1, "bob")
    assert await held(store) == [known(early), known(late)]
    assert await held(other) == [known(early), known(late)]


async def test_leases_outlive_closing(another: Another) -> None:
    async with another() as store:
        lease = await claimed(store)
    async with another() as store:
        assert await held(store) == [known(lease)]


# Nodes


async def test_a_node_is_listed_with_what_it_says(store: Store, other: Store) -> None:
    for opened, owner in ((other, "bob"), (store, "ann")):
        await opened.reserve(owner, TTL_MS)
        await opened.renew(owner, f"{owner} says".encode(), [], TTL_MS)
    listed = (await store.survey()).nodes
    assert [(each.owner, each.note) for each in listed] == [
        ("ann", b"ann says"),
        ("bob", b"bob says"),
    ]
    assert all(each.is_valid for each in listed)


async def test_what_a_node_says_last_counts(store: Store) -> None:
    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"first", [], TTL_MS)
    await store.renew("ann", b"last", [], TTL_MS)
    assert [each.note for each in (await store.survey()).nodes] == [b"last"]


async def test_a_node_that_is_silent_expires(store: Store, passes: Passes) -> None:
    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"", [], TTL_MS)
    await passes(TTL_MS)
    assert not any(each.is_valid for each in (await store.survey()).nodes)


async def test_a_node_can_be_withdrawn(store: Store) -> None:
    await store.reserve("ann", TTL_MS)
    await store.renew("ann", b"", [], TTL_MS)
    lease = await claimed(store)
    await store.withdraw("ann")
    assert (await store.survey()).nodes == ()
    assert await held(store) == [known(lease)]


async def test_a_name_is_one_process(store: Store, other: Store) -> None:
    """Or two processes would take each other's shards for their own."""
    await store.reserve("node-1", TTL_MS)

    async def live() -> None:
        while True:
            await store.renew("node-1", b"", [], TTL_MS)
            await asyncio.sleep(0.05)  # a database is asked, and has no virtual time

    living = asyncio.create_task(live())
    with pytest.raises(OwnerTakenError, match="in use as node-1"):
        await other.reserve("node-1", TTL_MS)
    living.cancel()
    await other.reserve("node-2", TTL_MS)


async def test_a_name_is_free_when_its_store_is_closed(another: Another) -> None:
    for _ in range(2):
        async with another() as store:
            await store.reserve("node-1", TTL_MS)


# Agreement


async def test_first_proposal_is_agreed_on(store: Store, other: Store) -> None:
    assert await store.agree("shards", "50") == "50"
    assert await other.agree("shards", "7") == "50"
    assert await other.agree("cluster.id", "coterie") == "coterie"


async def test_agreement_outlives_closing(another: Another) -> None:
    async with another() as store:
        await store.agree("shards", "50")
    async with another() as store:
        assert await store.agree("shards", "7") == "50"


# Life

LEASE = Lease(0, Fence(0, 1), "ann", TTL_MS)
CALLS: dict[str, Callable[[Store], Coroutine[Any, Any, object]]] = {
    "reserve": lambda store: store.reserve("ann", TTL_MS),
    "renew": lambda store: store.renew("ann", b"", [LEASE], TTL_MS),
    "withdraw": lambda store: store.withdraw("ann"),
    "survey": lambda store: store.survey(),
    "claim": lambda store: store.claim([0], "ann", TTL_MS),
    "release": lambda store: store.release([LEASE]),
    "load": lambda store: store.load(0),
    "append": lambda store: store.append(LEASE, [(b"a", b"1")]),
    "agree": lambda store: store.agree("shards", "50"),
}


@pytest.mark.parametrize("call", CALLS)
async def test_store_must_be_open(another: Another, call: str) -> None:
    store = another()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"is not open$"):
            await CALLS[call](store)
        async with store:
            pass


async def test_opening_and_closing_twice_is_no_harm(another: Another) -> None:
    store = another()
    await store.open()
    await store.open()
    await claimed(store)
    await store.close()
    await store.close()
    async with store:
        assert len(await held(store)) == 1


async def test_closing_finishes_what_was_begun(another: Another) -> None:
    async with another() as store:
        lease = await claimed(store)
        appends = [
            asyncio.create_task(store.append(lease, [(b"%02d" % number, b"1")]))
            for number in range(50)
        ]
        await asyncio.sleep(0)
    assert await asyncio.gather(*appends) == [None] * 50
    async with another() as store:
        assert len(await store.load(0)) == 50
