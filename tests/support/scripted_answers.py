"""What a coordinator and a broker may answer, for tests that say it by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from coterie_client.wire.addresses import NodeAddress
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["NODE", "committed", "fetched", "refusal", "roster", "told_topics"]

NODE: Final = NodeAddress("node", 9092)


def _refused_topics(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """The answer to a question for topics: an error for each."""
    topics = tuple(
        MetadataResponseTopic(error_code=code, name=each.name, partitions=())
        for each in request.topics or ()
    )
    return MetadataResponse(brokers=(), controller_id=1, topics=topics)


#: How each kind of request is answered with an error.
_REFUSALS: Final[Mapping[type[Any], Callable[[Any, ErrorCode], Any]]] = {
    FindCoordinatorRequest: lambda _, code: FindCoordinatorResponse(
        error_code=code, node_id=-1, host="", port=-1
    ),
    MetadataRequest: _refused_topics,
    JoinGroupRequest: lambda _, code: JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id="m-given", members=()
    ),
    SyncGroupRequest: lambda _, code: SyncGroupResponse(error_code=code, assignment=b""),
    HeartbeatRequest: lambda _, code: HeartbeatResponse(error_code=code),
    OffsetCommitRequest: lambda request, code: committed(request, (code,)),
    OffsetFetchRequest: lambda request, code: fetched(request, -1, code),
    LeaveGroupRequest: lambda _, code: LeaveGroupResponse(error_code=code),
    DescribeGroupsRequest: lambda _request, _code: DescribeGroupsResponse(groups=()),
}


def refusal(request: Any, code: ErrorCode) -> Any:
    """A request's answer that is nothing but an error."""
    return _REFUSALS[type(request)](request, code)


def told_topics(request: MetadataRequest, known: Mapping[str, int | None]) -> MetadataResponse:
    """The answer to a question for topics, with those that exist."""
    broker = MetadataResponseBroker(node_id=1, host=NODE.host, port=NODE.port)
    names = [each.name or "" for each in request.topics or ()]
    topics = tuple(_topic(name, known.get(name)) for name in names)
    return MetadataResponse(brokers=(broker,), controller_id=1, topics=topics)


def _topic(name: str, count: int | None) -> MetadataResponseTopic:
    if count is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(error_code=code, name=name, partitions=())
    partitions = tuple(
        MetadataResponsePartition(
            partition_index=number, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        for number in range(count)
    )
    return MetadataResponseTopic(name=name, partitions=partitions)


def roster(members: Mapping[str, bytes]) -> tuple[JoinGroupResponseMember, ...]:
    """The members, as the leader is told of them."""
    return tuple(
        JoinGroupResponseMember(member_id=name, metadata=data) for name, data in members.items()
    )


def committed(request: OffsetCommitRequest, codes: Sequence[ErrorCode]) -> OffsetCommitResponse:
    """The answer to a commit: with one code for all partitions, or one for each."""
    left = list(codes)
    topics = []
    for topic in request.topics:
        partitions = tuple(
            OffsetCommitResponsePartition(
                partition_index=each.partition_index,
                error_code=left.pop(0) if len(left) > 1 else left[0],
            )
            for each in topic.partitions
        )
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return OffsetCommitResponse(topics=tuple(topics))


def fetched(request: OffsetFetchRequest, offset: int, code: ErrorCode) -> OffsetFetchResponse:
    """The answer to a question for offsets: one for all."""
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=number,
                    committed_offset=offset,
                    metadata="m" if offset >= 0 else "",
                    error_code=code,
                )
                for number in topic.partition_indexes
            ),
        )
        for topic in request.topics or ()
    )
    return OffsetFetchResponse(topics=topics)
