"""The catalogue being served: who waits for records, and what happens at the end."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.address import Address
from coterie_server.config.assembly import RandomIds
from coterie_server.net import Exchange
from coterie_server.serving import CATALOGUE_SHARD, CatalogueShard, NodeContext, TopicCounts
from coterie_server.serving import catalogue_shard as topics_module
from coterie_server.serving import reload as reload_module
from coterie_server.serving.clock import Clock
from coterie_server.storage import Fence, FencedError, Lease, MemoryStore, StoreError
from coterie_server.storage.abc import Record
from coterie_server.topics import Catalogue, PartitionEnds, TopicConfig
from tests.support.brittle_store import BrittleStore

pytestmark = pytest.mark.asyncio

AGAIN = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Request:
    """Stands in for an exchange: a request, and what came of it."""

    abandoned = False
    advertised = Address("here", 9092)

    def __init__(self, message: Any, version: int) -> None:
        self.message, self.version = message, version
        self.replies: list[Any] = []
        self.closed: list[str] = []
        self.resumed = 0
        self.forget: Any = None

    def when_gone(self, forget: Any) -> None:
        """Remember who wants to know."""
        self.forget = forget

    def when_followed(self, answer: object) -> None:
        """Ask for nothing else."""

    def go(self) -> None:
        """Hang up."""
        if self.forget is not None:
            self.forget(self)

    def resume(self, action: Callable[[], None]) -> None:
        """Go on in the event loop's next turn."""
        self.resumed += 1
        asyncio.get_running_loop().call_soon(action)

    def reply(self, message: Any) -> None:
        """Take the reply."""
        self.replies.append(message)

    def close(self, why: str) -> None:
        """Take the end of the connection."""
        self.closed.append(why)

    def errors(self) -> dict[str, ErrorCode]:
        """The error of each topic in the only reply, which is one to Fetch."""
        (reply,) = self.replies
        return {t.topic: ErrorCode(t.partitions[0].error_code) for t in reply.responses}


class Harness:
    """A shard with two topics."""

    def __init__(self, shard: CatalogueShard) -> None:
        self.shard = shard

    def ask(self, message: Any, version: int) -> Request:
        """Hand in a request."""
        request = Request(message, version)
        self.shard.handle(cast(Exchange, request))
        return request

    def fetch(self, *topics: str) -> Request:
        """Wait a minute for records."""
        partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        return self.ask(
            m.FetchRequest(
                max_wait_ms=60_000,
                min_bytes=1,
                topics=tuple(m.FetchTopic(topic=t, partitions=(partition,)) for t in topics),
            ),
            11,
        )


def catalogue(ends: PartitionEnds) -> Catalogue:
    """The core that is run."""
    config = TopicConfig(node_id=1, cluster_id="coterie")
    return Catalogue(config, RandomIds(), ends)


@pytest_asyncio.fixture
async def harness() -> Harness:
    """Give a shard with two topics."""
    store = MemoryStore()
    await store.open()
    (lease,) = await store.claim([CATALOGUE_SHARD], "node-1", 60_000)
    shard = CatalogueShard(
        NodeContext(store, Clock()),
        catalogue,
        counts=TopicCounts(),
        on_change=lambda changes: shard.wake(changes),  # noqa: PLW0108  # it is not there yet
    )
    shard.own(lease)
    await shard.load()
    for topic in ("orders", "payments"):
        await shard.ensure(topic, 1)
    return Harness(shard)


async def test_a_topic_that_can_not_be_stored_is_no_topic() -> None:
    """Nor is the next one, while the catalogue is read again.

    Seed 4941 of brief: the disk failed while the daemon made the topics that it was started with.
    It went on as if the first one were there, and broke over the second one.
    """
    store = BrittleStore()
    await store.open()
    (lease,) = await store.claim([CATALOGUE_SHARD], "node-1", 60_000)
    shard = CatalogueShard(
        NodeContext(store, Clock()),
        catalogue,
        counts=TopicCounts(),
        on_change=lambda _changes: None,
    )
    shard.own(lease)
    await shard.load()
    store.error = StoreError("disk full")
    for topic in ("orders", "payments"):
        with pytest.raises(StoreError, match=topic):
            await shard.ensure(topic, 1)
    await shard.close()


class Groups:
    """Groups that forget offsets when they are let."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, str]] = []
        self.has_forgotten = asyncio.Event()

    async def until_told(self) -> None:
        """Wait until they have forgotten."""
        await self.has_forgotten.wait()


class Deleting:
    """A catalogue with a topic, in a store that can fail, and groups that it tells."""

    def __init__(self, store: BrittleStore, lease: Lease) -> None:
        self.store, self.groups, self.counts = store, Groups(), TopicCounts()
        self.shard = CatalogueShard(
            NodeContext(store, Clock()),
            catalogue,
            counts=self.counts,
            on_change=self.groups.told.append,
            until_told=self.groups.until_told,
        )
        self.shard.own(lease)

    def ask(self, message: Any, version: int) -> Request:
        """Hand in a request."""
        request = Request(message, version)
        self.shard.handle(cast(Exchange, request))
        return request

    def delete(self, timeout_ms: int = 20_000) -> Request:
        """Delete the topic."""
        return self.ask(m.DeleteTopicsRequest(topic_names=("orders",), timeout_ms=timeout_ms), 5)

    def create(self, name: str = "orders") -> Request:
        """Make it, or another."""
        topic = m.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        return self.ask(m.CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7)

    @property
    def changes(self) -> list[str]:
        """What the groups were told."""
        return [change for told in self.groups.told for change in told.values()]


@pytest_asyncio.fixture
async def deleting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deleting]:
    """A catalogue with one topic."""
    monkeypatch.setattr(reload_module, "RETRY_FIRST_S", 0.0)
    async with BrittleStore() as store:
        (lease,) = await store.claim([CATALOGUE_SHARD], "node-1", 60_000)
        harness = Deleting(store, lease)
        await harness.shard.load()
        await harness.shard.ensure("orders", 1)
        yield harness
        await harness.shard.close()


async def turns() -> None:
    """Let the loop turn."""
    for _ in range(20):
        await asyncio.sleep(0)


def error_of(request: Request) -> ErrorCode:
    """The error of the one topic in the only reply."""
    (reply,) = request.replies
    (result,) = reply.responses if isinstance(reply, m.DeleteTopicsResponse) else reply.topics
    return ErrorCode(result.error_code)


async def test_a_deletion_that_can_not_be_stored_is_not_announced(deleting: Deleting) -> None:
    """Groups would forget offsets of a topic that stays."""
    deleting.store.error = StoreError("disk full")
    request = deleting.delete()
    await turns()
    deleting.store.error = None
    await turns()
    assert error_of(request) == ErrorCode.REQUEST_TIMED_OUT  # it may be stored all the same
    assert deleting.changes == ["created"]
    assert deleting.counts == {"orders": 1}


async def test_a_deletion_that_was_stored_though_it_failed_is_told(deleting: Deleting) -> None:
    """A disk that reports an error may have written all the same."""
    append = deleting.store.append

    async def fail_behind(lease: Lease, records: Iterable[Record]) -> None:
        await append(lease, records)
        raise StoreError("the machine may fail right behind it")

    deleting.store.append = fail_behind  # type: ignore[method-assign]
    deleting.delete()
    await turns()
    assert deleting.changes == ["created", "deleted"]
    assert deleting.counts == {}


async def test_a_deletion_is_answered_when_all_groups_have_forgotten(deleting: Deleting) -> None:
    """Until that is durable, a crash would bring the offsets back."""
    request = deleting.delete()
    await turns()
    assert (request.replies, deleting.changes) == ([], ["created", "deleted"])
    deleting.groups.has_forgotten.set()
    await turns()
    assert error_of(request) == ErrorCode.NONE


async def test_groups_that_do_not_forget_in_time_cause_a_timeout(
    deleting: Deleting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka: the topic is gone, and the client asks again."""
    monkeypatch.setattr(topics_module, "_DELETION_MIN_S", 0.0)
    request = deleting.delete(timeout_ms=0)
    await turns()
    assert error_of(request) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("durable_first", [True, False])
async def test_a_topic_is_created_again_only_when_the_former_one_is_forgotten(
    deleting: Deleting, *, durable_first: bool
) -> None:
    """Or it would begin with offsets of the former one, after a crash in between."""
    deletion = deleting.delete()
    if durable_first:
        await turns()
    creation = deleting.create()
    await turns()
    assert (deletion.replies, creation.replies) == ([], [])
    deleting.groups.has_forgotten.set()
    await turns()
    assert (error_of(deletion), error_of(creation)) == (ErrorCode.NONE, ErrorCode.NONE)
    assert deleting.changes == ["created", "deleted", "created"]


