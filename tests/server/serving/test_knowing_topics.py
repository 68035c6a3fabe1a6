"""What nodes know of topics that another node changes, and when it counts as known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import pytest

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import TopicChanged
from coterie_server.address import Address
from coterie_server.config.assembly import RandomIds
from coterie_server.group import Config, GroupCoordinator
from coterie_server.group.operations import reset_offsets
from coterie_server.serving import GroupShard, NodeContext, TopicCounts
from coterie_server.serving.catalogue_shard import CatalogueShard
from coterie_server.serving.clock import Clock
from coterie_server.serving.cluster import CATALOGUE_SHARD, Cluster, NodeNote, TopicsVersion
from coterie_server.serving.peers import PeerError, ask_node
from coterie_server.serving.topic_copy import TopicCopy
from coterie_server.serving.topic_counts import in_turn
from coterie_server.storage import Fence, KeptRecord, Lease, MemoryStore, NodeEntry, Survey
from coterie_server.topics import Catalogue, TopicConfig, TopicRow, to_stored
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio

HERE = {"": Address("here", 9092)}


# -- a shard that was another node's ---------------------------------------------------------------


class TakenOver:
    """A shard with an offset, which is taken over by a node that knows no topics yet."""

    def __init__(self, store: MemoryStore, know: Callable[[TakenOver], Awaitable[None]]) -> None:
        self.store = store
        self.topics: dict[str, int] = {}
        self.shard = GroupShard(
            0,
            NodeContext(store, Clock()),
            lambda: GroupCoordinator(Config(), RandomIds(), self.topics),
            know_topics=lambda: know(self),
        )

    async def begin(self) -> None:
        """Commit as the former owner does, and take over."""
        (lease,) = await self.store.claim([0], "former", 10_000)
        former = GroupShard(
            0,
            NodeContext(self.store, Clock()),
            lambda: GroupCoordinator(Config(), RandomIds(), {"t": 1}),
        )
        former.own(lease)
        await former.load()
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
        commit = Pending(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 7)
        former.handle(commit)
        await commit.answer
        await former.give_up()
        await self.store.release([lease])
        (lease,) = await self.store.claim([0], "next", 10_000)
        self.shard.take_over(lease)

    async def committed(self) -> int:
        """The offset, as soon as the shard is served."""
        async with asyncio.timeout(60):
            while not self.shard.is_served:  # noqa: ASYNC110  # no event tells of it
                await asyncio.sleep(0.001)
        asked = m.OffsetFetchRequestTopic(name="t", partition_indexes=(0,))
        fetch = Pending(m.OffsetFetchRequest(group_id="g", topics=(asked,)), 5)
        self.shard.handle(fetch)
        offset: int = (await fetch.answer).topics[0].partitions[0].committed_offset
        return offset


async def learn(taken: TakenOver) -> None:
    """Hear of the topic when asked to."""
    taken.topics["t"] = 1


async def test_offsets_of_a_topic_that_the_node_has_not_heard_of_stay() -> None:
    """They would be taken for those of a deleted topic."""
    async with MemoryStore() as store:
        taken = TakenOver(store, learn)
        await taken.begin()
        assert await taken.committed() == 5


async def test_operator_may_name_a_topic_that_the_node_has_not_heard_of() -> None:
    """The node that has the catalogue tells of a new topic before the others hear of it."""
    async with MemoryStore() as store:
        taken = TakenOver(store, learn)
        await taken.begin()
        assert await taken.committed() == 5
        taken.topics.clear()
        await taken.shard.operate(
            partial(reset_offsets, group_id="g", topic="t", partitions=[0], offset=7)
        )
        assert await taken.committed() == 7


async def learn_of_the_past(taken: TakenOver) -> None:
    """Hear only now that the topic was deleted, and made anew before the offset was committed."""
    taken.topics["t"] = 1
    taken.shard.topics_changed({"t": "deleted"})()
    taken.shard.topics_changed({"t": "created"})()


async def test_offsets_stay_though_the_node_hears_of_a_deletion_that_is_long_past() -> None:
    async with MemoryStore() as store:
        taken = TakenOver(store, learn_of_the_past)
        await taken.begin()
        assert await taken.committed() == 5
        await asyncio.wait_for(taken.shard.until_told(), 60)


async def test_shard_that_was_not_read_yet_has_nothing_to_be_told() -> None:
    """A node that starts would wait for ever for what only the reading brings about."""
    async with MemoryStore() as store:
        (lease,) = await store.claim([0], "node-1", 10_000)
        shard = GroupShard(
            0, NodeContext(store, Clock()), lambda: GroupCoordinator(Config(), RandomIds(), {})
        )
        shard.own(lease)
        shard.topics_changed({"t": "deleted"})()
        await asyncio.wait_for(shard.until_told(), 60)


# -- whose groups know -----------------------------------------------------------------------------


def _survey(fence: Fence, note: NodeNote) -> Survey:
    entry = NodeEntry("node-2", note.to_bytes(), 1_000)
    return Survey((entry,), (Lease(3, fence, "node-2", 1_000),))


async def test_groups_know_nothing_of_a_timeline_by_what_was_seen_of_another() -> None:
    """Timelines begin anew where the database's tables are brought to another server."""
    cluster = Cluster("node-1")
    for seen, know in ((TopicsVersion(2, 9, 9), False), (TopicsVersion(1, 1, 4), True)):
        note = NodeNote(2, HERE, seen=seen, recovered={3: Fence(1, 7)})
        cluster.look(_survey(Fence(1, 7), note), ())
        assert cluster.groups_know(3, TopicsVersion(1, 1, 4)) is know


