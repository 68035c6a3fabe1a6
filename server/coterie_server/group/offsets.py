"""OffsetCommit, OffsetFetch and OffsetDelete, and when offsets are forgotten by themselves."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupDeleted, OffsetsCommitted, OffsetsDeleted, OffsetsExpired
from coterie_protocol.messages import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from coterie_server.group.checks import check_generation
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import by_topic
from coterie_server.group.records import Gone, OffsetRow
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie_protocol.messages import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
    )
    from coterie_server.group.group import Group
    from coterie_server.group.member import Ticket
    from coterie_server.group.turn import Call, Turn

__all__ = ["END_OF_TIME_MS", "commit", "delete", "expire", "forget_topic"]

#: From this version on a commit for a group that is not there says so.
_GROUP_ID_NOT_FOUND_FROM = 9
#: The last moment that can be stored; old clients ask for offsets to be kept that long and longer.
END_OF_TIME_MS: Final = 2**63 - 1
#: How many results of partitions are remembered.
_RESULTS_MAX = 4_096

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- commit ------------------------------------------------------------------------------------


def commit(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Store offsets."""
    message: OffsetCommitRequest = call.message
    # If nothing is left to commit, the group is neither looked at nor made.
    found = _group_for_commit(turn, call) if _names_a_partition(turn, message) else ErrorCode.NONE
    if isinstance(found, ErrorCode):
        topics = _refused(turn, message, found)
    elif (error := _check_commit(turn, found, call)) is not None:
        topics = _refused(turn, message, error)
    else:
        topics = _store(turn, found, message)
    turn.reply(ticket, OffsetCommitResponse(topics=topics))


def _names_a_partition(turn: Turn, message: OffsetCommitRequest) -> bool:
    """Whether any of the partitions exists."""
    counts = turn.shard.topics
    return any(
        0 <= partition.partition_index < counts.get(topic.name, 0)
        for topic in message.topics
        for partition in topic.partitions
    )


T = TypeVar("T", "OffsetCommitRequestTopic", "OffsetDeleteRequestTopic")


def _answered(turn: Turn, topics: Iterable[T]) -> Iterator[T]:
    """The topics that an answer speaks of: not those that exist and of which nothing is asked."""
    return (topic for topic in topics if topic.partitions or topic.name not in turn.shard.topics)


def _group_for_commit(turn: Turn, call: Call) -> Group | ErrorCode:
    """The group; a commit by somebody who is in no generation makes one just for its offsets."""
    message: OffsetCommitRequest = call.message
    group = turn.group(message.group_id)
    if group is not None:
        return group
    if message.generation_id_or_member_epoch < 0:
        return turn.create(message.group_id) or ErrorCode.POLICY_VIOLATION
    if call.version >= _GROUP_ID_NOT_FOUND_FROM:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _check_commit(turn: Turn, group: Group, call: Call) -> ErrorCode | None:
    message: OffsetCommitRequest = call.message
    generation = message.generation_id_or_member_epoch
    is_empty = group.is_in(GroupState.EMPTY)
    if generation < 0 and is_empty:
        return None
    instance_id = message.group_instance_id
    if generation < 0 and not message.member_id and instance_id is None:
        # A consumer that manages its partitions itself must not write over a group at work.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = check_generation(turn, group, message.member_id, instance_id, generation, call)
    if error is None and group.is_in(GroupState.COMPLETING):
        return ErrorCode.REBALANCE_IN_PROGRESS
    order = turn.shard.commit_order
    if error is None and not order.admits(group.id, message.member_id, message.sequence):
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return error


def _refused(
    turn: Turn, message: OffsetCommitRequest, error: ErrorCode
) -> tuple[OffsetCommitResponseTopic, ...]:
    """The answer to a commit of which nothing is stored."""
    topics = []
    for topic in _answered(turn, message.topics):
        count = turn.shard.topics.get(topic.name, 0)
        indexes = [partition.partition_index for partition in topic.partitions]
        results = tuple(_not_stored(i, error if 0 <= i < count else _UNKNOWN) for i in indexes)
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
    return tuple(topics)


def _store(
    turn: Turn, group: Group, message: OffsetCommitRequest
) -> tuple[OffsetCommitResponseTopic, ...]:
    """Store what can be stored, and answer for each partition."""
    member = group.members.get(message.member_id)
    if member is not None:
        member.last_seen_ms = turn.now_ms
        turn.keep_alive(group, member)
        turn.shard.commit_order.note(group.id, member.id, message.sequence)
    expires_at_ms = -1
    if message.retention_time_ms >= 0:
        expires_at_ms = min(turn.date_ms + message.retention_time_ms, END_OF_TIME_MS)
    topics = []
    committed: dict[str, dict[str, int]] = {}
    for topic in _answered(turn, message.topics):
        rows, answer = _rows_of(turn, group, topic, expires_at_ms)
        turn.save_offsets(group, rows)
        topics.append(answer)
        if rows:
            offsets = {str(row.partition): row.offset for row in rows}
            committed[topic.name] = committed.get(topic.name, {}) | offsets
    if committed:
        turn.event(
            OffsetsCommitted(
                group=group.id,
                member=message.member_id,
                generation=message.generation_id_or_member_epoch,
                offsets=committed,
            )
        )
    return tuple(topics)


