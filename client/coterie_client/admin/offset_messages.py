"""Requests about offsets, and what their answers say.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from coterie_client.admin.models import CommittedOffset, FoundOffset, Result, error_of
from coterie_client.errors import UnexpectedAnswerError
from coterie_client.wire.addresses import NodeAddress, TopicPartition, named_nodes
from coterie_client.wire.versions import ByVersion
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import LeaderNotAvailableError, NonEmptyGroupError
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "commit_request",
    "commit_results",
    "delete_request",
    "delete_results",
    "fetch_request",
    "fetched_offsets",
    "list_request",
    "list_results",
    "partition_leaders",
]

V = TypeVar("V")

#: The timestamps that stand for the two ends of a partition in ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2

_NOT_A_REPLICA: Final = -1
#: Since this version, OffsetFetch has a list of groups.
_MANY_GROUPS_FROM: Final = 8


def fetch_request(
    group: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> ByVersion:
    """OffsetFetch for some partitions of a group, or for all that have an offset."""
    asked = None if partitions is None else _by_topic(partitions)

    def build(version: int) -> OffsetFetchRequest:
        if version < _MANY_GROUPS_FROM:
            return OffsetFetchRequest(
                group_id=group,
                topics=_topics(OffsetFetchRequestTopic, asked),
                require_stable=require_stable,
            )
        topics = _topics(OffsetFetchRequestTopics, asked)
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
        return OffsetFetchRequest(groups=(wanted,), require_stable=require_stable)

    return ByVersion(OffsetFetchRequest, build)


def _topics(cls: Callable[..., V], asked: Mapping[str, list[int]] | None) -> tuple[V, ...] | None:
    if asked is None:
        return None
    return tuple(cls(name=name, partition_indexes=tuple(its)) for name, its in asked.items())


def fetched_offsets(
    answer: OffsetFetchResponse, group: str
) -> dict[TopicPartition, CommittedOffset]:
    """A group's committed offsets; raises the error of the group or of a partition."""
    found: Any = next((g for g in answer.groups if g.group_id == group), None)
    if found is None and answer.groups:
        raise UnexpectedAnswerError(f"The server's answer says nothing about group {group}.")
    part = found or answer
    _raise(error_of(part.error_code, f"group {group}"))
    committed: dict[TopicPartition, CommittedOffset] = {}
    for partition, p in _partitions(part):
        _raise(error_of(p.error_code, f"group {group}, {_name(partition)}"))
        if p.committed_offset >= 0:
            epoch = p.committed_leader_epoch if p.committed_leader_epoch >= 0 else None
            committed[partition] = CommittedOffset(p.committed_offset, p.metadata or "", epoch)
    return committed


def commit_request(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> OffsetCommitRequest:
    """OffsetCommit from outside the group: without a generation or member."""
    topics = (
        OffsetCommitRequestTopic(
            name=name,
            partitions=tuple(_commit_entry(number, offsets[name, number]) for number in numbers),
        )
        for name, numbers in _by_topic(offsets).items()
    )
    return OffsetCommitRequest(group_id=group, topics=tuple(topics))


def _commit_entry(number: int, position: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=position.offset,
        committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
        committed_metadata=position.metadata,
    )


def commit_results(answer: OffsetCommitResponse, group: str) -> dict[TopicPartition, Result[None]]:
    """The result of OffsetCommit for each partition."""
    return {
        partition: Result(error=_commit_error(p.error_code, group, partition))
        for partition, p in _partitions(answer)
    }


def _commit_error(code: int, group: str, partition: TopicPartition) -> CoterieError | None:
    where = f"group {group}, {_name(partition)}"
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        # The coordinator rejects commits of non-members while the group has members. An
        # administrator never is one, and needs to know about the members instead.
        return NonEmptyGroupError(f"{where}: stop the group's members before setting its offsets")
    return error_of(code, where)


def delete_request(group: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """OffsetDelete for some partitions of a group."""
    topics = (
        OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=n) for n in numbers),
        )
        for name, numbers in _by_topic(partitions).items()
    )
    return OffsetDeleteRequest(group_id=group, topics=tuple(topics))


def delete_results(answer: OffsetDeleteResponse, group: str) -> dict[TopicPartition, Result[None]]:
    """The result of OffsetDelete for each partition; raises the error of the group."""
    _raise(error_of(answer.error_code, f"group {group}"))
    return {
        partition: Result(error=error_of(p.error_code, f"group {group}, {_name(partition)}"))
        for partition, p in _partitions(answer)
    }


def list_request(partitions: Iterable[TopicPartition], timestamp_ms: int) -> ListOffsetsRequest:
    """ListOffsets at a time, or at the beginning or end of partitions."""
    topics = (
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=number, timestamp=timestamp_ms)
                for number in numbers
            ),
        )
        for name, numbers in _by_topic(partitions).items()
    )
    return ListOffsetsRequest(replica_id=_NOT_A_REPLICA, topics=tuple(topics))


def list_results(answer: ListOffsetsResponse) -> dict[TopicPartition, Result[FoundOffset]]:
    """The result of ListOffsets for each partition."""
    results: dict[TopicPartition, Result[FoundOffset]] = {}
    for partition, p in _partitions(answer):
        # Version 0 has a list of offsets, and no timestamps.
        offset = p.old_style_offsets[0] if p.old_style_offsets else p.offset
        found = FoundOffset(_known(offset), _known(p.timestamp), _known(p.leader_epoch))
        error = error_of(p.error_code, _name(partition))
        results[partition] = Result(found) if error is None else Result(error=error)
    return results


def partition_leaders(
    answer: MetadataResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Result[NodeAddress]]:
    """The node that leads each partition."""
    nodes = named_nodes(answer)
    errors = {t.name: error_of(t.error_code, f"topic {t.name}") for t in answer.topics}
    leaders = {
        (t.name, p.partition_index): p.leader_id for t in answer.topics for p in t.partitions
    }
    results: dict[TopicPartition, Result[NodeAddress]] = {}
    for partition in partitions:
        node = nodes.get(leaders.get(partition, -1))
        error = errors.get(partition[0])
        if error is None and partition not in leaders:
            error = error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _name(partition))
        elif error is None and node is None:
            error = LeaderNotAvailableError(_name(partition))
        results[partition] = Result(node, error)
    return results


def _partitions(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """The entry of each partition in an answer."""
    for topic in answer.topics:
        for entry in topic.partitions:
            yield (topic.name, entry.partition_index), entry


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _name(partition: TopicPartition) -> str:
    return f"partition {partition[1]} of {partition[0]}"


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _raise(error: CoterieError | None) -> None:
    if error is not None:
        raise error
