"""A shard being served, through trouble with its store and with itself."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import Event, GroupRecovered, RebalanceStarted
from coterie_server.address import Address
from coterie_server.config.assembly import RandomIds
from coterie_server.group import Config, GroupCoordinator, Refusal, operations
from coterie_server.log import configure
from coterie_server.serving import GroupShard, NodeContext
from coterie_server.serving import reload as reload_module
from coterie_server.serving.clock import Clock
from coterie_server.serving.group_shard import fire_due, tell_of_topics
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import Fence, FencedError, KeptRecord, Lease, StoreError
from coterie_server.topics import Catalogue, PartitionEnds, TopicConfig
from coterie_server.turns import Turns
from tests.support.brittle_store import BrittleStore
from tests.support.requests import Pending
from tests.support.turns import SlowLoop

pytestmark = pytest.mark.asyncio


class Harness:
    """A shard with all that it needs."""

    def __init__(self, store: BrittleStore, lease: Lease) -> None:
        self.store = store
        self.events: list[Event] = []
        self.dates_ms: list[int] = []
        self.armed: list[int] = []
        self.ends = PartitionEnds()
        #: The groups that went to another node.
        self.forgotten: list[str] = []
        #: What else goes on while the clock is read; nothing unless a test says so.
        self.elapse: Callable[[], int] = lambda: 0
        self.clock = Clock(lambda: time.monotonic_ns() + self.elapse())
        config = Config(initial_rebalance_delay_ms=0)
        self.shard = GroupShard(
            lease.shard,
            NodeContext(
                store,
                self.clock,
                ends=self.ends,
                observe=self._observe,
                forget=self.forgotten.extend,
                arm=self.armed.append,
            ),
            lambda: GroupCoordinator(config, RandomIds(), {"t": 4}, date_of=self.clock.date_of),
        )
        self.shard.own(lease)

    def _observe(self, date_ms: int, event: Event) -> None:
        self.dates_ms.append(date_ms)
        self.events.append(event)

    def ask(self, message: Any, version: int) -> Pending:
        """Hand in a request."""
        request = Pending(message, version)
        self.shard.handle(request)
        return request

    async def answer(self, message: Any, version: int) -> Any:
        """Hand in a request and wait for its reply."""
        return await asyncio.wait_for(self.ask(message, version).answer, 60)

    def commit(self, offset: int) -> Pending:
        """Commit an offset as a client that is in no generation."""
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
        return self.ask(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 7)

    async def committed(self) -> int:
        """The offset that is stored, as a client would be told."""
        asked = m.OffsetFetchRequestTopic(name="t", partition_indexes=(0,))
        request = m.OffsetFetchRequest(group_id="g", topics=(asked,))
        answer = await self.answer(request, 5)
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


def commit_error(answer: m.OffsetCommitResponse) -> int:
    """The error for the one partition."""
    return answer.topics[0].partitions[0].error_code


@pytest_asyncio.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    """A shard that serves an empty shard."""
    monkeypatch.setattr(reload_module, "RETRY_FIRST_S", 0.001)
    async with BrittleStore() as store:
        (lease,) = await store.claim([0], "node-1", 10_000)
        harness = Harness(store, lease)
        await harness.shard.load()
        yield harness
        await harness.shard.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.001)


async def test_a_commit_is_answered_when_it_is_durable(harness: Harness) -> None:
    request = harness.commit(5)
    assert not request.answer.done()
    assert commit_error(await request.answer) == ErrorCode.NONE
    assert await harness.committed() == 5


async def test_a_partition_ends_where_commits_are_durable(harness: Harness) -> None:
    """A client must not learn of an end that a crash takes back."""
    request = harness.commit(5)
    assert (request.answer.done(), harness.ends.end("t", 0)) == (False, 0)
    seen = request.answer
    ends: list[int] = []
    seen.add_done_callback(lambda _: ends.append(harness.ends.end("t", 0)))
    await asyncio.wait_for(seen, 60)
    await asyncio.sleep(0)
    assert ends == [5]


async def test_a_commit_has_the_same_date_in_store_and_journal(harness: Harness) -> None:
    """A store whose commits are older than its journal's has lost some, and is not opened."""
    seconds = itertools.count(1)
    harness.clock.start()
    # The node stands still in the middle of the step, for a second each time that it looks.
    harness.elapse = lambda: next(seconds) * 1_000_000_000
    await harness.commit(5).answer
    core = harness.shard.core
    assert core is not None
    assert harness.dates_ms == [core.groups["g"].offsets["t", 0].committed_at_ms]