def _rows_of(
    turn: Turn, group: Group, topic: OffsetCommitRequestTopic, expires_at_ms: int
) -> tuple[list[OffsetRow], OffsetCommitResponseTopic]:
    """What of a topic is to be stored, and the answer for all of it."""
    group_id, name, date_ms = group.id, topic.name, turn.date_ms
    count, longest = turn.shard.topics.get(name, 0), turn.config.offset_metadata_max
    rows, results = [], []
    for partition in topic.partitions:
        index, metadata = partition.partition_index, partition.committed_metadata or ""
        if not 0 <= index < count:
            results.append(_not_stored(index, _UNKNOWN))
        elif metadata and _length(metadata) > longest:
            results.append(_not_stored(index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
        else:
            offset, epoch = partition.committed_offset, partition.committed_leader_epoch
            rows.append(
                OffsetRow(group_id, name, index, offset, epoch, metadata, date_ms, expires_at_ms)
            )
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


# -- delete ------------------------------------------------------------------------------------


def delete(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Forget offsets of topics that the group does not use."""
    message: OffsetDeleteRequest = call.message
    group = turn.group(message.group_id)
    error = _check_delete(group, message.group_id)
    if error is not None or group is None:
        answer = OffsetDeleteResponse(error_code=error or ErrorCode.NONE, topics=())
        turn.reply(ticket, answer)
        return
    gone: list[tuple[str, int]] = []
    asked = _answered(turn, message.topics)
    topics = tuple(_delete_topic(turn, group, topic, gone) for topic in asked)
    if gone:
        event = OffsetsDeleted(group=group.id, partitions=by_topic(gone), how="requested")
        turn.event(event)
    turn.reply(ticket, OffsetDeleteResponse(topics=topics))


def _check_delete(group: Group | None, group_id: str) -> ErrorCode | None:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_in(GroupState.EMPTY) and group.row.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return None


def _delete_topic(
    turn: Turn, group: Group, topic: OffsetDeleteRequestTopic, gone: list[tuple[str, int]]
) -> OffsetDeleteResponseTopic:
    count = turn.shard.topics.get(topic.name, 0)
    subscribed = group.may_be_subscribed(topic.name)
    results = []
    for entry in topic.partitions:
        index = entry.partition_index
        error = ErrorCode.NONE
        if not 0 <= index < count:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif group.offsets.pop((topic.name, index), None) is not None:
            turn.record(Gone(OffsetRow, group.id, topic.name, index))
            gone.append((topic.name, index))
        results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results))


def forget_topic(turn: Turn, group: Group, topic: str, until_ms: int) -> None:
    """Forget the offsets of a topic that is gone, those committed by then."""
    partitions = [
        key
        for key, row in group.offsets.items()
        if key[0] == topic and row.committed_at_ms <= until_ms
    ]
    _drop(turn, group, partitions)
    if partitions:
        turn.event(
            OffsetsDeleted(group=group.id, partitions=by_topic(partitions), how="topic_deleted")
        )


def _drop(turn: Turn, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    for topic, partition in partitions:
        del group.offsets[topic, partition]
        turn.record(Gone(OffsetRow, group.id, topic, partition))


# -- expiry ------------------------------------------------------------------------------------


def expire(turn: Turn, group: Group) -> None:
    """Forget offsets that were not used for too long, and an empty group with its last offset."""
    partitions = [key for key, row in group.offsets.items() if _has_expired(turn, group, row)]
    _drop(turn, group, partitions)
    if partitions:
        turn.event(OffsetsExpired(group=group.id, partitions=by_topic(partitions)))
    if not group.offsets and group.is_in(GroupState.EMPTY) and not group.pending_joins:
        turn.event(GroupDeleted(group=group.id, generation=group.generation, how="expired"))
        turn.delete(group)


def _has_expired(turn: Turn, group: Group, row: OffsetRow) -> bool:
    """Whether an offset is to go.

    A group that was never more than offsets counts from each commit; an empty one from when it
    got empty; a consumer group at work loses only what none of its members subscribes to.
    """
    if group.row.protocol_type is None:
        counted_from_ms = row.committed_at_ms
    elif group.is_in(GroupState.EMPTY):
        counted_from_ms = group.row.changed_at_ms
    elif group.is_in(GroupState.STABLE) and not group.may_be_subscribed(row.topic):
        if group.topics() is None:
            return False
        counted_from_ms = row.committed_at_ms
    else:
        return False
    if row.expires_at_ms >= 0:
        return turn.date_ms >= row.expires_at_ms
    return turn.date_ms - counted_from_ms >= turn.config.offsets_retention_ms
