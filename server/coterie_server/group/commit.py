"""OffsetCommit: how far a group has come, as its members say or a consumer without a group."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OffsetsCommitted
from coterie_protocol.messages import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie_server.group import absence
from coterie_server.group.records import END_OF_TIME_MS, OffsetRow
from coterie_server.group.states import GroupState
from coterie_server.group.step import check_generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie_protocol.messages import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
        OffsetDeleteRequestTopic,
    )
    from coterie_server.group.group import Group
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["answered", "commit"]

#: From this version on a commit for a group that is not there says so.
_GROUP_ID_NOT_FOUND_FROM = 9
#: How many results of partitions are remembered.
_RESULTS_MAX = 4_096

#: How `OffsetRow` makes itself, without the call in between.
_new = tuple.__new__

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(step: Step, request: Request) -> None:
    """Store offsets."""
    message: OffsetCommitRequest = request.message
    # If nothing is left to commit, the group is neither looked at nor made.
    can_store = _names_a_partition(step, message)
    found = _group_for_commit(step, request) if can_store else ErrorCode.NONE
    if isinstance(found, ErrorCode):
        topics = _refused(step, message, found)
    elif (error := _check_commit(step, found, request)) is not None:
        topics = _refused(step, message, error)
    else:
        topics = _store(step, found, message)
    step.reply(request, OffsetCommitResponse(topics=topics))


def _names_a_partition(step: Step, message: OffsetCommitRequest) -> bool:
    """Whether any of the partitions exists."""
    for topic in message.topics:
        count = step.table.topics.get(topic.name, 0)
        for partition in topic.partitions:  # mostly the first one does
            if 0 <= partition.partition_index < count:
                return True
    return False


T = TypeVar("T", "OffsetCommitRequestTopic", "OffsetDeleteRequestTopic")


def answered(step: Step, topics: Iterable[T]) -> Iterator[T]:
    """The topics that an answer speaks of: all but existing ones without partitions to answer."""
    return (topic for topic in topics if topic.partitions or topic.name not in step.table.topics)


def _group_for_commit(step: Step, request: Request) -> Group | ErrorCode:
    """The group; a commit from outside any generation makes one, just for its offsets."""
    message: OffsetCommitRequest = request.message
    group = step.group(message.group_id)
    if group is not None:
        return group
    if message.generation_id_or_member_epoch < 0:
        return step.create(message.group_id, request) or ErrorCode.POLICY_VIOLATION
    if request.version >= _GROUP_ID_NOT_FOUND_FROM:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _check_commit(step: Step, group: Group, request: Request) -> ErrorCode | None:
    message: OffsetCommitRequest = request.message
    generation = message.generation_id_or_member_epoch
    is_empty = group.state is GroupState.EMPTY
    if generation < 0 and is_empty:
        return None
    instance_id = message.group_instance_id
    if generation < 0 and not message.member_id and instance_id is None:
        # A consumer that manages its partitions itself must not write over a group at work.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(step, group, message.member_id, instance_id, generation, request)
    if error is None and group.state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    order = step.table.commit_order
    if error is None and not order.admits(group.id, message.member_id, message.sequence):
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return error


def _refused(
    step: Step, message: OffsetCommitRequest, error: ErrorCode
) -> tuple[OffsetCommitResponseTopic, ...]:
    """The answer to a commit that is refused as a whole."""
    topics = []
    for topic in answered(step, message.topics):
        count = step.table.topics.get(topic.name, 0)
        indexes = [partition.partition_index for partition in topic.partitions]
        results = tuple(_not_stored(i, error if 0 <= i < count else _UNKNOWN) for i in indexes)
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
    return tuple(topics)


def _store(
    step: Step, group: Group, message: OffsetCommitRequest
) -> tuple[OffsetCommitResponseTopic, ...]:
    """Store what can be stored, and answer for each partition."""
    member = group.members.get(message.member_id)
    if member is not None:
        member.last_seen_ms = step.now_ms
        absence.end(step, group, member)
        step.keep_alive(group, member)
        step.table.commit_order.note(group.id, member.id, message.sequence)
    expires_at_ms = -1
    if message.retention_time_ms >= 0:
        expires_at_ms = min(step.date_ms + message.retention_time_ms, END_OF_TIME_MS)
    topics = []
    committed: dict[str, dict[str, int]] = {}
    for topic in answered(step, message.topics):
        rows, answer = _rows_of(step, group, topic, expires_at_ms)
        step.save_offsets(group, rows)
        topics.append(answer)
        if rows:
            offsets = {str(row[2]): row[3] for row in rows}  # by partition
            if topic.name in committed:
                offsets = committed[topic.name] | offsets
            committed[topic.name] = offsets
    if committed:
        step.event(
            OffsetsCommitted(
                group=group.id,
                member=message.member_id,
                generation=message.generation_id_or_member_epoch,
                offsets=committed,
            )
        )
    return tuple(topics)


def _rows_of(
    step: Step, group: Group, topic: OffsetCommitRequestTopic, expires_at_ms: int
) -> tuple[list[OffsetRow], OffsetCommitResponseTopic]:
    """What of a topic is to be stored, and the answer for all of it."""
    group_id, name, date_ms = group.id, topic.name, step.date_ms
    count, longest = step.table.topics.get(name, 0), step.config.offset_metadata_max
    rows: list[OffsetRow] = []
    results = []
    for partition in topic.partitions:
        index, metadata = partition.partition_index, partition.committed_metadata or ""
        if not 0 <= index < count:
            results.append(_not_stored(index, _UNKNOWN))
        elif metadata and _length(metadata) > longest:
            results.append(_not_stored(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
        else:
            offset, epoch = partition.committed_offset, partition.committed_leader_epoch
            row = (group_id, name, index, offset, epoch, metadata, date_ms, expires_at_ms)
            rows.append(_new(OffsetRow, row))
            results.append(_stored(index))
    return rows, OffsetCommitResponseTopic(name=name, partitions=tuple(results))


def _not_stored(partition: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition, error_code=error)


@lru_cache(_RESULTS_MAX)
def _stored(partition: int) -> OffsetCommitResponsePartition:
    """Nearly all partitions are answered with this, again and again."""
    return OffsetCommitResponsePartition(partition_index=partition)


def _length(text: str) -> int:
    """The length of a text in units of UTF-16, as Kafka measures it."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