@pytest.mark.parametrize(
    ("recovered", "seen", "know"),
    [
        ({3: Fence(0, 7)}, 4, True),
        ({3: Fence(0, 7)}, 3, False),
        ({3: Fence(0, 6)}, 4, False),
        ({}, 4, False),
    ],
)
async def test_groups_know_of_a_change_when_their_node_says_so_of_this_very_lease(
    recovered: Mapping[int, Fence], seen: int, *, know: bool
) -> None:
    """What it has said before it claimed the shard was about others."""
    cluster = Cluster("node-1")
    note = NodeNote(2, HERE, seen=TopicsVersion(0, 1, seen), recovered=recovered)
    cluster.look(_survey(Fence(0, 7), note), ())
    assert cluster.groups_know(3, TopicsVersion(0, 1, 4)) is know
    assert not cluster.groups_know(2, TopicsVersion())


async def test_note_reads_back_as_it_was_written() -> None:
    note = NodeNote(2, HERE, is_settled=True, recovered={0: Fence(0, 1), 7: Fence(2, 5)})
    assert NodeNote.from_bytes(note.to_bytes()) == note


async def test_no_change_is_left_out_of_several_of_one_topic() -> None:
    changes = [("a", "deleted"), ("b", "grown"), ("a", "created"), ("c", "deleted")]
    events = [
        TopicChanged(topic=topic, change=change, partitions_before=1, partitions=1)
        for topic, change in changes
    ]
    told = list(in_turn(events))
    assert told == [{"a": "deleted", "b": "grown"}, {"a": "created", "c": "deleted"}]


# -- the copy --------------------------------------------------------------------------------------


class SlowStore(MemoryStore):
    """A store whose readings take turns of the loop, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = self.under_way = self.most = 0

    async def load(self, shard: int) -> list[KeptRecord]:
        """Read slowly."""
        self.begun += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        found = await super().load(shard)
        for _ in range(5):
            await asyncio.sleep(0)
        self.under_way -= 1
        return found


class Groups:
    """Takes down what groups are told."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, str]] = []

    def topics_changed(self, changes: Mapping[str, str]) -> None:
        """Take it down."""
        self.told.append(changes)

    async def until_told(self) -> None:
        """It is durable at once."""

    def groups_know(self, version: TopicsVersion) -> bool:
        """They do."""
        del version
        return True

    def are_unread(self) -> bool:
        """They are not."""
        return False


def _copy(store: MemoryStore, groups: Groups, counts: TopicCounts) -> TopicCopy:
    context = NodeContext(store, Clock())
    make = lambda ends: Catalogue(TopicConfig(node_id=1, cluster_id="c"), RandomIds(), ends)  # noqa: E731  # as nodes do
    own = CatalogueShard(context, make, counts=counts, on_change=lambda _: None)
    return TopicCopy(context, make, counts, own, groups)


async def _put(store: MemoryStore, lease: Lease, name: str, partitions: int) -> None:
    row = TopicRow(
        name=name, topic_id=RandomIds().topic_id(), partitions=partitions, created_at_ms=0
    )
    await store.append(lease, [to_stored(row)])


