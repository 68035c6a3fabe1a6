"""What a node asks of the others about topics, each in a version that all nodes speak."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving.cluster import CATALOGUE_SHARD
from coterie_server.serving.peers import PeerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from coterie_server.net import Exchange
    from coterie_server.serving.cluster import Cluster, NodeNote
    from coterie_server.serving.peers import AskNode

__all__ = ["LATEST", "OtherNodes"]

#: The "time" at the end of a partition, in ListOffsets.
LATEST: Final = -1

_CREATE_PARTITIONS_VERSION: Final = 3
_CREATE_TOPICS_VERSION: Final = 7
_METADATA_VERSION: Final = 9
_LIST_OFFSETS_VERSION: Final = 8
_TIMEOUT_MS: Final = 5_000

#: How many requests of clients are passed on at a time, each on a connection of its own.
_PASSED_ON_AT_ONCE: Final = 16
#: How long another one waits for its turn.
_TURN_S: Final = 5.0


class OtherNodes:
    """The other nodes of a cluster; every method raises `PeerError` if one can't be asked."""

    def __init__(self, cluster: Cluster, ask: AskNode) -> None:
        self._cluster = cluster
        self._ask = ask
        self._places = asyncio.Semaphore(_PASSED_ON_AT_ONCE)

    def _owner(self) -> NodeNote:
        """The node that has the catalogue of topics."""
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        if owner is None:
            raise PeerError("no node has the catalogue of topics just now")
        return owner

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a client's request may be passed on, as few at a time may."""
        try:
            async with asyncio.timeout(_TURN_S):
                await self._places.acquire()
        except TimeoutError:
            raise PeerError("too much is being asked of it") from None
        try:
            yield
        finally:
            self._places.release()

    async def answer(self, exchange: Exchange) -> Any:  # noqa: ANN401  # any response
        """What the owner of the catalogue answers to a request about topics."""
        api, version = exchange.request.api_key, exchange.version
        return await self._ask(self._owner(), api, exchange.message, version)

    async def create(self, name: str, partitions: int) -> str:
        """Create a topic, unless it exists; return why it can't be, if so."""
        topic = m.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=()
        )
        asked = m.CreateTopicsRequest(topics=(topic,), timeout_ms=_TIMEOUT_MS)
        answer = await self._ask(self._owner(), ApiKey.CREATE_TOPICS, asked, _CREATE_TOPICS_VERSION)
        (result,) = answer.topics
        _raise_if_moved(result.error_code)
        is_there = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return "" if is_there else str(result.error_message)

    async def extend(self, name: str, partitions: int) -> str:
        """Give a topic more partitions; return why it can't have them, if so."""
        topic = m.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        asked = m.CreatePartitionsRequest(
            topics=(topic,), timeout_ms=_TIMEOUT_MS, validate_only=False
        )
        answer = await self._ask(
            self._owner(), ApiKey.CREATE_PARTITIONS, asked, _CREATE_PARTITIONS_VERSION
        )
        (result,) = answer.results
        _raise_if_moved(result.error_code)
        return str(result.error_message) if result.error_code else ""

    async def make_for_metadata(self, names: Iterable[str]) -> bool:
        """Have topics made as Metadata has them made; return whether any exists now."""
        topics = tuple(m.MetadataRequestTopic(name=name) for name in names)
        asked = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        async with self.turn():
            answer = await self._ask(self._owner(), ApiKey.METADATA, asked, _METADATA_VERSION)
        return any(not topic.error_code for topic in answer.topics)

    async def ends(self, indexes: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int, int]]:
        """How far the groups of each other node have committed in partitions, by topic."""
        asked = m.ListOffsetsRequest(
            replica_id=-1,
            by_itself=True,
            topics=tuple(_at_the_end(name, its) for name, its in indexes.items()),
        )
        nodes = self._cluster.others
        answers = await asyncio.gather(
            *(self._ask(node, ApiKey.LIST_OFFSETS, asked, _LIST_OFFSETS_VERSION) for node in nodes)
        )
        told = [
            (topic.name, each)
            for answer in answers
            for topic in answer.topics
            for each in topic.partitions
        ]
        if any(each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for _, each in told):
            raise PeerError("another node has just taken groups over, and is reading them")
        return (
            (topic, each.partition_index, each.offset)
            for topic, each in told
            if not each.error_code  # it may not have heard of the topic yet
        )


def _at_the_end(name: str, indexes: Iterable[int]) -> m.ListOffsetsTopic:
    return m.ListOffsetsTopic(
        name=name,
        partitions=tuple(
            m.ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes
        ),
    )


def _raise_if_moved(error: int) -> None:
    if error == ErrorCode.NOT_CONTROLLER:
        raise PeerError("the node that had the catalogue of topics has it no longer")