async def test_a_commit_that_is_not_stored_moves_no_end(harness: Harness) -> None:
    await harness.commit(5).answer
    harness.store.error = StoreError("disk full")
    refused = await harness.commit(9).answer
    assert commit_error(refused) != 0
    harness.store.error = None
    await until(lambda: harness.shard.core is not None)
    assert harness.ends.end("t", 0) == 5


async def test_reading_waits_for_what_was_written_before(harness: Harness) -> None:
    """A client must not read an offset that a crash takes back."""
    with harness.store.held():
        harness.commit(5)
        fetch = asyncio.ensure_future(harness.committed())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not fetch.done()
    assert await fetch == 5


def join(harness: Harness) -> Pending:
    """Have a member that subscribes to the topic t join a new group."""
    wanted = encode_subscription(Subscription(topics=("t",)))
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=wanted)
    request = m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    return harness.ask(request, 3)


async def joined(harness: Harness) -> None:
    """Have a group of one member that subscribes to the topic t, at work."""
    request = join(harness)

    def is_answered() -> bool:
        harness.shard.fire_due(harness.armed[-1])
        return request.answer.done()

    await until(is_answered)
    member = request.answer.result()
    assigned = encode_assignment(
        Assignment(assigned_partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    )
    given = m.SyncGroupRequestAssignment(member_id=member.member_id, assignment=assigned)
    sync = m.SyncGroupRequest(
        group_id="g", generation_id=1, member_id=member.member_id, assignments=(given,)
    )
    assert (await harness.answer(sync, 2)).error_code == ErrorCode.NONE


def causes(harness: Harness) -> list[str]:
    """Why there were rebalances so far."""
    return [event.cause for event in harness.events if isinstance(event, RebalanceStarted)]


async def test_a_topic_that_changes_while_the_shard_is_read_again_is_told_then(
    harness: Harness,
) -> None:
    """Or the group would not know before its members look by themselves, minutes later.

    Seed 160 of hostile: a topic grew while the disk failed, and its new partition had no owner.
    """
    await joined(harness)
    harness.store.error = StoreError("disk full")
    await harness.commit(5).answer
    harness.shard.topics_changed({"t": "grown"})()
    harness.store.error = None
    await until(lambda: causes(harness)[1:] == ["topic_changed"])


async def test_a_topic_change_outlives_a_store_that_fails_right_after(harness: Harness) -> None:
    """The group was told, but that it was is forgotten with its memory."""
    await joined(harness)
    harness.shard.topics_changed({"t": "grown"})()
    harness.store.error = StoreError("disk full")
    await harness.commit(5).answer
    harness.store.error = None
    await until(
        lambda: [type(event) for event in harness.events[-2:]] == [GroupRecovered, RebalanceStarted]
    )
    assert causes(harness)[-1] == "topic_changed"


async def test_what_was_committed_to_a_topic_made_anew_outlives_its_deletion(
    harness: Harness,
) -> None:
    """To tell again that the former one was deleted must not delete the new one's offsets."""
    harness.shard.topics_changed({"t": "deleted"})()
    harness.shard.topics_changed({"t": "created"})()
    assert commit_error(await harness.commit(7).answer) == ErrorCode.NONE
    harness.store.error = StoreError("disk full")
    await harness.commit(8).answer
    harness.store.error = None
    await until(lambda: harness.shard.core is not None)
    assert await harness.committed() == 7


async def test_a_commit_to_a_failing_store_fails_retriably(harness: Harness) -> None:
    await harness.commit(5).answer
    harness.store.error = StoreError("the disk is full")
    answer = await harness.commit(6).answer
    assert commit_error(answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.shard.core is None
    harness.store.error = None
    await until(lambda: harness.shard.core is not None)
    assert await harness.committed() == 5


async def test_a_parked_join_is_refused_when_the_store_fails(harness: Harness) -> None:
    request = join(harness)
    harness.store.error = StoreError("the disk is full")
    answer = await asyncio.wait_for(request.answer, 60)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_shard_has_a_group_that_forms_until_its_first_generation(harness: Harness) -> None:
    assert not harness.shard.is_forming
    request = join(harness)
    assert harness.shard.is_forming

    def is_answered() -> bool:
        harness.shard.fire_due(harness.armed[-1])
        return request.answer.done()

    await until(is_answered)
    assert not harness.shard.is_forming
    await harness.shard.give_up()
    assert not harness.shard.is_forming


async def test_a_fenced_shard_is_given_up(harness: Harness) -> None:
    """Another node has it: clients are to look for that one, and nothing is read again."""
    harness.store.error = FencedError(0, Fence(0, 1), "no node holds shard 0")
    answer = await harness.commit(6).answer
    assert commit_error(answer) == ErrorCode.NOT_COORDINATOR
    harness.store.error = None
    await asyncio.sleep(0.01)
    assert harness.shard.core is None
    assert commit_error(await harness.commit(7).answer) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("how", ["given", "lost"])
async def test_groups_that_go_to_another_node_are_forgotten(harness: Harness, how: str) -> None:
    """That node may delete them, and this one would remember them for ever."""
    await harness.commit(5).answer
    if how == "given":
        await harness.shard.give_up()
    else:
        harness.shard.fence()
    assert harness.forgotten == ["g"]


async def test_groups_are_not_forgotten_when_the_shard_is_read_again(harness: Harness) -> None:
    await harness.commit(5).answer
    harness.shard.core_failed()
    await until(lambda: harness.shard.core is not None)
    assert harness.forgotten == []


async def test_a_bug_costs_the_memory_but_nothing_stored(harness: Harness) -> None:
    """An exception of the core may have left a group half changed, so the shard is read again."""
    await harness.commit(5).answer

    def stumble(_now_ms: int) -> Any:
        raise AssertionError("a bug")

    harness.shard.run(stumble)
    assert harness.shard.core is None
    await until(lambda: harness.shard.core is not None)
    assert await harness.committed() == 5


async def test_after_closing_clients_are_sent_to_look_elsewhere(harness: Harness) -> None:
    await harness.shard.close()
    answer = await harness.answer(
        m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
    )
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_refused_rebalance_changes_nothing(harness: Harness) -> None:
    with pytest.raises(Refusal) as caught:
        await harness.shard.operate(partial(operations.force_rebalance, group_id="nobody"))
    assert caught.value.name == "group_not_found"
    assert harness.shard.core is not None


async def test_deadlines_are_handed_on(harness: Harness) -> None:
    """The node has one timer for all shards; at least the sweep for old offsets is due some day."""
    await harness.commit(5).answer
    assert harness.shard.next_deadline() in harness.armed


async def test_deadlines_of_what_was_read_back_are_handed_on(harness: Harness) -> None:
    """Sessions run out after a restart even if nothing comes in but other members' heartbeats.

    The simulator found it: a worker and then the coordinator were killed, the coordinator came
    back, and the worker's place in the group was kept for ever.
    """
    await joined(harness)
    (lease,) = await harness.store.claim([0], "node-1", 10_000)
    successor = Harness(harness.store, lease)
    await successor.shard.load()
    assert successor.shard.next_deadline() in successor.armed
    await successor.shard.close()


@pytest.mark.parametrize("style", ["json", "console"])
async def test_step_that_fails_is_logged_without_what_variables_hold(
    harness: Harness, style: str
) -> None:
    """Once, with its traceback; a password in a frame of it stays there."""

    def fails(now_ms: int) -> Any:
        password = "hunter" + str(now_ms * 0 + 2)
        raise ValueError(f"a bug of {len(password)} letters")

    stream = io.StringIO()
    undo = configure("debug", style, stream)
    try:
        harness.shard.run(fails)
        await until(lambda: harness.shard.core is not None)
    finally:
        undo()
    text = stream.getvalue()
    assert text.count("Traceback") == 1
    assert "in fails" in text
    assert "hunter2" not in text


async def test_an_empty_shard_recovers_nothing(harness: Harness) -> None:
    assert not [event for event in harness.events if isinstance(event, GroupRecovered)]


def node_on(store: BrittleStore, shards: int) -> Node:
    """A node that serves a store."""
    topics = TopicConfig(node_id=1, cluster_id="c")
    return Node(
        NodeOptions(1, Address("h", 1), shards=shards, lease_ms=10_000),
        Config(),
        store,
        Clock(),
        make_ids=lambda _: RandomIds(),
        make_catalogue=lambda ends: Catalogue(topics, RandomIds(), ends),
        observe=lambda _ts, _event: None,
    )


class DistantStore(BrittleStore):
    """A store in which each reading takes one turn of the network."""

    def __init__(self) -> None:
        super().__init__()
        #: The shards that are being read, and the most that were at the same time.
        self.read: set[int] = set()
        self.most = 0

    async def load(self, shard: int) -> list[KeptRecord]:
        """Read a shard, slowly."""
        self.read.add(shard)
        await asyncio.sleep(0.001)
        self.most = max(self.most, len(self.read))
        self.read.discard(shard)
        return await super().load(shard)


async def test_node_that_starts_reads_some_shards_at_a_time_but_not_all() -> None:
    """Each reading may take long where the store is far away; all would take much memory."""
    async with DistantStore() as store:
        node = node_on(store, shards=25)
        await node.start()
        assert all(shard.is_served for shard in node.shards)
        assert store.most == 10
        await node.stop()


async def test_what_a_node_knows_of_the_order_of_commits_outlives_the_shards_memory() -> None:
    """The connections on which a commit may be held up outlive it as well."""
    async with BrittleStore() as store:
        node = node_on(store, shards=1)
        await node.start()
        (shard,) = node.shards  # whose lives these are
        lives = [shard._make().table for _ in range(2)]
        lives[0].commit_order.note("g", "a", 5)
        assert not lives[1].commit_order.admits("g", "a", 5)
        await node.stop()


# -- many shards with many groups ------------------------------------------------------------------


class Crowd:
    """A shard with very many groups."""

    group_count = 1500

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []
        self.is_due = True

    def topics_changed(self, changes: dict[str, str]) -> Callable[[], None]:
        """Tell them later."""
        return lambda: self.told.append(changes)

    def fire_due(self, _now_ms: int) -> bool:
        """Do what is due, if anything is."""
        was_due, self.is_due = self.is_due, False
        return was_due


def crowds() -> tuple[list[Crowd], list[GroupShard]]:
    """Six shards, as themselves and as what they stand in for."""
    found = [Crowd() for _ in range(6)]
    return found, cast("list[GroupShard]", found)


async def test_very_many_groups_are_told_of_topics_in_turns() -> None:
    loop, (found, shards) = SlowLoop(), crowds()
    tell_of_topics(shards, {"t": "created", "u": "grown"}, Turns(loop.call_soon))
    counts = [sum(bool(crowd.told) for crowd in found)]
    while loop.waiting:
        loop.turn()
        counts.append(sum(bool(crowd.told) for crowd in found))
    assert counts == [2, 4, 6, 6]
    assert all(crowd.told == [{"t": "created", "u": "grown"}] for crowd in found)


async def test_few_groups_are_told_of_topics_at_once() -> None:
    loop, (found, shards) = SlowLoop(), crowds()
    tell_of_topics(shards[:1], {"t": "created"}, Turns(loop.call_soon))
    assert (len(found[0].told), loop.waiting) == (1, [])


async def test_what_is_due_for_very_many_groups_stays_due_in_part() -> None:
    found, shards = crowds()
    counts = []
    while any(crowd.is_due for crowd in found):
        fire_due(shards, 0)
        counts.append(sum(not crowd.is_due for crowd in found))
    assert counts == [2, 4, 6]


async def test_groups_are_told_once_though_the_shard_is_read_again_before(harness: Harness) -> None:
    """They are told when it is read, and the call that was to tell them comes afterwards."""
    await harness.commit(7).answer
    tell = harness.shard.topics_changed({"t": "deleted"})
    harness.store.error = StoreError("disk full")
    assert commit_error(await harness.commit(8).answer) != ErrorCode.NONE
    harness.store.error = None
    await until(lambda: harness.shard.is_served)
    await harness.shard.until_told()
    tell()
    await harness.shard.until_told()
    assert await harness.committed() == -1