async def test_refresh_sees_what_was_stored_before_it_was_asked_for() -> None:
    async with SlowStore() as store:
        (lease,) = await store.claim([CATALOGUE_SHARD], "other", 10_000)
        groups, counts = Groups(), TopicCounts()
        copy = _copy(store, groups, counts)
        await copy.refresh()
        first = asyncio.ensure_future(copy.refresh())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await _put(store, lease, "t", 3)
        await copy.refresh()
        assert dict(counts) == {"t": 3}
        assert groups.told == [{"t": "created"}]
        await first


async def test_very_many_rows_are_read_in_turns() -> None:
    async with MemoryStore() as store:
        (lease,) = await store.claim([CATALOGUE_SHARD], "other", 10_000)
        ids = RandomIds()
        rows = (
            TopicRow(name=f"t{n}", topic_id=ids.topic_id(), partitions=1, created_at_ms=0)
            for n in range(2_000)
        )
        await store.append(lease, [to_stored(row) for row in rows])
        counts = TopicCounts()
        reading = asyncio.ensure_future(_copy(store, Groups(), counts).refresh())
        known = []
        while not reading.done():
            await asyncio.sleep(0)
            known.append(len(counts))
        assert known.count(0) > 20
        assert set(known) == {0, 2_000}  # all at once


async def test_who_asks_at_the_same_time_shares_a_reading() -> None:
    async with SlowStore() as store:
        copy = _copy(store, Groups(), TopicCounts())
        await asyncio.gather(*(copy.refresh() for _ in range(100)))
        assert store.begun == 1


async def test_who_shares_a_reading_goes_on_in_order_and_a_few_at_a_time() -> None:
    """Thousands of answers in one turn of the event loop would cost the node its leases."""
    async with SlowStore() as store:
        copy = _copy(store, Groups(), TopicCounts())
        gone: list[int] = []

        async def go_on(number: int) -> None:
            await copy.refresh()
            gone.append(number)

        going = [asyncio.create_task(go_on(number)) for number in range(100)]
        at_once = 0
        while not all(each.done() for each in going):
            before = len(gone)
            await asyncio.sleep(0)
            at_once = max(at_once, len(gone) - before)
        assert gone == list(range(100))
        assert at_once <= 10


async def test_readings_do_not_overlap() -> None:
    async with SlowStore() as store:
        copy = _copy(store, Groups(), TopicCounts())
        asked = []
        for _ in range(20):
            asked.append(asyncio.ensure_future(copy.refresh()))
            await asyncio.sleep(0)
        await asyncio.gather(*asked)
        assert store.begun > 1
        assert store.most == 1


# -- asking another node ---------------------------------------------------------------------------


def _deletion() -> m.DeleteTopicsRequest:
    return m.DeleteTopicsRequest(topic_names=("t",), timeout_ms=0)


async def _asked(port: int) -> PeerError:
    note = NodeNote(2, {"": Address("127.0.0.1", port)})
    with pytest.raises(PeerError) as caught:
        await ask_node(note, ApiKey.DELETE_TOPICS, _deletion(), 4)
    return caught.value


async def test_request_that_may_have_been_carried_out_is_told_from_one_that_was_not_sent() -> None:
    """A deletion whose answer is lost is in doubt."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert (await _asked(port)).was_sent
    server.close()
    await server.wait_closed()
    assert not (await _asked(port)).was_sent


async def test_a_deletion_in_doubt_is_not_refused() -> None:
    """The catalogue's life ends while it is being stored."""
    store: Any = MemoryStore()
    async with store:
        (lease,) = await store.claim([CATALOGUE_SHARD], "node-1", 10_000)
        await _put(store, lease, "t", 1)
        shard = CatalogueShard(
            NodeContext(store, Clock()),
            lambda ends: Catalogue(TopicConfig(node_id=1, cluster_id="c"), RandomIds(), ends),
            counts=TopicCounts(),
            on_change=lambda _: None,
        )
        shard.own(lease)
        await shard.load()
        request = Pending(_deletion(), 3)
        shard.handle(cast(Any, request))
        shard.fence()
        answer = await asyncio.wait_for(request.answer, 60)
        assert answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        await shard.close()
