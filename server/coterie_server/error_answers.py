"""What each request is answered that nothing comes of: no more than an error, where it has room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode

__all__ = [
    "can_be_refused",
    "error_answer",
    "has_error_answer",
    "join_error",
    "no_offsets",
    "sync_error",
]

#: OffsetFetch says what is wrong on each partition, then at the top, then on each group.
_FETCH_TOP_FROM: Final = 2
_FETCH_GROUPS_FROM: Final = 8
#: From this version on JoinGroup says null where there is no protocol.
_NO_PROTOCOL_FROM: Final = 7


def error_answer(message: object, version: int, error: ErrorCode) -> Any:  # noqa: ANN401  # to any request
    """The answer to a request that says no more than an error."""
    return _SHAPES[type(message)](message, version, error)


def has_error_answer(message: object) -> bool:
    """Whether there is one; what is not answered by an error is hung up on, or can't fail."""
    return can_be_refused(type(message))


def can_be_refused(kind: type[Any]) -> bool:
    """Whether requests of a class have an answer that says no more than an error."""
    return kind in _SHAPES


# -- members -----------------------------------------------------------------------------------


def join_error(version: int, error: ErrorCode, member_id: str = "") -> m.JoinGroupResponse:
    """The answer to a join that failed."""
    return m.JoinGroupResponse(
        error_code=error,
        protocol_name=None if version >= _NO_PROTOCOL_FROM else "",
        leader="",
        member_id=member_id,
        members=(),
    )


def sync_error(error: ErrorCode) -> m.SyncGroupResponse:
    """The answer to a sync that failed."""
    return m.SyncGroupResponse(error_code=error, assignment=b"")


def _leave(message: object, version: int, error: ErrorCode) -> m.LeaveGroupResponse:
    del message, version
    return m.LeaveGroupResponse(error_code=error)


# -- offsets and records -----------------------------------------------------------------------


def _commit(
    message: m.OffsetCommitRequest, version: int, error: ErrorCode
) -> m.OffsetCommitResponse:
    del version
    return m.OffsetCommitResponse(
        topics=tuple(
            m.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    m.OffsetCommitResponsePartition(
                        partition_index=p.partition_index, error_code=error
                    )
                    for p in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _fetch_offsets(
    message: m.OffsetFetchRequest, version: int, error: ErrorCode
) -> m.OffsetFetchResponse:
    if version >= _FETCH_GROUPS_FROM:
        groups = tuple(
            m.OffsetFetchResponseGroup(group_id=g.group_id, topics=(), error_code=error)
            for g in message.groups
        )
        return m.OffsetFetchResponse(groups=groups)
    if version >= _FETCH_TOP_FROM:
        return m.OffsetFetchResponse(error_code=error)
    # Clients of these versions look for errors at the partitions alone.
    topics = tuple(no_offsets(topic, error) for topic in message.topics or ())
    return m.OffsetFetchResponse(topics=topics)


def no_offsets(topic: m.OffsetFetchRequestTopic, error: ErrorCode) -> m.OffsetFetchResponseTopic:
    """That a topic's offsets can't be told."""
    return m.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            m.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ),
    )


def _list_offsets(
    message: m.ListOffsetsRequest, version: int, error: ErrorCode
) -> m.ListOffsetsResponse:
    del version
    return m.ListOffsetsResponse(
        topics=tuple(
            m.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    m.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, error_code=error
                    )
                    for p in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _produce(message: m.ProduceRequest, version: int, error: ErrorCode) -> m.ProduceResponse:
    del version
    return m.ProduceResponse(
        responses=tuple(
            m.TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(
                    m.PartitionProduceResponse(index=each.index, error_code=error, base_offset=-1)
                    for each in topic.partition_data
                ),
            )
            for topic in message.topic_data
        )
    )


# -- groups, topics and rights -----------------------------------------------------------------


def _describe(
    message: m.DescribeGroupsRequest, version: int, error: ErrorCode
) -> m.DescribeGroupsResponse:
    del version
    return m.DescribeGroupsResponse(
        groups=tuple(
            m.DescribedGroup(
                error_code=error,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=(),
            )
            for group_id in message.groups
        )
    )


