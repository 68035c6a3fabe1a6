"""OffsetFetch and OffsetDelete, and when offsets are forgotten without being asked to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

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
from coterie_server.group.offset_table import OffsetTable
from coterie_server.group.states import GroupState
from coterie_server.turns import AT_ONCE, Piece, begin, each

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from coterie_protocol.messages import (
        OffsetDeleteRequest,
        OffsetDeleteRequestTopic,
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )
    from coterie_server.group.bundle import BundleRow, OffsetRow, Place
    from coterie_server.group.group import Group
    from coterie_server.group.step import Step
    from coterie_server.step import Request
    from coterie_server.turns import Making

__all__ = ["delete_offsets", "expire", "fetch_offsets", "forget_topics"]

T = TypeVar("T")

#: From this version on one OffsetFetch asks for many groups.
_MANY_GROUPS_FROM = 8


# -- fetch -------------------------------------------------------------------------------------


def fetch_offsets(step: Step, request: Request) -> None:
    """Tell how far groups have come; -1 where nothing is stored, which is not an error."""
    message: OffsetFetchRequest = request.message
    groups = step.table.groups
    if request.version < _MANY_GROUPS_FROM:
        rows = _rows_of(groups.get(message.group_id), message.topics)
        step.reply(request, begin(_tell_one(rows, message.topics)))
        return
    is_one = len(message.groups) == 1
    found = [
        (asked, _rows_of(groups.get(asked.group_id), asked.topics, may_share=is_one))
        for asked in message.groups
    ]
    step.reply(request, begin(_tell_many(found)))


_Topics = tuple["OffsetFetchRequestTopic | OffsetFetchRequestTopics", ...] | None
#: A partition's offset, if there is one.
_Find = Callable[[int], "OffsetRow | None"]


def _rows_of(group: Group | None, topics: _Topics, *, may_share: bool = True) -> OffsetTable:
    """A group's offsets as they are now, whenever they are told."""
    if group is None:
        return OffsetTable("")
    asked = len(group.offsets) if topics is None else sum(len(t.partition_indexes) for t in topics)
    # A short answer is made at once.
    return group.offsets if may_share and asked < AT_ONCE else group.offsets.copy()


def _tell_one(rows: OffsetTable, topics: _Topics) -> Making[OffsetFetchResponse]:
    piece = Piece()
    told = []
    for name, indexes, find in (yield from _asked(rows, topics)):
        tell = partial(_tell, OffsetFetchResponsePartition, find)
        partitions = yield from each(indexes, tell, piece)
        told.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    return OffsetFetchResponse(topics=tuple(told))


def _tell_many(
    found: Iterable[tuple[OffsetFetchRequestGroup, OffsetTable]],
) -> Making[OffsetFetchResponse]:
    piece = Piece()
    groups = []
    for group, rows in found:
        told = []
        for name, indexes, find in (yield from _asked(rows, group.topics)):
            tell = partial(_tell, OffsetFetchResponsePartitions, find)
            partitions = yield from each(indexes, tell, piece)
            told.append(OffsetFetchResponseTopics(name=name, partitions=partitions))
        groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(told)))
        if piece.is_whole():
            yield
    return OffsetFetchResponse(groups=tuple(groups))


def _asked(
    rows: OffsetTable, topics: _Topics
) -> Making[Iterable[tuple[str, Iterable[int], _Find]]]:
    """The partitions that are asked for, by topic; all that have offsets if none are named."""
    if topics is not None:
        return [(t.name, t.partition_indexes, partial(_find, rows, t.name)) for t in topics]
    every: dict[str, dict[int, OffsetRow]] = {}
    piece = Piece()
    for row in rows.rows():  # to look up each would take longer
        every.setdefault(row.topic, {})[row.partition] = row
        if piece.is_whole():
            yield
    return [(topic, sorted(every[topic]), every[topic].get) for topic in sorted(every)]


def _find(rows: OffsetTable, topic: str, index: int) -> OffsetRow | None:
    return rows.get((topic, index))


def _tell(shape: Callable[..., T], find: _Find, index: int) -> T:
    row = find(index)
    return shape(
        partition_index=index,
        committed_offset=row.offset if row else -1,
        committed_leader_epoch=row.leader_epoch if row else -1,
        metadata=row.metadata if row else "",
    )


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
    gone: dict[Place, None] = {}
    asked = answered(step, message.topics)
    topics = tuple(_delete_topic(step, group, topic, gone) for topic in asked)
    step.drop_offsets(group, gone.keys())
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
    step: Step, group: Group, topic: OffsetDeleteRequestTopic, gone: dict[Place, None]
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
        elif (topic.name, index) in group.offsets:
            gone[topic.name, index] = None
        results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results))


def forget_topics(step: Step, group: Group, topics: Collection[str], until_ms: int) -> None:
    """Forget the offsets of topics that are gone, those committed by then."""
    if all(topic not in topics for topic, _ in group.offsets):
        return  # as most groups, of which there may be very many: their offsets stay as they are
    partitions = [
        (row.topic, row.partition)
        for row in group.offsets.rows()
        if row.topic in topics and row.committed_at_ms <= until_ms
    ]
    step.drop_offsets(group, partitions)
    if partitions:
        step.event(
            OffsetsDeleted(group=group.id, partitions=by_topic(partitions), how="topic_deleted")
        )


# -- expiry ------------------------------------------------------------------------------------


def expire(step: Step, group: Group) -> None:
    """Forget offsets that were not used for too long, and an empty group with its last offset.

    As long as something is ordered of it that its members are to find when they come, it stays.
    """
    bundles = (each for each in group.offsets.bundles() if _may_expire(step, group, each))
    rows = chain.from_iterable(bundle.rows() for bundle in bundles)
    partitions = [(row.topic, row.partition) for row in rows if _has_expired(step, group, row)]
    step.drop_offsets(group, partitions)
    if partitions:
        step.event(OffsetsExpired(group=group.id, partitions=by_topic(partitions)))
    is_unused = not (group.offsets or group.pending_joins or group.operations)
    if is_unused and group.state is GroupState.EMPTY:
        step.event(GroupDeleted(group=group.id, generation=group.row.generation, how="expired"))
        step.delete(group)


def _may_expire(step: Step, group: Group, bundle: BundleRow) -> bool:
    """Whether any of a bundle's offsets could have expired, which is found out in less time.

    There may be very many, and nearly all are too young.
    """
    counts_from_commits = group.row.protocol_type is None or group.state is not GroupState.EMPTY
    oldest_ms = min(bundle.committed_at_ms) if counts_from_commits else group.row.changed_at_ms
    is_old = step.date_ms - oldest_ms >= step.config.offsets_retention_ms
    return is_old or max(bundle.shape.expires_at_ms) >= 0


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