@pytest.mark.parametrize("durable_first", [True, False])
async def test_a_topic_is_ensured_only_when_the_former_one_is_forgotten(
    deleting: Deleting, *, durable_first: bool
) -> None:
    """As a client's request has to wait, so has a program that runs a node."""
    deleting.delete()
    if durable_first:
        await turns()
    ensuring = asyncio.create_task(deleting.shard.ensure("orders", 1))
    await turns()
    assert deleting.changes == ["created", "deleted"]
    deleting.groups.has_forgotten.set()
    await ensuring
    assert deleting.changes == ["created", "deleted", "created"]


async def test_a_client_that_vanishes_behind_a_deletion_is_forgotten(deleting: Deleting) -> None:
    deleting.delete()
    vanishing, patient = deleting.create(), deleting.create()
    vanished = weakref.ref(vanishing)
    vanishing.go()
    del vanishing
    assert vanished() is None
    deleting.groups.has_forgotten.set()
    await turns()
    assert error_of(patient) == ErrorCode.NONE


async def test_the_end_of_a_deletion_lets_go_only_what_is_behind_it(deleting: Deleting) -> None:
    """To look at all that waits at each of many ends would take far more time than they do."""
    deleting.delete()
    await turns()
    behind = deleting.create()
    held_back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    deleting.shard.hold_back(held_back)
    both = deleting.create("other")
    deleting.groups.has_forgotten.set()
    await turns()
    assert (behind.resumed, both.resumed) == (1, 0)
    held_back.set_result(None)
    await turns()
    assert (behind.resumed, both.resumed) == (2, 1)
    assert (error_of(behind), error_of(both)) == (ErrorCode.NONE, ErrorCode.NONE)


async def test_requests_behind_a_deletion_are_refused_when_it_fails(deleting: Deleting) -> None:
    deleting.store.error = StoreError("disk full")
    deletion, creation = deleting.delete(), deleting.create()
    await turns()
    deleting.store.error = None
    assert error_of(deletion) == ErrorCode.REQUEST_TIMED_OUT
    assert error_of(creation) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_catalogue_that_is_fenced_is_served_no_more(deleting: Deleting) -> None:
    """Another node has it, and may have other topics by now."""
    deleting.store.error = FencedError(CATALOGUE_SHARD, Fence(0, 1), "no node holds it")
    request = deleting.delete()
    other = Request(m.MetadataRequest(topics=None), 9)
    await turns()
    deleting.store.error = None
    await turns()
    assert error_of(request) == ErrorCode.REQUEST_TIMED_OUT
    deleting.shard.handle(cast(Exchange, other))
    assert other.closed
    assert deleting.shard.core is None


async def test_a_change_ends_the_wait_for_records(harness: Harness) -> None:
    """A consumer that waits for records of a topic that grows has to refresh its metadata."""
    both, other = harness.fetch("orders", "payments"), harness.fetch("payments")
    await harness.shard.ensure("orders", 3)
    assert both.errors() == {"orders": AGAIN, "payments": ErrorCode.NONE}
    assert other.replies == []


@pytest.mark.parametrize("version", range(13, 19))
async def test_a_change_ends_the_wait_of_a_fetch_by_id(harness: Harness, version: int) -> None:
    catalogue = harness.shard.core
    assert catalogue is not None
    topic_id = catalogue.topics["orders"].topic_id
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = (m.FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    request = m.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
    fetch = harness.ask(request, version)
    await harness.shard.ensure("payments", 2)
    assert fetch.replies == []
    await harness.shard.ensure("orders", 3)
    assert fetch.errors() == {"orders": AGAIN}


async def test_a_fetch_is_answered_for_the_first_change_alone(harness: Harness) -> None:
    request = harness.fetch("orders")
    await harness.shard.ensure("orders", 3)
    await harness.shard.ensure("orders", 5)
    assert len(request.replies) == 1


async def test_the_end_ends_the_wait_for_records(harness: Harness) -> None:
    """A node that stops does not let consumers wait until it gives up on them."""
    request = harness.fetch("orders")
    await harness.shard.close()
    assert request.errors() == {"orders": ErrorCode.NONE}


async def test_metadata_is_not_answered_with_nothing(harness: Harness) -> None:
    """A node that stops hangs up: an answer without topics would make members rejoin."""
    await harness.shard.close()
    request = harness.ask(m.MetadataRequest(topics=None), 9)
    assert (request.replies, request.closed) == ([], ["the node is stopping"])


async def test_a_node_that_stops_refuses_to_create_topics(harness: Harness) -> None:
    await harness.shard.close()
    topic = m.CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = harness.ask(m.CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7)
    ((result,),) = (reply.topics for reply in request.replies)
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
