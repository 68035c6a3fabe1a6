"""What Kafka checks of requests that change topics, and how it says what is not allowed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import NIL_UUID
from coterie_server.error_answers import error_answer
from coterie_server.security.acls import Operation, ResourceType
from coterie_server.security.screening.asking import (
    CHECKS_AT_ONCE,
    LOOK_AGAIN,
    PASS,
    Asking,
    Narrowed,
    Refused,
    Verdict,
    leave_out,
)
from coterie_server.turns import Piece, each

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Sequence

    from coterie_server.turns import Making

__all__ = ["create_partitions", "create_topics", "delete_topics"]

_TOPIC: Final = ResourceType.TOPIC
_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

#: No client can create it, whatever its rights.
_CLUSTER_METADATA: Final = "__cluster_metadata"
#: The error codes' own messages.
_REFUSED_TEXT: Final = "Topic authorization failed."
_UNKNOWN_ID: Final = "This server does not host this topic ID."
_UNKNOWN_NAME: Final = "This server does not host this topic-partition."


def create_topics(asking: Asking, message: m.CreateTopicsRequest, version: int) -> Making[Verdict]:
    """CREATE on the cluster or on each topic; its settings are told with DESCRIBE_CONFIGS."""
    del version
    times = Counter(topic.name for topic in message.topics)
    # Names that come twice, and one more, are refused for that, whoever asks.
    plain = [n for n, number in times.items() if number == 1 and n != _CLUSTER_METADATA]
    refused: list[str] = []
    if not asking.may_in_cluster(Operation.CREATE, is_noted=False):
        _, refused = yield from asking.sort_in_turns(Operation.CREATE, _TOPIC, plain, str)
    _, secret = yield from asking.sort_in_turns(
        Operation.DESCRIBE_CONFIGS, _TOPIC, plain, str, is_noted=False
    )
    if not refused and not secret:
        return PASS
    told = tuple(
        m.CreatableTopicResult(
            name=name, error_code=_REFUSED, error_message="Authorization failed."
        )
        for name in refused
    )
    left_out, without_configs = frozenset(refused), frozenset(secret)
    allowed = tuple(topic for topic in message.topics if topic.name not in left_out)
    if not allowed:
        return Refused(m.CreateTopicsResponse(topics=told))

    def conceal(result: m.CreatableTopicResult) -> m.CreatableTopicResult:
        if result.error_code or result.name not in without_configs:
            return result
        return replace(
            result,
            topic_config_error_code=_REFUSED,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
        )

    return Narrowed(
        replace(message, topics=allowed),
        lambda answer: replace(answer, topics=(*map(conceal, answer.topics), *told)),
    )


def create_partitions(
    asking: Asking, message: m.CreatePartitionsRequest, version: int
) -> Making[Verdict]:
    """ALTER on each topic."""
    times = Counter(topic.name for topic in message.topics)
    plain = [name for name, number in times.items() if number == 1]
    _, refused = yield from asking.sort_in_turns(Operation.ALTER, _TOPIC, plain, str)
    left_out = frozenset(refused)
    allowed = [topic for topic in message.topics if topic.name not in left_out]
    return leave_out(
        message,
        allowed,
        [topic for topic in message.topics if topic.name in left_out],
        lambda left: error_answer(left, version, _REFUSED),
        told_in="results",
    )


def delete_topics(asking: Asking, message: m.DeleteTopicsRequest, version: int) -> Making[Verdict]:
    """DELETE on the cluster, or on each topic; without DESCRIBE, nothing tells that there is one.

    What may not be deleted is never passed on, not even if it does not exist as far as this node
    knows: the node that has the catalogue goes by what others found allowed.
    """
    del version
    may_delete_all = asking.may_in_cluster(Operation.DELETE, is_noted=False)
    if may_delete_all or not asking.topics.deletes_topics:
        return PASS
    # What is named twice is refused for that.
    names = [name for name, number in Counter(_names_in(message)).items() if number == 1]
    ids = [topic_id for topic_id, number in Counter(_ids_in(message)).items() if number == 1]
    found = {topic_id: asking.topics.name_of(topic_id) for topic_id in ids}
    if None in found.values() and not asking.is_certain:
        return LOOK_AGAIN
    piece = Piece(CHECKS_AT_ONCE // 2)
    by_name = yield from each(names, partial(_refuse_name, asking), piece)
    by_id = yield from each(found.items(), partial(_refuse_id, asking), piece)
    refused_names = {name for name, result in zip(names, by_name, strict=True) if result}
    refused_ids = {topic_id for topic_id, result in zip(found, by_id, strict=True) if result}
    told = [result for result in (*by_name, *by_id) if result is not None]
    return _narrow_deletion(message, refused_names, refused_ids, told) if told else PASS


def _narrow_deletion(
    message: m.DeleteTopicsRequest,
    names: set[str],
    ids: set[uuid.UUID],
    told: Sequence[m.DeletableTopicResult],
) -> Verdict:
    by_name = tuple(name for name in message.topic_names if name not in names)
    topics = tuple(
        topic
        for topic in message.topics
        if (topic.name is None and topic.topic_id not in ids)
        or (topic.name is not None and (topic.topic_id != NIL_UUID or topic.name not in names))
    )
    if not by_name and not topics:
        return Refused(m.DeleteTopicsResponse(responses=tuple(told)))
    return Narrowed(
        replace(message, topic_names=by_name, topics=topics),
        lambda answer: replace(answer, responses=(*answer.responses, *told)),
    )


def _names_in(message: m.DeleteTopicsRequest) -> Iterable[str]:
    yield from message.topic_names
    for topic in message.topics:
        if topic.name is not None and topic.topic_id == NIL_UUID:
            yield topic.name


def _ids_in(message: m.DeleteTopicsRequest) -> Iterable[uuid.UUID]:
    for topic in message.topics:
        if topic.name is None and topic.topic_id != NIL_UUID:
            yield topic.topic_id


def _refuse_name(asking: Asking, name: str) -> m.DeletableTopicResult | None:
    is_shown = asking.may(Operation.DESCRIBE, _TOPIC, name)
    if asking.may(Operation.DELETE, _TOPIC, name) and is_shown:
        return None
    if is_shown and not asking.topics.has_topic(name):
        return _not_deleted(name, NIL_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_NAME)
    return _not_deleted(name, NIL_UUID, _REFUSED, _REFUSED_TEXT)


def _refuse_id(
    asking: Asking, found: tuple[uuid.UUID, str | None]
) -> m.DeletableTopicResult | None:
    topic_id, name = found
    if name is None:
        return _not_deleted(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
    if asking.may(Operation.DELETE, _TOPIC, name):
        return None
    is_shown = asking.may(Operation.DESCRIBE, _TOPIC, name)
    return _not_deleted(name if is_shown else None, topic_id, _REFUSED, _REFUSED_TEXT)


def _not_deleted(
    name: str | None, topic_id: uuid.UUID, error: ErrorCode, text: str
) -> m.DeletableTopicResult:
    return m.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=text
    )
