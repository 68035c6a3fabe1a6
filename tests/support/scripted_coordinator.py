"""A coordinator that gives the one member of its group an assignment that the test has written.

It is as much of a server as a stock client needs to join: one broker, which leads every partition
of one topic and coordinates every group, and which has no records.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any, Self

from coterie_protocol import (
    API_VERSIONS,
    ApiKey,
    FrameReader,
    Request,
    decode_request,
    encode_response,
)
from coterie_protocol.messages import (
    ApiVersion,
    ApiVersionsResponse,
    Coordinator,
    FetchableTopicResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
    PartitionData,
    SyncGroupResponse,
)

__all__ = ["ScriptedCoordinator"]

_NODE = 1
_MEMBER = "the-member"
_TOPIC_ID = uuid.UUID(int=1)
_UNKNOWN_TOPIC = 3

Answer = Callable[[Any, int], Any]


class ScriptedCoordinator:
    """Serves from entering `async with` to leaving it."""

    def __init__(self, topic: str, partitions: int, assignment: bytes) -> None:
        self.topic = topic
        self.partitions = partitions
        self.assignment = assignment
        #: Every request so far, in the order in which they came.
        self.requests: list[Request] = []
        self._host, self._port = "127.0.0.1", 0
        self._server: asyncio.Server | None = None
        self._closing = asyncio.Event()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._answers: dict[ApiKey, Answer] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.JOIN_GROUP: self._join_group,
            ApiKey.SYNC_GROUP: self._sync_group,
            ApiKey.HEARTBEAT: lambda _message, _version: HeartbeatResponse(),
            ApiKey.LEAVE_GROUP: lambda _message, _version: LeaveGroupResponse(),
            ApiKey.OFFSET_FETCH: _offset_fetch,
            ApiKey.OFFSET_COMMIT: _offset_commit,
            ApiKey.LIST_OFFSETS: _list_offsets,
            ApiKey.FETCH: _fetch,
        }

    @property
    def address(self) -> str:
        """Where clients are to connect."""
        return f"{self._host}:{self._port}"

    def times_asked(self, api: ApiKey) -> int:
        """How many requests for an API there were."""
        return sum(request.api_key is api for request in self.requests)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._closing.set()
        for writer in self._connections.values():
            writer.close()
        await asyncio.gather(*self._connections)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for payload in frames.feed(data):
                    writer.write(await self._reply(decode_request(payload)))
                    await writer.drain()
        except ConnectionError:
            pass  # clients come and go as they like
        finally:
            writer.close()
            del self._connections[task]

    async def _reply(self, request: Request) -> bytes:
        self.requests.append(request)
        if request.api_key is ApiKey.FETCH:
            await self._park(request.message.max_wait_ms / 1000)
        answer = self._answers[request.api_key](request.message, request.api_version)
        return encode_response(answer, request.api_version, request.correlation_id)

    async def _park(self, seconds: float) -> None:
        """Let a fetch wait for records that never come; an instant answer would come back at once.

        Nothing else waits for it: stock clients fetch on a connection of their own.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def _api_versions(self, _message: Any, _version: int) -> ApiVersionsResponse:
        # Produce is among them: without it librdkafka takes the server for one of before 2015.
        spoken = (
            ApiVersion(api_key=api, min_version=versions.first, max_version=versions.last)
            for api, versions in API_VERSIONS.items()
        )
        return ApiVersionsResponse(api_keys=tuple(spoken))

    def _metadata(self, message: Any, _version: int) -> MetadataResponse:
        asked = message.topics or ()
        names = {topic.name for topic in asked} or {self.topic}
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=_NODE, host=self._host, port=self._port),),
            cluster_id="scripted",
            controller_id=_NODE,
            topics=tuple(self._topic(name) for name in sorted(names)),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name != self.topic:
            return MetadataResponseTopic(error_code=_UNKNOWN_TOPIC, name=name, partitions=())
        partitions = (
            MetadataResponsePartition(
                partition_index=index, leader_id=_NODE, replica_nodes=(_NODE,), isr_nodes=(_NODE,)
            )
            for index in range(self.partitions)
        )
        return MetadataResponseTopic(name=name, topic_id=_TOPIC_ID, partitions=tuple(partitions))

    def _find_coordinator(self, message: Any, version: int) -> FindCoordinatorResponse:
        if version < 4:
            return FindCoordinatorResponse(node_id=_NODE, host=self._host, port=self._port)
        coordinators = (
            Coordinator(
                key=key, node_id=_NODE, host=self._host, port=self._port, error_message=None
            )
            for key in message.coordinator_keys
        )
        return FindCoordinatorResponse(coordinators=tuple(coordinators))

    def _join_group(self, message: Any, _version: int) -> JoinGroupResponse:
        protocol = message.protocols[0]
        member = JoinGroupResponseMember(
            member_id=_MEMBER,
            group_instance_id=message.group_instance_id,
            metadata=protocol.metadata,
        )
        return JoinGroupResponse(
            generation_id=self.times_asked(ApiKey.JOIN_GROUP),
            protocol_type=message.protocol_type,
            protocol_name=protocol.name,
            leader=_MEMBER,
            member_id=_MEMBER,
            members=(member,),
        )

    def _sync_group(self, message: Any, _version: int) -> SyncGroupResponse:
        """Whatever the leader has brought."""
        return SyncGroupResponse(
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=self.assignment,
        )


def _offset_fetch(message: Any, version: int) -> OffsetFetchResponse:
    """Nothing is committed."""
    if version < 8:
        topics = tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata=None
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics or ()
        )
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(groups=tuple(_group_offsets(group) for group in message.groups))


def _group_offsets(group: Any) -> OffsetFetchResponseGroup:
    topics = tuple(
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, metadata=None
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in group.topics or ()
    )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _offset_commit(message: Any, _version: int) -> OffsetCommitResponse:
    """Taken note of, and forgotten."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index)
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _list_offsets(message: Any, version: int) -> ListOffsetsResponse:
    """Every partition begins and ends at 0."""
    found: dict[str, Any] = {"offset": 0} if version else {"old_style_offsets": (0,)}
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ListOffsetsPartitionResponse(partition_index=partition.partition_index, **found)
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _fetch(message: Any, _version: int) -> FetchResponse:
    """No records: zero bytes of them, for null ones trip librdkafka up."""
    return FetchResponse(
        responses=tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionData(
                        partition_index=partition.partition,
                        high_watermark=0,
                        last_stable_offset=0,
                        log_start_offset=0,
                        records=b"",
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )
