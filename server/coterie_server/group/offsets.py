"""OffsetFetch and OffsetDelete, and when offsets are forgotten without being asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupDeleted, OffsetsDeleted, OffsetsExpired
from coterie_protocol.messages import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie_server.group.commit import answered
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import by_topic
from coterie_server.group.records import Gone, OffsetRow
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_protocol.messages import (
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
        OffsetFetchRequest,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )
    from coterie_server.group.group import Group
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["delete_offsets", "expire", "fetch_offsets", "forget_topic"]

#: From this version on one OffsetFetch asks for many groups.
_MANY_GROUPS_FROM = 8


# -- fetch -------------------------------------------------------------------------------------


def fetch_offsets(step: Step, request: Request) -> None:
    """Tell how far groups have come; -1 where nothing is stored, which is not an error."""
    message: OffsetFetchRequest = request.message
    if request.version < _MANY_GROUPS_FROM:
        rows = _offsets(step.table.groups.get(message.group_id), message.topics)
        topics = tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=tuple(OffsetFetchResponsePartition(**_told(i, r)) for i, r in found),
            )
            for name, found in rows
        )
        step.reply(request, OffsetFetchResponse(topics=topics))
        return
    groups = tuple(
        OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=tuple(
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=tuple(
                        OffsetFetchResponsePartitions(**_told(i, r)) for i, r in found
                    ),
                )
                for name, found in _offsets(step.table.groups.get(asked.group_id), asked.topics)
            ),
        )
        for asked in message.groups
    )
    step.reply(request, OffsetFetchResponse(groups=groups))


def _offsets(
    group: Group | None,
    topics: tuple[OffsetFetchRequestTopic | OffsetFetchRequestTopics, ...] | None,
) -> list[tuple[str, list[tuple[int, OffsetRow | None]]]]:
    rows = group.offsets if group is not None else {}
    if topics is not None:
        return [
            (
                topic.name,
                [(index, rows.get((topic.name, index))) for index in topic.partition_indexes],
            )
            for topic in topics
        ]
    every: dict[str, list[tuple[int, OffsetRow | None]]] = {}
    for (name, index), row in sorted(rows.items()):
        every.setdefault(name, []).append((index, row))
    return list(every.items())


def _told(index: int, row: OffsetRow | None) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": row.offset if row else -1,
        "committed_leader_epoch": row.leader_epoch if row else -1,
        "metadata": row.metadata if row else "",
    }


# -- delete ------------------------------------------------------------------------------------


def delete_offsets(step: Step, request: Request) -> None:
    """Forget offsets of topics that the group does not use."""
    message: OffsetDeleteRequest = request.message
    group = step.group(message.group_id)
    error = _check_delete(group, message.group_id)
    if error is not None or group is None:
        answer = OffsetDeleteResponse(error_code=error or ErrorCode.NONE, topics=())
        step.reply(request, answer)
        return
    gone: list[tuple[str, int]] = []
    asked = answered(step, message.topics)
    topics = tuple(_delete_topic(step, group, topic, gone) for topic in asked)
    if gone:
        event = OffsetsDeleted(group=group.id, partitions=by_topic(gone), how="requested")
        step.event(event)
    step.reply(request, OffsetDeleteResponse(topics=topics))


def _check_delete(group: Group | None, group_id: str) -> ErrorCode | None:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.row.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return None


def _delete_topic(
    step: Step, group: Group, topic: OffsetDeleteRequestTopic, gone: list[tuple[str, int]]
) -> OffsetDeleteResponseTopic:
    count = step.table.topics.get(topic.name, 0)
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
            step.record(Gone(OffsetRow, group.id, topic.name, index))
            gone.append((topic.name, index))
        results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results))


def forget_topic(step: Step, group: Group, topic: str, until_ms: int) -> None:
    """Forget the offsets of a topic that is gone, those committed by then."""
    partitions = [
        key
        for key, row in group.offsets.items()
        if key[0] == topic and row.committed_at_ms <= until_ms
    ]
    _drop(step, group, partitions)
    if partitions:
        step.event(
            OffsetsDeleted(group=group.id, partitions=by_topic(partitions), how="topic_deleted")
        )


def _drop(step: Step, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    for topic, partition in partitions:
        del group.offsets[topic, partition]
        step.record(Gone(OffsetRow, group.id, topic, partition))


# -- expiry ------------------------------------------------------------------------------------


def expire(step: Step, group: Group) -> None:
    """Forget offsets that were not used for too long, and an empty group with its last offset."""
    partitions = [key for key, row in group.offsets.items() if _has_expired(step, group, row)]
    _drop(step, group, partitions)
    if partitions:
        step.event(OffsetsExpired(group=group.id, partitions=by_topic(partitions)))
    if not group.offsets and group.state is GroupState.EMPTY and not group.pending_joins:
        step.event(GroupDeleted(group=group.id, generation=group.row.generation, how="expired"))
        step.delete(group)


def _has_expired(step: Step, group: Group, row: OffsetRow) -> bool:
    """Whether an offset is to go.

    A group that was never more than offsets counts from each commit; an empty one from when it
    got empty; a consumer group at work loses only what none of its members subscribes to.
    """
    if group.row.protocol_type is None:
        counted_from_ms = row.committed_at_ms
    elif group.state is GroupState.EMPTY:
        counted_from_ms = group.row.changed_at_ms
    elif group.state is GroupState.STABLE and not group.may_be_subscribed(row.topic):
        if group.topics() is None:
            return False
        counted_from_ms = row.committed_at_ms
    else:
        return False
    if row.expires_at_ms >= 0:
        return step.date_ms >= row.expires_at_ms
    return step.date_ms - counted_from_ms >= step.config.offsets_retention_ms
