"""A shard's lives: nothing of a former one reaches into the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import Event
from coterie_server.config.assembly import RandomIds
from coterie_server.group import Config, GroupCoordinator, to_stored
from coterie_server.group.records import GroupRow
from coterie_server.serving import GroupShard, LeaseTrust, NodeContext
from coterie_server.serving import reload as reload_module
from coterie_server.serving.clock import Clock
from coterie_server.serving.durable_queue import Meter
from coterie_server.storage import Lease, MemoryStore, StoreError
from coterie_server.storage.abc import KeptRecord, Record
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio


class SlowStore(MemoryStore):
    """A store whose appends wait until they are let go, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.waiting: list[asyncio.Event] = []
        self.loads = 0

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Wait to be let go."""
        taken = list(records)
        if self.is_slow:
            gate = asyncio.Event()
            self.waiting.append(gate)
            await gate.wait()
        await super().append(lease, taken)

    async def load(self, shard: int) -> list[KeptRecord]:
        """Count, and load."""
        self.loads += 1
        return await super().load(shard)

    def let_go(self) -> None:
        """Let the append go on that waits longest."""
        self.waiting.pop(0).set()


class Harness:
    """A shard with a slow store."""

    def __init__(self, store: SlowStore, lease: Lease) -> None:
        self.store, self.lease = store, lease
        self.events: list[Event] = []
        self.requests: list[Pending] = []
        self.meter = Mock(spec=Meter)
        self.observer: Callable[[int, Event], None] = lambda _ts, event: self.events.append(event)
        self.shard = self.another()

    def another(self, trust: LeaseTrust | None = None) -> GroupShard:
        """The shard as a new process has it."""
        shard = GroupShard(
            self.lease.shard,
            NodeContext(
                self.store,
                Clock(),
                trust or LeaseTrust(),
                meter=self.meter,
                observe=lambda ts, event: self.observer(ts, event),  # noqa: PLW0108  # it changes
            ),
            lambda: GroupCoordinator(Config(), RandomIds(), {"t": 4}),
        )
        shard.own(self.lease)
        return shard

    def commit(self, offset: int, partition: int = 0) -> asyncio.Future[Any]:
        """Commit an offset as a client that is in no generation."""
        entry = m.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(entry,))
        request = Pending(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 7)
        self.requests.append(request)
        self.shard.handle(request)
        return request.answer


def error_of(answer: m.OffsetCommitResponse) -> int:
    """The error for the one partition."""
    return answer.topics[0].partitions[0].error_code


def stored(shard: GroupShard) -> dict[int, int]:
    """The offset of each partition, as the shard has them in memory."""
    assert shard.core is not None
    return {n: row.offset for (_, n), row in shard.core.groups["g"].offsets.items()}


@pytest_asyncio.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """A shard that is served."""
    monkeypatch.setattr(reload_module, "RETRY_FIRST_S", 0.0)
    async with SlowStore() as store:
        (lease,) = await store.claim([0], "node-1", 10_000)
        harness = Harness(store, lease)
        await harness.shard.load()
        yield harness
        store.is_slow = False
        while store.waiting:
            store.let_go()
        await harness.shard.close()


async def turns(number: int = 20) -> None:
    """Let the loop turn so often."""
    for _ in range(number):
        await asyncio.sleep(0)


def stumble(_now_ms: int) -> Any:
    """A step that has a bug."""
    raise AssertionError("a bug")


async def test_a_shard_is_read_behind_the_last_append_of_its_former_life(harness: Harness) -> None:
    """Or a commit would be stored that memory does not know, and take a later one with it.

    One commit is in flight in a slow store, two are gathered behind it, a step raises, a commit
    comes after the shard was read again, and the process is started anew.
    """
    harness.store.is_slow = True
    first = harness.commit(1)
    await turns()
    gathered = [harness.commit(2), harness.commit(5, partition=1)]
    harness.shard.run(stumble)
    await turns()
    assert harness.store.loads == 1  # that of the start
    harness.store.let_go()
    await turns()
    assert harness.store.loads == 1
    harness.store.let_go()
    await turns()
    assert [error_of(await each) for each in (first, *gathered)] == [ErrorCode.NONE] * 3
    assert harness.store.loads == 2
    assert stored(harness.shard) == {0: 2, 1: 5}

    harness.store.is_slow = False
    assert error_of(await harness.commit(3)) == ErrorCode.NONE
    assert error_of(await harness.commit(7, partition=1)) == ErrorCode.NONE
    again = harness.another()
    await again.load()
    assert stored(again) == {0: 3, 1: 7}
    await again.close()


async def test_what_comes_between_two_lives_is_refused_and_never_stored(harness: Harness) -> None:
    harness.store.is_slow = True
    first = harness.commit(1)
    await turns()
    harness.shard.run(stumble)
    late = harness.commit(2)
    assert error_of(await late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.store.let_go()
    assert error_of(await first) == ErrorCode.NONE
    await turns()
    assert stored(harness.shard) == {0: 1}


@pytest.mark.parametrize("how", ["give_up", "close"])
async def test_a_shard_that_is_about_to_be_read_again_is_given_up_behind_its_last_append(
    harness: Harness, how: str
) -> None:
    """Or the node would tell of a commit in a shard that another one has."""
    harness.store.is_slow = True
    first = harness.commit(1)
    await turns()
    harness.shard.run(stumble)
    await turns()
    ending = asyncio.ensure_future(getattr(harness.shard, how)())
    await turns()
    assert not ending.done()
    harness.store.let_go()
    await ending
    assert error_of(await first) == ErrorCode.NONE
    told = len(harness.events)
    await turns()
    assert len(harness.events) == told


async def test_a_shard_that_is_lost_before_it_is_read_again_tells_nothing_more(
    harness: Harness,
) -> None:
    harness.store.is_slow = True
    first = harness.commit(1)
    await turns()
    harness.shard.run(stumble)
    await turns()
    harness.shard.fence()
    told = len(harness.events)
    harness.store.let_go()
    await turns()
    assert error_of(await first) == ErrorCode.NOT_COORDINATOR
    assert len(harness.events) == told


async def test_a_shard_closes_though_its_clients_go_on_committing(harness: Harness) -> None:
    """Each would be stored behind the last, and the node would never come to its end."""
    harness.store.is_slow = True
    first = harness.commit(1)
    await turns()
    closing = asyncio.create_task(harness.shard.close())
    await turns()
    late = harness.commit(2)
    harness.store.let_go()
    assert error_of(await first) == ErrorCode.NONE
    await turns()
    assert closing.done()
    assert error_of(await late) == ErrorCode.NOT_COORDINATOR
    again = harness.another()
    await again.load()
    assert stored(again) == {0: 1}
    await again.close()


async def test_an_observer_that_raises_costs_no_commit(harness: Harness) -> None:

    def fail(_ts_ms: int, _event: Event) -> None:
        harness.observer = lambda _ts, _event: None
        raise ValueError("no room")

    harness.observer = fail
    assert error_of(await harness.commit(1)) == ErrorCode.NONE
    await turns()
    assert error_of(await harness.commit(2)) == ErrorCode.NONE
    assert stored(harness.shard) == {0: 2}


async def test_records_that_can_not_be_written_down_are_a_bug_as_well(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is ahead of the store then, so the shard is read again."""
    assert error_of(await harness.commit(1)) == ErrorCode.NONE
    with monkeypatch.context() as patch:
        patch.setattr("coterie_server.serving.group_shard.to_stored", stumble)
        assert error_of(await harness.commit(2)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await turns()
    assert stored(harness.shard) == {0: 1}


async def test_a_shard_that_is_lost_while_it_is_read_is_not_served(harness: Harness) -> None:
    reading = asyncio.ensure_future(harness.shard.load())
    harness.shard.fence()
    await reading
    assert harness.shard.core is None
    assert error_of(await harness.commit(1)) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("what", ["in version", "of kind"])
async def test_what_a_later_version_wrote_is_told_as_that(harness: Harness, what: str) -> None:
    """As on a database that nodes of a later version have used."""
    key, known = to_stored(GroupRow(group_id="g", state="Empty", generation=1))
    assert known is not None
    later = (b"\x09" + key[1:], known) if what == "of kind" else (key, b"\x09" + known[1:])
    await harness.store.append(harness.lease, [later])
    with pytest.raises(StoreError) as caught:
        await harness.another().load()
    assert str(caught.value) == (
        f"memory: has a row {what} 9, which is not known here: a later version of Coterie wrote it."
        " Start that version"
    )


async def test_heartbeats_are_taken_on_trust_only_while_no_other_node_can_have_the_shard(
    harness: Harness,
) -> None:
    """A node whose store hangs may go on reading a shard that another one serves by then."""
    elapsed_s = 0.0
    trust = LeaseTrust(lambda: elapsed_s)
    trust.extend(0.0, 10_000)
    reading = harness.another(trust)
    message = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    first, second = Pending(message, 4), Pending(message, 4)
    reading.handle(first)
    elapsed_s = 9.5
    reading.handle(second)
    assert (await first.answer).error_code == ErrorCode.NONE
    assert (await second.answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_shard_that_comes_back_is_read_anew(harness: Harness) -> None:
    """Another node may have written to it meanwhile."""
    harness.shard.fence()
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    harness.shard.take_over(lease)
    await turns()
    assert error_of(await harness.commit(1)) == ErrorCode.NONE


async def test_a_shard_that_comes_back_does_not_wait_for_an_attempt_of_its_former_life(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may be seconds away, after some that were in vain."""
    monkeypatch.setattr(reload_module, "RETRY_FIRST_S", 3_600.0)
    harness.shard.run(stumble)
    await turns()
    harness.shard.fence()
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    harness.shard.take_over(lease)
    await turns()
    assert error_of(await harness.commit(1)) == ErrorCode.NONE


async def test_each_attempt_in_vain_to_read_a_shard_counts(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a store is away there may be nothing else that fails: who commits is refused before."""
    monkeypatch.setattr(reload_module, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(reload_module, "RETRY_MAX_S", 0.0)
    shard = harness.another()
    monkeypatch.setattr(harness.store, "load", AsyncMock(side_effect=StoreError("it is away")))
    shard.take_over(harness.lease)
    while harness.meter.store_failed.call_count < 3:  # noqa: ASYNC110  # the shard tells nobody
        await asyncio.sleep(0)
    assert shard.failure == "it is away"
    shard.fence()


async def test_a_shard_is_read_by_one_at_a_time(harness: Harness) -> None:
    """As when it is lost and comes back while the node starts: the second would end its life."""
    harness.shard.fence()
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    harness.shard.take_over(lease)
    loads = harness.store.loads
    await asyncio.gather(harness.shard.load(), harness.shard.load())
    await turns()
    assert harness.store.loads == loads + 1
    assert error_of(await harness.commit(1)) == ErrorCode.NONE


async def test_late_end_of_a_former_life_does_not_end_the_next(harness: Harness) -> None:
    """The append of a lease that was lost is refused; the node has another lease by then."""
    harness.store.is_slow = True
    lost = harness.commit(1)
    await turns()
    await harness.store.release([harness.lease])
    harness.shard.fence()
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    harness.shard.take_over(lease)
    await turns()
    harness.store.is_slow = False
    harness.store.let_go()
    await turns()
    assert error_of(await lost) == ErrorCode.NOT_COORDINATOR
    assert error_of(await harness.commit(2)) == ErrorCode.NONE
    assert [event.kind for event in harness.events if event.kind == "shard_given"] == []


async def test_nothing_is_done_for_clients_that_left_while_the_leases_were_in_doubt(
    harness: Harness,
) -> None:
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    trust.until_s = 0.0
    staying, leaving = harness.commit(1), harness.commit(2, partition=1)
    harness.requests[-1].abandoned = True
    trust.until_s = 2.0
    harness.shard.trusted()
    assert error_of(await staying) == ErrorCode.NONE
    await turns()
    assert not leaving.done()
    assert stored(harness.shard) == {0: 1}


async def test_what_was_held_is_not_handled_where_the_leases_are_confirmed(
    harness: Harness,
) -> None:
    """There may be thousands: its connections go on with it in their turns."""
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    assert not harness.shard.trusted()
    trust.until_s = 0.0
    held = harness.commit(1)
    trust.until_s = 2.0
    assert harness.shard.trusted()
    assert harness.shard.core is not None
    assert not harness.shard.core.groups
    assert error_of(await held) == ErrorCode.NONE


async def test_what_was_held_is_not_refused_where_the_leases_are_doubted(harness: Harness) -> None:
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    trust.until_s = 0.0
    held = harness.commit(1)
    harness.shard.doubted()
    assert not held.done()
    assert error_of(await held) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_what_was_to_be_refused_is_taken_if_the_leases_are_confirmed_first(
    harness: Harness,
) -> None:
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    trust.until_s = 0.0
    held = harness.commit(1)
    harness.shard.doubted()
    trust.until_s = 2.0
    assert error_of(await held) == ErrorCode.NONE


async def waiting_commit(harness: Harness) -> tuple[asyncio.Future[Any], LeaseTrust]:
    """A commit that the store does not answer, and how long the leases can be trusted."""
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    harness.store.is_slow = True
    waiting = harness.commit(1)
    await turns()
    return waiting, trust


@pytest.mark.parametrize("is_followed", [True, False])
async def test_a_commit_that_waits_for_the_store_is_refused_when_another_node_may_have_the_shard(
    harness: Harness, *, is_followed: bool
) -> None:
    """That node takes it, while it may be long until the store answers this one."""
    waiting, trust = await waiting_commit(harness)
    harness.shard.doubted(is_followed=is_followed)
    assert not waiting.done()
    trust.until_s = 0.0
    harness.shard.doubted(is_followed=is_followed)
    assert waiting.done() == is_followed
    harness.store.is_slow = False
    harness.store.let_go()
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(await waiting) == (refused if is_followed else ErrorCode.NONE)


async def test_who_waits_for_a_group_is_refused_when_another_node_may_have_it(
    harness: Harness,
) -> None:
    harness.shard = harness.another(trust := LeaseTrust(lambda: 1.0))
    await harness.shard.load()
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    parked = Pending(join, 3)
    harness.shard.handle(parked)
    await turns()
    trust.until_s = 0.0
    harness.shard.doubted(is_followed=True)
    assert (await parked.answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    trust.until_s = 2.0
    await turns()
    assert harness.shard.is_served  # no other node has come: it goes on with what is stored
    assert error_of(await harness.commit(1)) == ErrorCode.NONE


async def test_a_shard_is_closed_when_the_leases_are_over_though_the_store_does_not_answer(
    harness: Harness,
) -> None:
    waiting, trust = await waiting_commit(harness)
    trust.until_s = 1.01
    await harness.shard.close()
    assert error_of(await waiting) == ErrorCode.NOT_COORDINATOR


async def test_what_waits_is_refused_where_a_shard_is_given_away_in_vain(harness: Harness) -> None:
    harness.store.is_slow = True
    waiting = harness.commit(1)
    giving = asyncio.create_task(harness.shard.give_up())
    await turns()
    assert not waiting.done()
    giving.cancel()
    await asyncio.wait({giving})
    assert error_of(await waiting) == ErrorCode.NOT_COORDINATOR


async def test_a_commit_on_a_connection_from_before_another_node_had_the_shard_is_not_taken(
    harness: Harness,
) -> None:
    """It may have been sent anew to that node, which took a later one since."""
    loop = asyncio.get_running_loop()
    await harness.shard.give_up()
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    before_ms = int(loop.time() * 1000)
    harness.shard.take_over(lease)
    await turns()
    numbered = Pending(
        m.OffsetCommitRequest(group_id="g", sequence=1, topics=()), 8, connected_ms=before_ms
    )
    harness.shard.handle(numbered)
    assert len(numbered.closed) == 1
    assert error_of(await harness.commit(1)) == ErrorCode.NONE  # as Kafka, in order of arrival
    later = replace(
        numbered, connected_ms=before_ms + 10_000, closed=[], answer=loop.create_future()
    )
    harness.shard.handle(later)
    await later.answer
