"""OffsetCommit: how far a group has come, as its members say or a consumer without a group."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from coterie_protocol.committed import CommittedPartitions
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OffsetsCommitted, OffsetsForm, OffsetsOfTopic
from coterie_protocol.messages import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie_server.group import absence
from coterie_server.group.offset_table import Committed
from coterie_server.group.records import END_OF_TIME_MS
from coterie_server.group.states import GroupState
from coterie_server.group.step import check_generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie_protocol.messages import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
        OffsetDeleteRequestTopic,
    )
    from coterie_server.group.bundle import Place
    from coterie_server.group.group import Group
    from coterie_server.group.step import Step
    from coterie_server.step import Request

__all__ = ["answered", "commit"]

#: From this version on a commit for a group that is not there says so.
_GROUP_ID_NOT_FOUND_FROM = 9
#: How many plans are remembered, and of how many partitions each: twenty megabytes at most.
_PLANS_MAX = 2_048
_PLANNED_PARTITIONS_MAX = 32

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE


def commit(step: Step, request: Request) -> None:
    """Store offsets."""
    message: OffsetCommitRequest = request.message
    parts = _parts_of(step, message)
    # If nothing is left to commit, the group is neither looked at nor made.
    can_store = any(part.plan.names_a_partition for part in parts)
    found = _group_for_commit(step, request) if can_store else ErrorCode.NONE
    if isinstance(found, ErrorCode):
        answer = _refused(step, message, found)
    elif (error := _check_commit(step, found, request)) is not None:
        answer = _refused(step, message, error)
    else:
        _store(step, found, message, parts)
        answer = _answer(parts)
    step.reply(request, answer)


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


def _refused(step: Step, message: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The answer to a commit that is refused as a whole."""
    topics = []
    for topic in answered(step, message.topics):
        count = step.table.topics.get(topic.name, 0)
        indexes = CommittedPartitions.of(topic.partitions).indexes
        results = tuple(_result(i, error if 0 <= i < count else _UNKNOWN) for i in indexes)
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
    return OffsetCommitResponse(topics=tuple(topics))


def _answer(parts: Sequence[_Part]) -> OffsetCommitResponse:
    if len(parts) == 1:
        return parts[0].plan.answer_alone
    return OffsetCommitResponse(topics=tuple(part.plan.answer for part in parts))


def _store(step: Step, group: Group, message: OffsetCommitRequest, parts: Sequence[_Part]) -> None:
    """Store what can be stored."""
    member = group.members.get(message.member_id)
    if member is not None:
        member.last_seen_ms = step.now_ms
        absence.end(step, group, member)
        step.keep_alive(group, member)
        step.table.commit_order.note(group.id, member.id, message.sequence)
    expires_at_ms = -1
    if message.retention_time_ms >= 0:
        expires_at_ms = min(step.date_ms + message.retention_time_ms, END_OF_TIME_MS)
    if committed := _by_topic(parts):
        step.save_offsets(group, Committed(*_columns(parts), step.date_ms, expires_at_ms))
        step.event(
            OffsetsCommitted(
                group=group.id,
                member=message.member_id,
                generation=message.generation_id_or_member_epoch,
                offsets=committed,
            )
        )


def _by_topic(parts: Sequence[_Part]) -> Mapping[str, Mapping[str, int]]:
    """Offsets as they are journalled."""
    if len(parts) == 1 and (form := parts[0].plan.form) is not None:  # as nearly always
        return OffsetsOfTopic(form, parts[0].offsets)
    committed: dict[str, dict[str, int]] = {}
    for plan, offsets, _ in parts:
        if offsets:
            by_partition = zip([str(index) for _, index in plan.places], offsets, strict=True)
            committed.setdefault(plan.topic, {}).update(by_partition)
    return committed


def _columns(
    parts: Sequence[_Part],
) -> tuple[tuple[Place, ...], tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Places, offsets, epochs and metadata of all topics."""
    if len(parts) == 1:  # as nearly always
        ((plan, offsets, epochs),) = parts
        return plan.places, offsets, epochs, plan.metadata
    return (
        tuple(chain.from_iterable(part.plan.places for part in parts)),
        tuple(chain.from_iterable(part.offsets for part in parts)),
        tuple(chain.from_iterable(part.epochs for part in parts)),
        tuple(chain.from_iterable(part.plan.metadata for part in parts)),
    )


# -- what does not change from one commit of the same partitions to the next -----------------------


class _Plan(NamedTuple):
    """What is to be done with the partitions of a topic, whatever their offsets are."""

    topic: str
    #: Whether any of them exists.
    names_a_partition: bool
    #: Which of them can be stored, if not all can.
    chosen: tuple[int, ...] | None
    #: Those that can be stored, and their metadata.
    places: tuple[Place, ...]
    metadata: tuple[str, ...]
    #: What all of them are answered, if they are stored.
    answer: OffsetCommitResponseTopic
    #: The answer to a commit of nothing else: always the same object, so it is encoded once.
    answer_alone: OffsetCommitResponse
    #: How they are journalled; None if one is named twice, or there are none.
    form: OffsetsForm | None


class _Part(NamedTuple):
    """What a commit has about one topic."""

    plan: _Plan
    #: Of the partitions that can be stored.
    offsets: tuple[int, ...]
    epochs: tuple[int, ...]


def _parts_of(step: Step, message: OffsetCommitRequest) -> list[_Part]:
    counts, longest = step.table.topics, step.config.offset_metadata_max
    parts = []
    for topic in answered(step, message.topics):
        name, columns = topic.name, CommittedPartitions.of(topic.partitions)
        indexes, metadata = columns.indexes, columns.metadata
        # What is remembered is short, and likely to come again.
        is_common = len(indexes) <= _PLANNED_PARTITIONS_MAX and name in counts and not any(metadata)
        make = _known_plan if is_common else _plan
        plan = make(name, counts.get(name, 0), longest, indexes, metadata)
        offsets, epochs = columns.offsets, columns.epochs
        if plan.chosen is not None:
            offsets = tuple([offsets[at] for at in plan.chosen])
            epochs = tuple([epochs[at] for at in plan.chosen])
        parts.append(_Part(plan, offsets, epochs))
    return parts


def _plan(
    topic: str,
    count: int,
    longest: int,
    indexes: tuple[int, ...],
    metadata: tuple[str | None, ...],
) -> _Plan:
    """Judge partitions of a topic that has so many."""
    errors = [
        _UNKNOWN
        if not 0 <= index < count
        else _TOO_LARGE
        if text and _length(text) > longest
        else ErrorCode.NONE
        for index, text in zip(indexes, metadata, strict=True)
    ]
    chosen = [at for at, error in enumerate(errors) if error is ErrorCode.NONE]
    stored = [indexes[at] for at in chosen]
    answer = OffsetCommitResponseTopic(name=topic, partitions=tuple(map(_result, indexes, errors)))
    return _Plan(
        topic=topic,
        names_a_partition=any(error is not _UNKNOWN for error in errors),
        chosen=None if len(chosen) == len(indexes) else tuple(chosen),
        places=tuple([(topic, index) for index in stored]),
        metadata=tuple([metadata[at] or "" for at in chosen]),
        answer=answer,
        answer_alone=OffsetCommitResponse(topics=(answer,)),
        form=OffsetsForm(topic, stored) if 0 < len(stored) == len(set(stored)) else None,
    )


_known_plan = lru_cache(_PLANS_MAX)(_plan)


def _result(partition: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition, error_code=error)


def _length(text: str) -> int:
    """The length of a text in units of UTF-16, as Kafka measures it."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
