"""What Kafka checks of requests about topics, and how it says what is not allowed."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import NIL_UUID
from coterie_server.error_answers import error_answer
from coterie_server.only_told import only_told
from coterie_server.security.acls import Operation, ResourceType
from coterie_server.security.screening.asking import (
    CHECKS_AT_ONCE,
    LOOK_AGAIN,
    PASS,
    Asking,
    Narrowed,
    Verdict,
    leave_out,
)
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Sequence

    from coterie_server.turns import Making

__all__ = [
    "fetch",
    "list_offsets",
    "metadata",
    "produce",
]

_TOPIC: Final = ResourceType.TOPIC
_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

#: From this version on null asks for all topics in Metadata; before it, an empty list does.
_NULL_IS_ALL_FROM: Final = 1
#: From these versions on topics are asked for by their ids.
_METADATA_BY_ID_FROM: Final = 12
_FETCH_BY_ID_FROM: Final = 13
#: The session epochs of a Fetch that names all its partitions; no other is answered.
_WHOLE: Final = frozenset({-1, 0})


# -- metadata ----------------------------------------------------------------------------------


def metadata(asking: Asking, message: m.MetadataRequest, version: int) -> Making[Verdict]:
    """DESCRIBE on each topic; CREATE on it, or on the cluster, if it would be made."""
    asked = message.topics
    if version < _NULL_IS_ALL_FROM:
        asked = asked or None
    if asked is None:
        return _complete_metadata(asking, message, _keep_described)
    has_ids = any(topic.topic_id != NIL_UUID for topic in asked)
    is_nameless = any(topic.name is None for topic in asked)
    if is_nameless > has_ids or (has_ids and version < _METADATA_BY_ID_FROM):
        return PASS  # to be refused as malformed
    if has_ids:
        return _complete_metadata(asking, message, _hide_by_id)
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    return (yield from _metadata_by_name(asking, message, list(names), version))


def _keep_described(
    asking: Asking, topic: m.MetadataResponseTopic
) -> m.MetadataResponseTopic | None:
    """A topic of an answer about all; None if the client may not know of it."""
    name = topic.name or ""
    return topic if asking.may(Operation.DESCRIBE, _TOPIC, name, is_noted=False) else None


def _hide_by_id(asking: Asking, topic: m.MetadataResponseTopic) -> m.MetadataResponseTopic:
    """A topic that was asked for by its id, which is no secret; its name is."""
    if topic.name is None or asking.may(Operation.DESCRIBE, _TOPIC, topic.name):
        return topic
    return _hidden(None, topic.topic_id)


def _hidden(name: str | None, topic_id: uuid.UUID = NIL_UUID) -> m.MetadataResponseTopic:
    return m.MetadataResponseTopic(
        error_code=_REFUSED, name=name, topic_id=topic_id, is_internal=False, partitions=()
    )


def _as_it_is(asking: Asking, topic: m.MetadataResponseTopic) -> m.MetadataResponseTopic:
    del asking
    return topic


def _complete_metadata(
    asking: Asking,
    message: m.MetadataRequest,
    sift: Callable[[Asking, m.MetadataResponseTopic], m.MetadataResponseTopic | None],
    told: Iterable[m.MetadataResponseTopic] = (),
    *,
    tells_found: bool = True,
) -> Narrowed:
    """Have the topics of an answer sifted, others added, and rights told if they are asked for."""

    def complete(answer: m.MetadataResponse) -> Making[m.MetadataResponse]:
        with_operations = message.include_topic_authorized_operations
        piece = Piece(CHECKS_AT_ONCE // (8 if with_operations else 1))
        topics = []
        for each in answer.topics if tells_found else ():
            topic = sift(asking, each)
            if topic is None:
                continue
            if with_operations and topic.name is not None:
                operations = asking.operations(_TOPIC, topic.name)
                topic = replace(topic, topic_authorized_operations=operations)
            topics.append(topic)
            if piece.is_whole():
                yield
        cluster = answer.cluster_authorized_operations
        if message.include_cluster_authorized_operations:
            is_shown = asking.may_in_cluster(Operation.DESCRIBE)
            cluster = asking.operations(ResourceType.CLUSTER) if is_shown else 0
        return replace(answer, topics=(*topics, *told), cluster_authorized_operations=cluster)

    return Narrowed(message, lambda answer: begin(complete(answer)))


def _metadata_by_name(
    asking: Asking, message: m.MetadataRequest, names: Sequence[str], version: int
) -> Making[Verdict]:
    shown, hidden = yield from asking.sort_in_turns(Operation.DESCRIBE, _TOPIC, names, str)
    may_create = message.allow_auto_topic_creation and asking.topics.makes_topics
    not_made: frozenset[str] = frozenset()
    if may_create and not asking.may_in_cluster(Operation.CREATE, is_noted=False):
        missing = [name for name in shown if not asking.topics.has_topic(name)]
        if missing and not asking.is_certain:
            return LOOK_AGAIN
        created, refused = asking.sort(Operation.CREATE, _TOPIC, missing, str)
        hidden += refused
        # Even what is there now may be gone when the catalogue looks, and must not be made anew.
        may_create = bool(created)
        not_made = frozenset(shown).difference(created) if may_create else not_made
    narrowed = message
    if hidden or not_made or may_create != message.allow_auto_topic_creation:
        left_out = frozenset(hidden)
        kept = tuple(
            only_told(topic.name) if topic.name in not_made else topic
            for topic in message.topics or ()
            if topic.name not in left_out
        )
        narrowed = replace(message, topics=kept, allow_auto_topic_creation=may_create)
    elif not (
        message.include_topic_authorized_operations or message.include_cluster_authorized_operations
    ):
        return PASS
    completed = _complete_metadata(
        asking,
        message,
        _as_it_is,
        [_hidden(name) for name in hidden],
        # An empty list would mean all topics: their answer is only good for where the nodes are.
        tells_found=bool(narrowed.topics) or version >= _NULL_IS_ALL_FROM,
    )
    return Narrowed(narrowed, completed.complete)


# -- offsets and records -----------------------------------------------------------------------


def list_offsets(asking: Asking, message: m.ListOffsetsRequest, version: int) -> Making[Verdict]:
    """DESCRIBE on each topic."""
    allowed, refused = yield from asking.sort_in_turns(
        Operation.DESCRIBE, _TOPIC, message.topics, attrgetter("name")
    )
    return leave_out(message, allowed, refused, lambda left: error_answer(left, version, _REFUSED))


def fetch(asking: Asking, message: m.FetchRequest, version: int) -> Verdict:
    """READ on each topic; a follower's fetch, CLUSTER_ACTION on the cluster."""
    if message.session_epoch not in _WHOLE:
        return PASS  # to be refused, as there are no sessions

    def name_of(topic: m.FetchTopic) -> str | None:
        is_named = version < _FETCH_BY_ID_FROM
        return topic.topic if is_named else asking.topics.name_of(topic.topic_id)

    is_follower = max(message.replica_id, message.replica_state.replica_id) >= 0
    is_forbidden = is_follower and not asking.may_in_cluster(Operation.CLUSTER_ACTION)
    allowed: list[m.FetchTopic] = []
    refused: list[m.FetchTopic] = []
    for topic in message.topics:
        name = name_of(topic)
        if name is None:  # not to be found by any right
            allowed.append(topic)
        elif is_forbidden or not (is_follower or asking.may(Operation.READ, _TOPIC, name)):
            refused.append(topic)
        else:
            allowed.append(topic)

    def tell(left: m.FetchRequest) -> m.FetchResponse:
        return m.FetchResponse(responses=tuple(map(_not_fetched, left.topics)))

    return leave_out(message, allowed, refused, tell, told_in="responses")


def _not_fetched(topic: m.FetchTopic) -> m.FetchableTopicResponse:
    return m.FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            m.PartitionData(
                partition_index=each.partition,
                error_code=_REFUSED,
                high_watermark=-1,
                aborted_transactions=(),
                # Not null, which some clients can't read.
                records=b"",
            )
            for each in topic.partitions
        ),
    )


def produce(asking: Asking, message: m.ProduceRequest, version: int) -> Verdict:
    """WRITE on each topic."""
    if not message.acks:
        return PASS  # no answer is read; the connection is closed, whatever is asked for
    allowed, refused = asking.sort(Operation.WRITE, _TOPIC, message.topic_data, attrgetter("name"))
    return leave_out(
        message,
        allowed,
        refused,
        lambda left: error_answer(left, version, _REFUSED),
        of="topic_data",
        told_in="responses",
    )
