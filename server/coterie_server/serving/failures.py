"""How each request is told that the node can't serve it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import replies

__all__ = ["failure", "refusal"]

#: OffsetFetch says what is wrong on each partition, then at the top, then on each group.
_FETCH_TOP_FROM = 2
_FETCH_GROUPS_FROM = 8


def failure(message: Any, version: int, error: ErrorCode) -> Any:
    """The answer to a request that says no more than an error."""
    return _SHAPES[type(message)](message, version, error)


def refusal(message: Any, version: int, trouble: ErrorCode) -> Any | None:
    """The answer to a request whose shard is in trouble; None if hanging up is better.

    Clients take Metadata at its word: told of no brokers, or of a topic without partitions, they
    rejoin their group or give up what they have.  A lost connection makes them ask again.
    """
    kind = type(message)
    if kind not in _SHAPES:
        return None
    # Topics have no coordinator to look for elsewhere, or to wait for.
    if kind is m.ListOffsetsRequest:
        return failure(message, version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE if kind in _ABOUT_TOPICS else trouble
    return failure(message, version, error)


def _heartbeat(message: Any, version: int, error: ErrorCode) -> m.HeartbeatResponse:
    """While groups are being read, a heartbeat is taken on trust, so that no member starts over."""
    del message, version
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return m.HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


def _leave(message: Any, version: int, error: ErrorCode) -> m.LeaveGroupResponse:
    del message, version
    return m.LeaveGroupResponse(error_code=error)


def _commit(message: m.OffsetCommitRequest, version: int, error: ErrorCode) -> Any:
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


def _fetch_offsets(message: m.OffsetFetchRequest, version: int, error: ErrorCode) -> Any:
    if version >= _FETCH_GROUPS_FROM:
        groups = tuple(
            m.OffsetFetchResponseGroup(group_id=g.group_id, topics=(), error_code=error)
            for g in message.groups
        )
        return m.OffsetFetchResponse(groups=groups)
    if version >= _FETCH_TOP_FROM:
        return m.OffsetFetchResponse(error_code=error)
    return m.OffsetFetchResponse(
        topics=tuple(
            m.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    m.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=error
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics or ()
        )
    )


def _describe(message: m.DescribeGroupsRequest, version: int, error: ErrorCode) -> Any:
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


def _delete(message: m.DeleteGroupsRequest, version: int, error: ErrorCode) -> Any:
    del version
    return m.DeleteGroupsResponse(
        results=tuple(
            m.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id in dict.fromkeys(message.groups_names)
        )
    )


def _create_topics(message: m.CreateTopicsRequest, version: int, error: ErrorCode) -> Any:
    del version
    results = (m.CreatableTopicResult(name=t.name, error_code=error) for t in message.topics)
    return m.CreateTopicsResponse(topics=tuple(results))


def _create_partitions(message: m.CreatePartitionsRequest, version: int, error: ErrorCode) -> Any:
    del version
    results = (m.CreatePartitionsTopicResult(name=t.name, error_code=error) for t in message.topics)
    return m.CreatePartitionsResponse(results=tuple(results))


def _delete_topics(message: m.DeleteTopicsRequest, version: int, error: ErrorCode) -> Any:
    del version
    names = (*message.topic_names, *(t.name for t in message.topics))
    results = (m.DeletableTopicResult(name=name, error_code=error) for name in names)
    return m.DeleteTopicsResponse(responses=tuple(results))


def _create_acls(message: m.CreateAclsRequest, version: int, error: ErrorCode) -> Any:
    del version
    result = m.AclCreationResult(error_code=error, error_message=None)
    return m.CreateAclsResponse(results=(result,) * len(message.creations))


def _delete_acls(message: m.DeleteAclsRequest, version: int, error: ErrorCode) -> Any:
    del version
    result = m.DeleteAclsFilterResult(error_code=error, error_message=None, matching_acls=())
    return m.DeleteAclsResponse(filter_results=(result,) * len(message.filters))


def _alter_users(
    message: m.AlterUserScramCredentialsRequest, version: int, error: ErrorCode
) -> Any:
    del version
    deleted, set_anew = message.deletions, message.upsertions
    names = dict.fromkeys([*(each.name for each in deleted), *(each.name for each in set_anew)])
    results = (
        m.AlterUserScramCredentialsResult(user=name, error_code=error, error_message=None)
        for name in names
    )
    return m.AlterUserScramCredentialsResponse(results=tuple(results))


def _describe_acls(_message: Any, _version: int, error: ErrorCode) -> Any:
    return m.DescribeAclsResponse(error_code=error, error_message=None, resources=())


def _describe_users(_message: Any, _version: int, error: ErrorCode) -> Any:
    return m.DescribeUserScramCredentialsResponse(error_code=error, error_message=None, results=())


def _list_offsets(message: m.ListOffsetsRequest, version: int, error: ErrorCode) -> Any:
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


_ABOUT_TOPICS: Final = frozenset(
    {
        m.AlterUserScramCredentialsRequest,
        m.CreateAclsRequest,
        m.CreatePartitionsRequest,
        m.CreateTopicsRequest,
        m.DeleteAclsRequest,
        m.DeleteTopicsRequest,
        m.DescribeAclsRequest,
        m.DescribeUserScramCredentialsRequest,
    }
)

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
    m.HeartbeatRequest: _heartbeat,
    m.JoinGroupRequest: lambda q, v, e: replies.join_error(v, e, q.member_id),
    m.LeaveGroupRequest: _leave,
    m.ListOffsetsRequest: _list_offsets,
    m.ListGroupsRequest: lambda _q, _v, e: m.ListGroupsResponse(error_code=e, groups=()),
    m.OffsetCommitRequest: _commit,
    m.OffsetDeleteRequest: lambda _q, _v, e: m.OffsetDeleteResponse(error_code=e, topics=()),
    m.OffsetFetchRequest: _fetch_offsets,
    m.SyncGroupRequest: lambda _q, _v, e: replies.sync_error(e),
}
