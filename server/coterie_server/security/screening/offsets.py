"""What Kafka checks of requests about offsets, and how it says what is not allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.error_answers import error_answer, no_offsets
from coterie_server.security.acls import Operation, ResourceType
from coterie_server.security.screening.asking import (
    CHECKS_AT_ONCE,
    PASS,
    Asking,
    Narrowed,
    Refused,
    Verdict,
    leave_out,
)
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    from coterie_server.turns import Making

__all__ = ["commit", "delete_offsets", "fetch_offsets"]

_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_NO_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

#: From this version on OffsetFetch asks for many groups.
_FETCH_MANY_FROM: Final = 8


def commit(asking: Asking, message: m.OffsetCommitRequest, version: int) -> Verdict:
    """READ on the group, and on each topic.

    Never in turns: a later request on the connection must not overtake it.
    """
    if not asking.may(Operation.READ, _GROUP, message.group_id):
        return Refused(error_answer(message, version, _NO_GROUP))
    allowed, refused = asking.sort(Operation.READ, _TOPIC, message.topics, attrgetter("name"))
    return leave_out(message, allowed, refused, lambda left: error_answer(left, version, _NO_TOPIC))


def delete_offsets(asking: Asking, message: m.OffsetDeleteRequest, version: int) -> Verdict:
    """DELETE on the group, and READ on each topic; the group is asked even if no topic is left."""
    del version
    if not asking.may(Operation.DELETE, _GROUP, message.group_id):
        return Refused(m.OffsetDeleteResponse(error_code=_NO_GROUP, topics=()))
    allowed, refused = asking.sort(Operation.READ, _TOPIC, message.topics, attrgetter("name"))
    return leave_out(message, allowed, refused, _not_deleted, asks_for_none=True)


def _not_deleted(message: m.OffsetDeleteRequest) -> m.OffsetDeleteResponse:
    return m.OffsetDeleteResponse(
        topics=tuple(
            m.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    m.OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=_NO_TOPIC
                    )
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def fetch_offsets(asking: Asking, message: m.OffsetFetchRequest, version: int) -> Making[Verdict]:
    """DESCRIBE on each group, and on each topic."""
    if version >= _FETCH_MANY_FROM:
        return (yield from _fetch_of_many(asking, message))
    if not asking.may(Operation.DESCRIBE, _GROUP, message.group_id):
        return Refused(error_answer(message, version, _NO_GROUP))
    if message.topics is None:
        return Narrowed(message, lambda answer: begin(_described(asking, answer)))
    allowed, refused = yield from asking.sort_in_turns(
        Operation.DESCRIBE, _TOPIC, message.topics, attrgetter("name")
    )
    return leave_out(message, allowed, refused, _without_offsets, asks_for_none=True)


def _without_offsets(message: m.OffsetFetchRequest) -> m.OffsetFetchResponse:
    topics = tuple(no_offsets(topic, _NO_TOPIC) for topic in message.topics or ())
    return m.OffsetFetchResponse(topics=topics)


def _described(asking: Asking, answer: Any) -> Making[Any]:  # noqa: ANN401  # of one group or many
    """An answer about all topics, without those that the client may not know of."""
    piece = Piece(CHECKS_AT_ONCE)
    topics = []
    for topic in answer.topics:
        if asking.may(Operation.DESCRIBE, _TOPIC, topic.name, is_noted=False):
            topics.append(topic)
        if piece.is_whole():
            yield
    return replace(answer, topics=tuple(topics))


def _fetch_of_many(asking: Asking, message: m.OffsetFetchRequest) -> Making[Verdict]:
    kept: list[m.OffsetFetchRequestGroup] = []
    #: For each group of the request, its answer if it is refused, else what is left out of it.
    parts: list[m.OffsetFetchResponseGroup | tuple[m.OffsetFetchResponseTopics, ...] | None] = []
    for group in message.groups:
        if not asking.may(Operation.DESCRIBE, _GROUP, group.group_id):
            parts.append(
                m.OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=_NO_GROUP)
            )
        elif group.topics is None:
            kept.append(group)
            parts.append(None)
        else:
            allowed, refused = yield from asking.sort_in_turns(
                Operation.DESCRIBE, _TOPIC, group.topics, attrgetter("name")
            )
            kept.append(replace(group, topics=tuple(allowed)) if refused else group)
            parts.append(tuple(map(_unknown_offsets_of_many, refused)))
    if not kept:
        refused_groups = [each for each in parts if isinstance(each, m.OffsetFetchResponseGroup)]
        return Refused(m.OffsetFetchResponse(groups=tuple(refused_groups)))
    if all(part == () for part in parts):
        return PASS
    return Narrowed(
        replace(message, groups=tuple(kept)),
        lambda answer: begin(_put_together(asking, answer, parts)),
    )


def _unknown_offsets_of_many(topic: m.OffsetFetchRequestTopics) -> m.OffsetFetchResponseTopics:
    return m.OffsetFetchResponseTopics(
        name=topic.name,
        partitions=tuple(
            m.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=_NO_TOPIC
            )
            for index in topic.partition_indexes
        ),
    )


def _put_together(
    asking: Asking,
    answer: m.OffsetFetchResponse,
    parts: Sequence[m.OffsetFetchResponseGroup | tuple[m.OffsetFetchResponseTopics, ...] | None],
) -> Making[m.OffsetFetchResponse]:
    """The groups in the order of the request."""
    answered = iter(answer.groups)
    groups = []
    for part in parts:
        if isinstance(part, m.OffsetFetchResponseGroup):
            groups.append(part)
            continue
        group = next(answered)
        if part is None:
            group = yield from _described(asking, group)
        elif not group.error_code:
            group = replace(group, topics=(*group.topics, *part))
        groups.append(group)
    return replace(answer, groups=tuple(groups))
