"""The catalogue being served: who waits for records, and what happens at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.clock import Clock
from coterie_server.ids import RandomIds
from coterie_server.net import Exchange
from coterie_server.store import MemoryStore, StoreError
from coterie_server.topic_runner import CATALOGUE_SHARD, TopicCounts, TopicRunner
from coterie_server.topics import Catalogue, TopicConfig
from tests.support.brittle_store import BrittleStore

pytestmark = pytest.mark.asyncio

AGAIN = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Request:
    """Stands in for an exchange: a request, and what came of it."""

    def __init__(self, message: Any, version: int) -> None:
        self.request = SimpleNamespace(message=message, api_version=version)
        self.replies: list[Any] = []
        self.closed: list[str] = []

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


class Bench:
    """A runner with two topics."""

    def __init__(self, runner: TopicRunner) -> None:
        self.runner = runner

    def ask(self, message: Any, version: int) -> Request:
        """Hand in a request."""
        request = Request(message, version)
        self.runner.submit(cast(Exchange, request))
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


def catalogue() -> Catalogue:
    """The core that is run."""
    config = TopicConfig(node_id=1, host="here", port=9092, cluster_id="coterie")
    return Catalogue(config, RandomIds())


@pytest_asyncio.fixture
async def bench() -> Bench:
    """Give a runner with two topics."""
    store = MemoryStore()
    await store.open()
    lease = await store.claim(CATALOGUE_SHARD, "node-1", "here:9092", 0, 60_000)
    assert lease is not None
    runner = TopicRunner(
        lease,
        store,
        catalogue,
        Clock(),
        counts=TopicCounts(),
        on_change=lambda change: runner.wake(change.topic),
    )
    await runner.load()
    for topic in ("orders", "payments"):
        await runner.ensure(topic, 1)
    return Bench(runner)


async def test_a_topic_that_can_not_be_stored_is_no_topic() -> None:
    """Nor is the next one, while the catalogue is read again.

    Seed 4941 of brief: the disk failed while the daemon made the topics that it was started with.
    It went on as if the first one were there, and broke over the second one.
    """
    store = BrittleStore()
    await store.open()
    lease = await store.claim(CATALOGUE_SHARD, "node-1", "here:9092", 0, 60_000)
    assert lease is not None
    runner = TopicRunner(
        lease, store, catalogue, Clock(), counts=TopicCounts(), on_change=lambda _change: None
    )
    await runner.load()
    store.error = StoreError("disk full")
    for topic in ("orders", "payments"):
        with pytest.raises(StoreError, match=topic):
            await runner.ensure(topic, 1)
    await runner.close()


async def test_a_change_ends_the_wait_for_records(bench: Bench) -> None:
    """Whoever waits for records of a topic that grows is told at once to look again."""
    both, other = bench.fetch("orders", "payments"), bench.fetch("payments")
    await bench.runner.ensure("orders", 3)
    assert both.errors() == {"orders": AGAIN, "payments": ErrorCode.NONE}
    assert other.replies == []


@pytest.mark.parametrize("version", range(13, 19))
async def test_a_change_ends_the_wait_of_who_asked_by_id(bench: Bench, version: int) -> None:
    """The name is what changes are told by, though the request and its answer have none."""
    catalogue = bench.runner.catalogue
    assert catalogue is not None
    topic_id = catalogue.topics["orders"].topic_id
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = (m.FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    fetch = bench.ask(m.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics), version)
    await bench.runner.ensure("payments", 2)
    assert fetch.replies == []
    await bench.runner.ensure("orders", 3)
    assert fetch.errors() == {"orders": AGAIN}


async def test_the_wait_is_over_once(bench: Bench) -> None:
    """A request is answered for the first change and has nothing to do with the second."""
    request = bench.fetch("orders")
    await bench.runner.ensure("orders", 3)
    await bench.runner.ensure("orders", 5)
    assert len(request.replies) == 1


async def test_the_end_ends_the_wait_for_records(bench: Bench) -> None:
    """A node that stops does not let consumers wait until it gives up on them."""
    request = bench.fetch("orders")
    await bench.runner.close()
    assert request.errors() == {"orders": ErrorCode.NONE}


async def test_metadata_is_not_answered_with_nothing(bench: Bench) -> None:
    """A node that stops hangs up: an answer without topics would make members rejoin."""
    await bench.runner.close()
    request = bench.ask(m.MetadataRequest(topics=None), 9)
    assert (request.replies, request.closed) == ([], ["the node is stopping"])


async def test_changes_are_refused_at_the_end(bench: Bench) -> None:
    """A node that stops creates no topics any more, and says so."""
    await bench.runner.close()
    topic = m.CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = bench.ask(m.CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7)
    ((result,),) = (reply.topics for reply in request.replies)
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