def _delete(
    message: m.DeleteGroupsRequest, version: int, error: ErrorCode
) -> m.DeleteGroupsResponse:
    del version
    return m.DeleteGroupsResponse(
        results=tuple(
            m.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id in dict.fromkeys(message.groups_names)
        )
    )


def _create_topics(
    message: m.CreateTopicsRequest, version: int, error: ErrorCode
) -> m.CreateTopicsResponse:
    del version
    results = (m.CreatableTopicResult(name=t.name, error_code=error) for t in message.topics)
    return m.CreateTopicsResponse(topics=tuple(results))


def _create_partitions(
    message: m.CreatePartitionsRequest, version: int, error: ErrorCode
) -> m.CreatePartitionsResponse:
    del version
    results = (m.CreatePartitionsTopicResult(name=t.name, error_code=error) for t in message.topics)
    return m.CreatePartitionsResponse(results=tuple(results))


def _delete_topics(
    message: m.DeleteTopicsRequest, version: int, error: ErrorCode
) -> m.DeleteTopicsResponse:
    del version
    by_name = (m.DeletableTopicResult(name=name, error_code=error) for name in message.topic_names)
    # By whichever of the two a client has asked, it looks for that in the answer.
    by_either = (
        m.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error)
        for each in message.topics
    )
    return m.DeleteTopicsResponse(responses=(*by_name, *by_either))


def _create_acls(
    message: m.CreateAclsRequest, version: int, error: ErrorCode
) -> m.CreateAclsResponse:
    del version
    result = m.AclCreationResult(error_code=error, error_message=None)
    return m.CreateAclsResponse(results=(result,) * len(message.creations))


def _delete_acls(
    message: m.DeleteAclsRequest, version: int, error: ErrorCode
) -> m.DeleteAclsResponse:
    del version
    result = m.DeleteAclsFilterResult(error_code=error, error_message=None, matching_acls=())
    return m.DeleteAclsResponse(filter_results=(result,) * len(message.filters))


def _alter_users(
    message: m.AlterUserScramCredentialsRequest, version: int, error: ErrorCode
) -> m.AlterUserScramCredentialsResponse:
    del version
    deleted, set_anew = message.deletions, message.upsertions
    names = dict.fromkeys([*(each.name for each in deleted), *(each.name for each in set_anew)])
    results = (
        m.AlterUserScramCredentialsResult(user=name, error_code=error, error_message=None)
        for name in names
    )
    return m.AlterUserScramCredentialsResponse(results=tuple(results))


def _describe_acls(_message: object, _version: int, error: ErrorCode) -> m.DescribeAclsResponse:
    return m.DescribeAclsResponse(error_code=error, error_message=None, resources=())


def _describe_users(
    _message: object, _version: int, error: ErrorCode
) -> m.DescribeUserScramCredentialsResponse:
    return m.DescribeUserScramCredentialsResponse(error_code=error, error_message=None, results=())


_SHAPES: Final[dict[type[Any], Callable[[Any, int, ErrorCode], Any]]] = {
    m.AlterUserScramCredentialsRequest: _alter_users,
    m.CreateAclsRequest: _create_acls,
    m.DeleteAclsRequest: _delete_acls,
    m.DescribeAclsRequest: _describe_acls,
    m.DescribeUserScramCredentialsRequest: _describe_users,
    m.CreatePartitionsRequest: _create_partitions,
    m.CreateTopicsRequest: _create_topics,
    m.DeleteGroupsRequest: _delete,
    m.DeleteTopicsRequest: _delete_topics,
    m.DescribeGroupsRequest: _describe,
    m.HeartbeatRequest: lambda _q, _v, e: m.HeartbeatResponse(error_code=e),
    m.JoinGroupRequest: lambda q, v, e: join_error(v, e, q.member_id),
    m.LeaveGroupRequest: _leave,
    m.ListOffsetsRequest: _list_offsets,
    m.ListGroupsRequest: lambda _q, _v, e: m.ListGroupsResponse(error_code=e, groups=()),
    m.OffsetCommitRequest: _commit,
    m.OffsetDeleteRequest: lambda _q, _v, e: m.OffsetDeleteResponse(error_code=e, topics=()),
    m.OffsetFetchRequest: _fetch_offsets,
    m.ProduceRequest: _produce,
    m.SyncGroupRequest: lambda _q, _v, e: sync_error(e),
}
