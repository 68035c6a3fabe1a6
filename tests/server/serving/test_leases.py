"""A node acts as the owner of its shards only while no other node can be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import pytest
import pytest_asyncio

from coterie_server.address import Address
from coterie_server.serving import (
    Cluster,
    LeaseKeeper,
    LeaseTerms,
    LeaseTrust,
    NodeNote,
)
from coterie_server.serving import leases as leases_module
from coterie_server.storage import Lease, MemoryStore, StoreError, Survey

pytestmark = pytest.mark.asyncio

TTL_MS = 9_000
SHARDS = range(4)


class Time:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.s = 1_000.0
        #: By how much the store's clock was set forward.
        self.store_ahead_s = 0.0

    def ms(self) -> int:
        """The same for the store."""
        return int((self.s + self.store_ahead_s) * 1000)


class UnreliableStore(MemoryStore):
    """A store that renews no leases when it is told not to, or takes its time."""

    error: Exception | None = None
    gate: asyncio.Event | None = None
    claims: asyncio.Event | None = None
    releases: asyncio.Event | None = None
    #: Raised by releases, which have no effect.
    locked: Exception | None = None
    #: Has time pass while it renews, and while it is looked at.
    passes: Callable[[], None] = staticmethod(lambda: None)
    #: Raised by claims that have taken effect, as when only their answer is lost.
    lost_answer: Exception | None = None
    #: Raised by claims that don't.
    lost_request: Exception | None = None

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Claim, and answer when the test says so."""
        if self.lost_request is not None:
            raise self.lost_request
        taken = await super().claim(shards, owner, ttl_ms)
        if self.claims is not None:
            await self.claims.wait()
        if self.lost_answer is not None:
            raise self.lost_answer
        return taken

    async def release(self, leases: Iterable[Lease]) -> None:
        """Release, and answer when the test says so."""
        if self.releases is not None:
            await self.releases.wait()
        if self.locked is not None:
            raise self.locked
        await super().release(leases)

    async def withdraw(self, owner: str) -> None:
        """Withdraw, or not."""
        if self.error is not None:
            raise self.error
        await super().withdraw(owner)

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Renew, or not."""
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.passes()
        return await super().renew(owner, note, leases, ttl_ms)

    async def survey(self) -> Survey:
        """Tell what there is."""
        self.passes()
        return await super().survey()


class RecordingHolder:
    """Records the calls of a lease keeper."""

    def __init__(self, node_id: int, ttl_ms: int) -> None:
        self.node_id, self.ttl_ms = node_id, ttl_ms
        self.told: list[str] = []
        #: Wakes the other node.
        self.woken: Callable[[], None] = lambda: None
        #: What a node waits for before it lets go of a shard.
        self.gate: asyncio.Event | None = None
        #: The shards in which groups are about to begin.
        self.forming: set[int] = set()

    def note(self, *, is_settled: bool, is_leaving: bool) -> bytes:
        """Say where the node is."""
        addresses = {"": Address(f"h{self.node_id}", 9092)}
        note = NodeNote(self.node_id, addresses, is_settled, is_leaving, lease_ms=self.ttl_ms)
        return note.to_bytes()

    def lost(self, shard: int) -> None:
        """Note it."""
        self.told.append(f"lost {shard}")

    def gained(self, lease: Lease, how: str, owner: str) -> None:
        """Note it."""
        self.told.append(f"gained {lease.shard}: {how}" + (f" of {owner}" if owner else ""))

    def is_forming(self, shard: int) -> bool:
        """Say so if the test does."""
        return shard in self.forming

    async def give_up(self, shard: int) -> None:
        """Note it, and wait."""
        self.told.append(f"gives {shard}")
        if self.gate is not None:
            await self.gate.wait()

    async def wake_others(self) -> None:
        """Note it, and have the other node look."""
        self.told.append("wakes others")
        self.woken()

    def looked(self) -> None:
        """Do nothing."""

    def confirmed(self) -> None:
        """Note it."""
        self.told.append("confirmed")

    def doubted(self) -> None:
        """Note it."""
        self.told.append("doubted")


def store_of(harness: Harness) -> UnreliableStore:
    """Its store, to be made to fail."""
    assert isinstance(harness.store, UnreliableStore)
    return harness.store


def trouble_of(harness: Harness) -> str:
    """What operators are told."""
    return harness.keeper.troubles.sentence


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as an error."""
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


async def turns(number: int = 30) -> None:
    """Let the loop turn so often."""
    for _ in range(number):
        await asyncio.sleep(0)


class Harness:
    """A keeper of three shards."""

    def __init__(
        self,
        time: Time,
        store: MemoryStore,
        node_id: int = 1,
        ttl_ms: int = TTL_MS,
        look_every_ms: int = TTL_MS,
    ) -> None:
        self.time, self.store, self.holder = time, store, RecordingHolder(node_id, ttl_ms)
        self.trust = LeaseTrust(lambda: self.time.s)
        owner = f"node-{node_id}"
        self.cluster = Cluster(owner)
        terms = LeaseTerms(owner, ttl_ms, look_every_ms=look_every_ms)
        self.keeper = LeaseKeeper(store, terms, self.trust, self.cluster, self.holder)

    async def begin(self) -> None:
        """Join, and keep the leases."""
        await self.keeper.join(SHARDS)
        self.keeper.start()

    async def renewed(self) -> list[str]:
        """What is told when the keeper is asked to look after the leases."""
        self.holder.told.clear()
        self.trust.doubt()
        await turns()
        return self.holder.told

    async def steal(self, shard: int, ttl_ms: int = TTL_MS) -> None:
        """Have another node take a shard, as it may once the lease has run out."""
        assert await self.store.claim([shard], "node-2", ttl_ms)

    async def held(self) -> list[int]:
        """The shards that are this node's, by the store."""
        leases = (await self.store.survey()).leases
        return [each.shard for each in leases if each.owner == f"node-{self.holder.node_id}"]


@pytest_asyncio.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """A keeper at work."""
    monkeypatch.setattr(leases_module, "_RETRY_S", 3_600.0)
    time = Time()
    async with UnreliableStore(time.ms) as store:
        harness = Harness(time, store)
        await harness.begin()
        yield harness
        await harness.keeper.stop()


async def outlast(harness: Harness) -> None:
    """Let pass for how long a lease of another node is respected that was just seen."""
    for _ in range(2):
        await harness.renewed()
        harness.time.s += TTL_MS / 1000 * 0.49


@pytest_asyncio.fixture
async def other(harness: Harness) -> AsyncIterator[Harness]:
    """A second node on the same store, which has just come."""
    async with harness.store.twin() as store:
        other = Harness(harness.time, store, node_id=2)
        await other.begin()
        yield other
        await other.keeper.stop()


async def test_trust_ends_before_the_lease_does(harness: Harness) -> None:
    """A tenth before: until then no other node can have the shards, whatever clocks do."""
    harness.time.s += TTL_MS * 0.9 / 1000 - 0.001
    assert harness.trust.holds
    harness.time.s += 0.002
    assert not harness.trust.holds


async def test_trust_counts_from_before_the_store_was_asked(harness: Harness) -> None:
    """An answer that took long is worth less."""
    store_of(harness).gate = gate = asyncio.Event()
    asking = asyncio.ensure_future(harness.renewed())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    harness.time.s += 5.0
    gate.set()
    assert await asking == ["confirmed"]
    harness.time.s += TTL_MS * 0.9 / 1000 - 5.0 + 0.001
    assert not harness.trust.holds


async def test_a_renewal_restores_trust(harness: Harness) -> None:
    """After a pause in which no other node claimed the shards, the node goes on."""
    harness.time.s += 60.0
    assert not harness.trust.holds
    assert await harness.renewed() == ["confirmed"]
    assert harness.trust.holds


async def test_a_shard_that_another_node_took_is_lost_and_the_others_stay(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.time.s += 60.0
    await harness.steal(1)
    assert await harness.renewed() == ["lost 1", "confirmed"]
    assert errors_in(caplog) == ["shards are lost to other nodes count=1 shards=[1]"]


async def test_a_lost_shard_is_taken_back_when_its_new_lease_has_ended(harness: Harness) -> None:
    harness.time.s += 60.0
    await harness.steal(1)
    await harness.renewed()
    for _ in range(3):
        harness.time.s += 2.5
        assert await harness.renewed() == ["confirmed"]
    harness.time.s += 2.5
    assert await harness.renewed() == ["confirmed", "gained 1: expired of node-2"]


async def test_a_process_of_the_same_name_is_another_one_all_the_same(harness: Harness) -> None:
    """Two processes that take their shards from each other would never end."""
    assert await harness.store.claim([1], "node-1", TTL_MS)
    assert await harness.renewed() == ["lost 1", "confirmed"]
    assert await harness.renewed() == ["confirmed"]


async def test_a_store_that_fails_leaves_doubt_until_it_works_again(harness: Harness) -> None:
    store_of(harness).error = StoreError("the disk is full")
    assert await harness.renewed() == ["doubted"]
    assert "leases on its shards can't be renewed: the disk is full" in trouble_of(harness)
    store_of(harness).error = None
    assert await harness.renewed() == ["confirmed"]
    assert trouble_of(harness) == ""


async def test_what_the_store_did_not_take_is_said_again_with_the_next_look() -> None:
    """Others wait for it, and leases may be renewed some minutes later only."""
    time = Time()
    async with UnreliableStore(time.ms) as store:
        eager = Harness(time, store, look_every_ms=100)
        await eager.begin()
        store.error = StoreError("the database does not answer")
        eager.keeper.announce()
        await turns()
        assert eager.holder.told[-1] == "doubted"
        store.error = None
        eager.keeper.look_soon()
        await asyncio.sleep(leases_module._HINT_S)  # noqa: SLF001  # how long a hint takes
        await turns()
        assert eager.holder.told[-1] == "confirmed"
        assert trouble_of(eager) == ""
        await eager.keeper.stop()


@pytest.fixture
def impatient(harness: Harness) -> Iterator[None]:
    """Have what is waited for with patience seem to take too long at once."""
    del harness  # which begins before, and ends afterwards
    real = asyncio.wait

    async def impatient(tasks: Iterable[asyncio.Future[object]], timeout: float) -> object:  # noqa: ASYNC109  # asyncio's own
        assert timeout > 0
        return await real(set(tasks), timeout=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "wait", impatient)
        yield


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_does_not_answer_leaves_doubt(harness: Harness) -> None:
    """A request does not have to wait for as long as the store does."""
    store_of(harness).gate = gate = asyncio.Event()
    assert "doubted" in await harness.renewed()
    assert "does not answer" in trouble_of(harness)
    gate.set()
    assert "confirmed" in await harness.renewed()


@pytest.mark.usefixtures("impatient")
async def test_a_store_that_fails_in_turns_is_told_of_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """It is silent before each failure: the two by turns would fill the log of a long outage."""
    store = store_of(harness)
    store.error = StoreError("it takes no more connections")
    for _ in range(3):
        store.gate = asyncio.Event()
        await harness.renewed()
        store.gate.set()
        await turns()
    store.gate = store.error = None
    assert [each.getMessage() for each in caplog.records] == [
        "leases can't be renewed error='the store does not answer'",
        "leases can't be renewed error='it takes no more connections'",
    ]


async def test_a_shard_is_claimed_again_when_an_append_has_failed(harness: Harness) -> None:
    before = (await harness.store.survey()).leases[1]
    lease = await harness.keeper.claim_again(1)
    assert lease is not None
    assert lease.fence > before.fence
    assert await harness.renewed() == ["confirmed"]


async def test_shards_are_claimed_again_together(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or half of all, when a connection is lost, would take longer than a lease on a slow network.

    And those that wait for it keep their leases.
    """
    harness.time.s += 60.0
    await harness.steal(3)
    store = store_of(harness)
    asked = Counter[str]()

    async def survey() -> Survey:
        asked["survey"] += 1
        return await MemoryStore.survey(store)

    async def claim(shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        asked["claim"] += 1
        return await MemoryStore.claim(store, shards, owner, ttl_ms)

    monkeypatch.setattr(store, "survey", survey)
    monkeypatch.setattr(store, "claim", claim)
    again = await asyncio.gather(*map(harness.keeper.claim_again, SHARDS))
    assert [lease and lease.shard for lease in again] == [0, 1, 2, None]
    assert asked == {"survey": 1, "claim": 1}
    assert await harness.renewed() == ["confirmed"]


async def test_who_gives_up_waiting_for_a_claim_costs_the_others_nothing(
    harness: Harness,
) -> None:
    store_of(harness).claims = gate = asyncio.Event()
    first, second = (asyncio.ensure_future(harness.keeper.claim_again(each)) for each in (1, 2))
    await turns()
    first.cancel()
    await turns()
    gate.set()
    assert await second is not None
    store_of(harness).claims = None
    assert "lost 1" in await harness.renewed()  # nobody serves it under the new lease
    told = [each for _ in range(3) for each in await harness.renewed()]
    assert any(each.startswith("gained 1") for each in told), told


async def test_a_claim_whose_answer_comes_as_it_is_given_up_leaves_no_lease(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody would serve the shard until that has expired."""
    store = store_of(harness)

    async def claim(shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        taken = await MemoryStore.claim(store, shards, owner, ttl_ms)
        asyncio.get_running_loop().call_soon(claiming.cancel)
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(store, "claim", claim)
        claiming = asyncio.ensure_future(harness.keeper.claim_again(1))
        await turns()
    assert claiming.cancelled()
    told = [each for _ in range(3) for each in await harness.renewed()]
    assert any(each.startswith("gained 1") for each in told), told


async def test_a_failed_claim_fails_all_who_wait_for_it(harness: Harness) -> None:
    store_of(harness).lost_request = StoreError("the connection is gone")
    claims = [harness.keeper.claim_again(each) for each in SHARDS]
    errors = await asyncio.gather(*claims, return_exceptions=True)
    assert [str(error) for error in errors] == ["the connection is gone"] * len(SHARDS)
    assert len(set(map(id, errors))) == len(SHARDS)
    store_of(harness).lost_request = None
    assert await harness.keeper.claim_again(2) is not None


async def test_trust_in_a_claim_counts_from_before_the_store_was_asked(harness: Harness) -> None:
    """However often the other leases are renewed before its answer comes."""
    store_of(harness).claims = gate = asyncio.Event()
    claim = asyncio.ensure_future(harness.keeper.claim_again(1))
    await turns()
    for _ in range(3):
        harness.time.s += TTL_MS / 3000
        assert "confirmed" in await harness.renewed()
    assert harness.trust.holds
    gate.set()
    assert await claim is not None
    assert not harness.trust.holds  # another node can have the shard by now
    assert "confirmed" in await harness.renewed()
    assert harness.trust.holds


@pytest.mark.parametrize("is_renewed_first", [True, False])
async def test_a_shard_that_is_claimed_again_during_a_renewal_is_not_lost(
    harness: Harness, caplog: pytest.LogCaptureFixture, *, is_renewed_first: bool
) -> None:
    """Whichever the store does first: the claim is what counts."""
    store = store_of(harness)
    store.gate, store.claims = renewal, claim = asyncio.Event(), asyncio.Event()
    await harness.renewed()
    if is_renewed_first:
        renewal.set()
    claiming = asyncio.create_task(harness.keeper.claim_again(1))
    await turns()
    renewal.set()
    await turns()
    assert "confirmed" in harness.holder.told
    claim.set()
    lease = await claiming
    assert lease is not None
    harness.holder.told.clear()
    assert await harness.renewed() == ["confirmed"]
    assert errors_in(caplog) == []
    assert await harness.held() == [0, 1, 2, 3]


async def test_a_shard_that_was_lost_is_not_claimed_again(harness: Harness) -> None:
    harness.time.s += 60.0
    await harness.steal(1)
    assert await harness.keeper.claim_again(1) is None
    assert await harness.keeper.claim_again(1) is None
    assert await harness.renewed() == ["confirmed"]


async def test_a_shard_that_was_lost_is_not_claimed_again_though_its_lease_has_expired(
    harness: Harness,
) -> None:
    """By the store's clock, which was set forward: its owner goes on by a clock of its own."""
    harness.time.s += 60.0
    await harness.steal(1)
    taken = (await harness.store.survey()).leases[1]
    harness.time.store_ahead_s += 60.0
    assert await harness.keeper.claim_again(1) is None
    after = (await harness.store.survey()).leases[1]
    assert not after.is_valid
    assert (after.fence, after.owner) == (taken.fence, taken.owner)


# Several nodes


async def test_a_node_that_comes_is_given_nothing_before_it_has_settled(
    harness: Harness, other: Harness
) -> None:
    """One that starts and dies again and again would have shards move for nothing."""
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]
    assert await other.held() == []


async def share(harness: Harness, other: Harness, rounds: int = 6) -> None:
    """Let two nodes look at each other so often, for more than a lease."""
    for _ in range(rounds):
        harness.time.s += TTL_MS / 3000
        await other.renewed()
        await harness.renewed()


async def test_two_nodes_have_half_of_the_shards_each(harness: Harness, other: Harness) -> None:
    await share(harness, other)
    assert (await harness.held(), await other.held()) == ([0, 1], [2, 3])


async def test_shards_are_given_one_after_another(harness: Harness, other: Harness) -> None:
    """Most are served all the time, however many are to move."""
    await pass_renewals(2, harness, other)
    harness.time.s += TTL_MS / 3000
    await harness.renewed()
    await other.renewed()
    told = await harness.renewed()
    assert [each for each in told if each.startswith("gives")] == ["gives 3"]


async def test_shards_in_which_groups_begin_stay_while_others_can_be_given(
    harness: Harness, other: Harness
) -> None:
    """Those who have joined already would have to join again, and wait as long again."""
    harness.holder.forming = {3}
    await share(harness, other)
    assert (await harness.held(), await other.held()) == ([0, 3], [1, 2])


async def test_shards_in_which_groups_begin_are_given_when_they_have_begun(
    harness: Harness, other: Harness
) -> None:
    harness.holder.forming = set(SHARDS)
    await share(harness, other)
    assert await other.held() == []
    harness.holder.forming = {2}
    await share(harness, other, rounds=3)
    assert await other.held() == [1, 3]


async def test_shards_in_which_groups_begin_all_the_time_are_given_at_last(
    harness: Harness, other: Harness
) -> None:
    harness.holder.forming = set(SHARDS)
    await pass_renewals(13, harness, other)
    assert await other.held() == []
    await pass_renewals(4, harness, other)
    assert await other.held() == [2, 3]


async def test_a_node_that_leaves_hands_over_shards_in_which_groups_begin(
    harness: Harness, other: Harness
) -> None:
    harness.holder.forming = set(SHARDS)
    harness.holder.woken = other.keeper.look_soon
    await pass_renewals(2, harness, other)
    await harness.keeper.leave()
    assert await other.held() == [0, 1, 2, 3]


async def test_a_shard_is_free_only_when_nothing_more_is_written_to_it(
    harness: Harness, other: Harness
) -> None:
    harness.holder.gate = gate = asyncio.Event()
    await share(harness, other)
    assert await other.held() == []
    assert await harness.held() == [0, 1, 2, 3]
    gate.set()
    await turns()
    assert "gained 3: handed_over of node-1" in await other.renewed()


async def test_a_shard_that_was_claimed_again_as_it_is_given_is_free_all_the_same(
    harness: Harness, other: Harness
) -> None:
    """That claim's answer was lost, so what is released is the lease before it, which is over."""
    harness.holder.gate = gate = asyncio.Event()
    await share(harness, other)
    store_of(harness).lost_answer = StoreError("the connection is gone")
    with pytest.raises(StoreError):
        await harness.keeper.claim_again(3)
    store_of(harness).lost_answer = None
    gate.set()
    await turns()
    await harness.renewed()
    assert "gained 3: handed_over of node-1" in await other.renewed()


async def test_a_node_that_stops_leaves_its_shards_to_the_others(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    await other.keeper.stop()
    assert {f"gained {shard}: handed_over of node-2" for shard in (2, 3)} <= set(
        await harness.renewed()
    )
    assert harness.cluster.others == []


async def test_a_claim_that_is_under_way_as_the_node_stops_is_given_back(harness: Harness) -> None:
    """Or the shard would wait until its lease has expired."""
    harness.time.s += 60.0
    await harness.steal(0, ttl_ms=1_000)
    await harness.renewed()
    await outlast(harness)
    answer = store_of(harness).claims = asyncio.Event()
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]  # claimed, and not answered yet
    stopping = asyncio.create_task(harness.keeper.stop())
    await turns()
    answer.set()
    await stopping
    assert await harness.held() == []
    assert "gained 0" not in harness.holder.told


async def test_a_claim_that_is_given_up_as_the_node_stops_leaves_no_lease(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have taken effect, though its answer is not waited for any more."""
    harness.time.s += 60.0
    await harness.steal(0, ttl_ms=1_000)
    await harness.renewed()
    await outlast(harness)
    store_of(harness).claims = asyncio.Event()
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]
    monkeypatch.setattr(harness.keeper, "_renew_every_s", 0.0)
    await harness.keeper.stop()
    assert await harness.held() == []


async def test_a_shard_that_is_claimed_anew_as_the_node_stops_is_given_up(harness: Harness) -> None:
    store_of(harness).claims = asyncio.Event()
    claim = asyncio.ensure_future(harness.keeper.claim_again(1))
    await turns()
    claim.cancel()
    await harness.keeper.stop()
    assert await harness.held() == []


async def test_a_shard_that_is_being_released_as_the_node_stops_is_given_up(
    harness: Harness, other: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of(harness).releases = gate = asyncio.Event()
    await pass_renewals(2, harness, other)
    harness.time.s += TTL_MS / 3000
    await other.renewed()
    assert "gives 3" in await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]
    monkeypatch.setattr(harness.keeper, "_renew_every_s", 0.0)
    stopping = asyncio.create_task(harness.keeper.stop())
    await turns()
    gate.set()
    await stopping
    assert await harness.held() == []


async def lose_an_answer(harness: Harness, *others: int) -> None:
    """Have a node claim shard 0 of one that has others, too, and hear nothing of it."""
    harness.time.s += 60.0
    await harness.steal(0, ttl_ms=1_000)
    for shard in others:
        await harness.steal(shard)
    await harness.renewed()
    await outlast(harness)
    store_of(harness).lost_answer = StoreError("the connection is gone")
    await harness.renewed()
    store_of(harness).lost_answer = None


async def test_a_claim_whose_answer_is_lost_is_given_back_and_made_again(harness: Harness) -> None:
    """Or no node would serve the shard until its lease has expired."""
    await lose_an_answer(harness)
    assert await harness.held() == [0, 1, 2, 3]
    told = [*await harness.renewed(), *await harness.renewed()]
    assert [each for each in told if each.startswith("gained")] == [
        "gained 0: handed_over of node-2"
    ]
    assert await harness.held() == [0, 1, 2, 3]


async def test_who_had_a_shard_is_known_though_to_give_it_away_was_in_doubt(
    harness: Harness, other: Harness
) -> None:
    """Or what another node did with it meanwhile would be taken for this node's own doing."""
    store_of(harness).locked = StoreError("the connection is gone")
    await share(harness, other)
    store_of(harness).locked = None
    await share(harness, other)
    assert await other.held() == [2, 3]
    harness.holder.told.clear()
    other.holder.woken = harness.keeper.look_soon
    await other.keeper.leave()
    assert "gained 3: handed_over of node-2" in harness.holder.told


async def test_a_shard_that_cant_be_given_back_keeps_a_node_from_nothing_else(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """As while a transaction that is stuck holds its row; its lease lasts on, and may be long."""
    await lose_an_answer(harness, 1)
    store_of(harness).locked = StoreError("another transaction held a row for too long")
    harness.time.s += TTL_MS / 1000 * 0.2
    assert "gained 1: expired of node-2" in await harness.renewed()
    assert harness.cluster.is_mine(1)
    assert trouble_of(harness) == ""
    assert not any("can't be renewed" in each.getMessage() for each in caplog.records)


async def test_a_shard_that_cant_be_claimed_keeps_a_node_from_giving_none_back(
    harness: Harness,
) -> None:
    await lose_an_answer(harness, 1)
    assert 0 in await harness.held()
    store_of(harness).lost_request = StoreError("another transaction held a row for too long")
    harness.time.s += TTL_MS / 1000 * 0.2
    await harness.renewed()
    assert 0 not in await harness.held()


async def test_a_claim_that_is_under_way_is_not_given_back_for_an_earlier_one(
    harness: Harness,
) -> None:
    harness.time.s += 60.0
    await harness.steal(0, ttl_ms=1_000)
    await harness.renewed()
    await outlast(harness)
    store_of(harness).lost_request = StoreError("the connection is gone")
    await harness.renewed()
    store_of(harness).lost_request = None
    store_of(harness).claims = answer = asyncio.Event()
    await harness.renewed()
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]
    answer.set()
    assert "gained 0: expired of node-2" in await harness.renewed()


async def test_a_node_stops_though_its_store_is_away(harness: Harness) -> None:
    """Its leases expire by themselves."""
    store_of(harness).error = StoreError("the database does not answer")
    await harness.keeper.stop()
    assert await harness.held() == [0, 1, 2, 3]
    harness.time.s += TTL_MS / 1000
    assert not any(lease.is_valid for lease in (await harness.store.survey()).leases)


async def test_a_node_does_not_wait_for_a_silent_store_for_longer_than_its_leases_last(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.store.twin() as store:
        third = Harness(harness.time, store, node_id=3, ttl_ms=50)
        await third.begin()
        monkeypatch.setattr(store, "withdraw", silent)
        async with asyncio.timeout(60):
            await third.keeper.stop()


async def silent(_owner: str) -> None:
    """Hear nothing of the store, nor that there is no connection."""
    await asyncio.Event().wait()


async def test_the_shards_of_a_dead_node_are_taken_when_its_leases_end(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    for _ in range(3):
        harness.time.s += TTL_MS / 1000 / 3 - 0.001
        await harness.renewed()
    assert await harness.held() == [0, 1]
    harness.time.s += 0.004
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]


async def test_the_shards_of_a_dead_node_are_taken_though_another_one_has_just_come(
    harness: Harness, other: Harness
) -> None:
    """As where a new process takes a dead one's place; it gets its share of them later."""
    await share(harness, other)
    await pass_renewals(2, harness)
    async with harness.store.twin() as store:
        newcomer = Harness(harness.time, store, node_id=3)
        await newcomer.begin()
        await pass_renewals(2, harness, newcomer)
        assert await shares(harness) == {"node-1": 4}
        await pass_renewals(5, harness, newcomer)
        assert await shares(harness) == {"node-1": 2, "node-3": 2}
        await newcomer.keeper.stop()


async def test_the_shards_of_a_dead_node_are_taken_though_the_store_is_slow(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)

    def pass_a_part() -> None:
        harness.time.s += TTL_MS / 1000 * 0.25

    store_of(harness).passes = pass_a_part
    for _ in range(4):
        await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]


async def test_the_shards_of_a_dead_node_are_left_to_none_that_does_not_see_them(
    harness: Harness, other: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the database is so far away that renewals are answered in time, and looks are not.

    They would be left to that node, and no node would serve them.
    """
    async with harness.store.twin() as store:
        third = Harness(harness.time, store, node_id=3)
        await third.begin()
        await pass_renewals(12, harness, other, third)
        assert await shares(harness) == {"node-1": 2, "node-2": 1, "node-3": 1}
        with monkeypatch.context() as patch:
            patch.setattr(other.store, "survey", unanswered)
            await pass_renewals(6, harness, other)
            assert await shares(harness) == {"node-1": 3, "node-2": 1}
        await pass_renewals(6, harness, other)
        assert await shares(harness) == {"node-1": 2, "node-2": 2}
        await third.keeper.stop()


async def test_a_node_that_does_not_see_the_others_is_not_said_to_lose_its_leases(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its leases are renewed each time, which would be told as the end of the trouble."""
    with monkeypatch.context() as patch:
        patch.setattr(harness.store, "survey", unanswered)
        for _ in range(3):
            assert "confirmed" in await harness.renewed()
            assert "can't be seen: it did not answer in time" in trouble_of(harness)
    await harness.renewed()
    assert trouble_of(harness) == ""
    assert [each.getMessage() for each in caplog.records] == [
        "other nodes can't be seen error='it did not answer in time'",
        "other nodes are seen again",
    ]


async def shares(harness: Harness) -> dict[str, int]:
    """How many shards each node has, as one of them sees it."""
    return Counter(lease.owner for lease in (await harness.store.survey()).leases)


async def unanswered() -> Survey:
    """Look at a store that does not answer in time."""
    raise StoreError("it did not answer in time")


async def test_store_that_was_away_from_all_nodes_leaves_each_its_shards(
    harness: Harness, other: Harness
) -> None:
    """Or the first one to come back would take all shards, and all groups would move twice."""
    await share(harness, other)
    harness.time.s += 2 * TTL_MS / 1000  # all leases have run out
    assert await harness.renewed() == ["confirmed"]
    assert await harness.held() == [0, 1]
    assert await other.renewed() == ["confirmed"]
    assert await other.held() == [2, 3]
    harness.time.s += TTL_MS / 1000 / 3
    assert await harness.renewed() == ["confirmed"]


async def test_node_that_does_not_come_back_with_the_store_is_not_waited_for(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    harness.time.s += 2 * TTL_MS / 1000
    for _ in range(3):
        await harness.renewed()
        assert await harness.held() == [0, 1]
        harness.time.s += TTL_MS / 1000 / 3
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]


async def pass_renewals(count: int, *harnesses: Harness) -> None:
    """Let time pass in which some nodes renew their leases."""
    for _ in range(count):
        harnesses[0].time.s += TTL_MS / 1000 / 3
        for each in harnesses:
            await each.renewed()


async def pauses(harness: Harness, other: Harness) -> None:
    """Let the second node pause until the first has taken its shards."""
    await pass_renewals(4, harness)
    assert await other.held() == []
    await other.renewed()


async def test_node_that_loses_its_shards_again_and_again_is_given_them_ever_later(
    harness: Harness, other: Harness
) -> None:
    """Each time, their groups are away for as long as its leases last."""
    await share(harness, other)
    for renewals in (6, 12, 20, 20):  # of which a minute has twenty
        await pauses(harness, other)
        await pass_renewals(renewals - 1, other, harness)
        assert await other.held() == []
        await pass_renewals(4, other, harness)
        assert await other.held() == [2, 3]


async def test_node_that_was_paused_once_is_soon_given_shards_again(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    for _ in range(2):
        await pass_renewals(100, other, harness)
        await pauses(harness, other)
        await pass_renewals(2, other, harness)
        assert await other.held() == []
        await pass_renewals(4, other, harness)
        assert await other.held() == [2, 3]


async def test_node_on_trial_keeps_what_no_other_took(harness: Harness, other: Harness) -> None:
    await share(harness, other)
    harness.time.s += TTL_MS / 1000
    assert await other.renewed() == ["confirmed"]
    await pass_renewals(2, harness, other)
    assert (await harness.held(), await other.held()) == ([0, 1], [2, 3])


async def test_clock_of_the_store_that_is_set_forward_takes_no_shards_from_the_living(
    harness: Harness, other: Harness
) -> None:
    """They trust their leases by clocks of their own, and go on to answer."""
    await share(harness, other)
    await pass_renewals(1, harness, other)
    harness.time.store_ahead_s = 60
    assert await harness.renewed() == ["confirmed"]
    assert other.trust.holds
    assert await other.held() == [2, 3]
    await pass_renewals(4, harness, other)
    assert await other.held() == [2, 3]


async def test_clock_that_is_set_forward_takes_no_shards_from_a_node_with_longer_leases(
    harness: Harness,
) -> None:
    """It renews them more seldom, and trusts them for longer, than the other one's would last."""
    async with harness.store.twin() as store:
        patient = Harness(harness.time, store, node_id=2, ttl_ms=10 * TTL_MS)
        await patient.begin()
        await pass_renewals(36, harness, patient)
        assert await patient.held() == [2, 3]
        harness.time.store_ahead_s = 3_600
        await pass_renewals(26, harness)
        assert patient.trust.holds
        assert await patient.held() == [2, 3]
        await pass_renewals(4, harness)
        assert await harness.held() == [0, 1, 2, 3]
        await patient.keeper.stop()


async def test_node_that_dies_as_the_clock_is_set_forward_is_followed_a_lease_later(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    await pass_renewals(1, harness, other)
    harness.time.store_ahead_s = 60
    await harness.renewed()
    await pass_renewals(2, harness)
    assert await harness.held() == [0, 1]
    await pass_renewals(1, harness)
    assert await harness.held() == [0, 1, 2, 3]


async def test_newcomer_respects_leases_that_it_has_not_seen_run_down(harness: Harness) -> None:
    """Their owner may be there, and the clock have been set forward just now."""
    harness.time.store_ahead_s = 60
    async with harness.store.twin() as store:
        newcomer = Harness(harness.time, store, node_id=2)
        await newcomer.begin()
        assert await newcomer.held() == []
        await pass_renewals(2, newcomer)
        assert await newcomer.held() == []
        await pass_renewals(1, newcomer)
        assert await newcomer.held() == [0, 1, 2, 3]
        await newcomer.keeper.stop()


async def test_a_process_takes_what_its_former_life_had(harness: Harness) -> None:
    """Its name was reserved, so that life has ended."""
    harness.store.give_up_names()
    async with harness.store.twin() as store:
        again = Harness(harness.time, store)
        assert sorted(await again.keeper.join(SHARDS)) == [0, 1, 2, 3]


async def test_nodes_know_where_the_others_are(harness: Harness, other: Harness) -> None:
    await share(harness, other)
    owner = harness.cluster.owner_of(3)
    assert owner is not None
    assert owner.addresses == {"": Address("h2", 9092)}
    assert harness.cluster.owner_of(0) is None
    assert other.cluster.owner_of(0) is not None


async def test_shard_whose_claim_is_under_way_at_the_end_is_given_up(harness: Harness) -> None:
    """Once it was left leased to a node that had stopped."""
    harness.time.s += 60.0
    await harness.steal(1, ttl_ms=1_000)
    assert await harness.renewed() == ["lost 1", "confirmed"]
    await outlast(harness)
    store_of(harness).claims = gate = asyncio.Event()
    await harness.renewed()
    assert await harness.held() == [0, 1, 2, 3]
    stopping = asyncio.ensure_future(harness.keeper.stop())
    await turns()
    gate.set()
    await stopping
    assert await harness.held() == []


async def test_node_that_is_about_to_stop_claims_nothing(harness: Harness) -> None:
    harness.time.s += 60.0
    await harness.steal(1, ttl_ms=1_000)
    await harness.renewed()
    await outlast(harness)
    harness.keeper.claim_no_more()
    await harness.renewed()
    assert await harness.held() == [0, 2, 3]


# Leaving


async def test_node_that_leaves_hands_its_shards_over_one_after_another(
    harness: Harness, other: Harness
) -> None:
    """The next one is given only when the last one was taken, so most are served all the time."""

    async def note_free() -> None:
        free.append(sorted(set(SHARDS) - set(await harness.held()) - set(await other.held())))

    def wake() -> None:
        noting.append(asyncio.ensure_future(note_free()))
        other.keeper.look_soon()

    free: list[list[int]] = []
    noting: list[asyncio.Future[None]] = []
    await share(harness, other)
    harness.holder.told.clear()
    harness.holder.woken = wake
    await harness.keeper.leave()
    told = [each for each in harness.holder.told if each.startswith(("gives", "wakes"))]
    assert told == ["gives 1", "wakes others", "gives 0", "wakes others"]
    assert await other.held() == [0, 1, 2, 3]
    assert set(harness.cluster.owners.values()) == {"node-2"}
    await asyncio.gather(*noting)
    assert free == [[1], [0]]


async def test_shards_that_are_handed_over_during_a_renewal_are_not_lost(
    harness: Harness, other: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads the log would look for a fault."""
    await share(harness, other)
    store_of(harness).gate = gate = asyncio.Event()
    await harness.renewed()
    store_of(harness).gate = None  # the renewals to come are quick
    harness.holder.woken = other.keeper.look_soon
    await harness.keeper.leave()
    harness.holder.told.clear()
    gate.set()
    await turns()
    assert "confirmed" in harness.holder.told
    assert errors_in(caplog) == []


async def test_node_that_leaves_is_given_nothing(harness: Harness, other: Harness) -> None:
    await share(harness, other)
    other.holder.woken = harness.keeper.look_soon
    await other.keeper.leave()
    await share(harness, other)
    assert await harness.held() == [0, 1, 2, 3]


async def test_node_hands_nothing_over_to_one_that_leaves_as_well(
    harness: Harness, other: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "_TAKEN_WITHIN_S", 0.0)
    await share(harness, other)
    await other.keeper.leave()
    await harness.renewed()
    harness.holder.told.clear()
    await harness.keeper.leave()
    assert harness.holder.told == []


async def test_node_alone_hands_nothing_over(harness: Harness) -> None:
    await harness.keeper.leave()
    assert "gives 3" not in harness.holder.told
    assert await harness.held() == [0, 1, 2, 3]


async def test_node_that_leaves_keeps_what_no_other_takes(
    harness: Harness, other: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients are served until it stops, and then all that is left is free."""
    monkeypatch.setattr(leases_module, "_TAKEN_WITHIN_S", 0.02)
    await share(harness, other)
    await harness.keeper.leave()
    assert await harness.held() == [0]
    await harness.keeper.stop()
    assert await harness.held() == []


async def test_node_that_leaves_stops_though_its_store_is_away(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    store_of(harness).error = StoreError("the database does not answer")
    await harness.keeper.leave()
    assert await harness.held() == [0, 1]


async def test_node_that_leaves_gives_back_what_it_failed_to_hand_over(
    harness: Harness, other: Harness
) -> None:
    """It may stay for seconds until its members have heard, and no node would serve the shard."""
    await share(harness, other)
    store_of(harness).locked = StoreError("another transaction held a row for too long")
    await harness.keeper.leave()
    assert await harness.held() == [0, 1]
    store_of(harness).locked = None
    await harness.renewed()
    assert await harness.held() == [0]


async def test_others_need_not_look_by_themselves_for_what_a_node_gives(
    harness: Harness, other: Harness
) -> None:
    await share(harness, other)
    harness.holder.woken = other.keeper.look_soon
    other.holder.told.clear()
    await harness.keeper.stop()
    await asyncio.sleep(leases_module._HINT_S)  # noqa: SLF001  # how long a hint takes
    await turns()
    assert {f"gained {shard}: handed_over of node-1" for shard in (0, 1)} <= set(other.holder.told)


async def test_many_hints_are_worth_one_look(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any client can send them."""
    looks = 0

    async def survey() -> Survey:
        nonlocal looks
        looks += 1
        return await MemoryStore.survey(harness.store)

    monkeypatch.setattr(harness.store, "survey", survey)
    for _ in range(100):
        harness.keeper.look_soon()
        await asyncio.sleep(0)
    await asyncio.sleep(leases_module._HINT_S)  # noqa: SLF001  # how long a hint takes
    await turns()
    assert 1 <= looks < 20  # a busy machine takes several times as long


async def test_node_that_is_stopped_as_it_claims_its_first_shards_leaves_none_leased() -> None:
    time = Time()
    async with UnreliableStore(time.ms) as store:
        harness = Harness(time, store)
        store.claims = asyncio.Event()
        joining = asyncio.create_task(harness.keeper.join(SHARDS))
        await turns()
        assert await harness.held() == [0, 1, 2, 3]
        joining.cancel()
        await asyncio.wait({joining})
        await harness.keeper.stop()
        assert await harness.held() == []
        assert (await store.survey()).nodes == ()


async def test_node_whose_name_another_process_has_leaves_what_that_has_listed(
    harness: Harness,
) -> None:
    async with harness.store.twin() as store:
        same = Harness(harness.time, store)
        with pytest.raises(StoreError, match="in use as node-1"):
            await same.keeper.join(SHARDS)
        await same.keeper.stop()
    assert [node.owner for node in (await harness.store.survey()).nodes] == ["node-1"]
