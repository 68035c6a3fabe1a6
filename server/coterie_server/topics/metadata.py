"""Metadata: where this node is, and the topics with their partitions.

One difference from Kafka: a topic that is made because a client asked for it is there at once and
told without an error.  Kafka says that it is unknown, makes it a moment later, and has the client
ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie_protocol.schema import NIL_UUID
from coterie_server.only_told import to_be_made
from coterie_server.topics.checks import (
    CLUSTER_METADATA,
    REQUEST_LIMIT,
    TOO_MANY,
    Problem,
    Quota,
    check_name,
    check_new_name,
)
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from coterie_protocol.messages import (
        MetadataRequest,
        MetadataRequestTopic,
        MetadataResponsePartition,
    )
    from coterie_server.address import Address
    from coterie_server.topics.records import TopicRow
    from coterie_server.topics.step import Request, Step
    from coterie_server.topics.topic_table import MetadataPartitions
    from coterie_server.turns import Making, Unfinished

__all__ = ["metadata"]

#: From this version on null asks for all topics, and an empty list for none.
_NULL_IS_ALL_FROM: Final = 1
#: From this version on topics can be asked for by id; the two versions before have the field.
_BY_ID_FROM: Final = 12

#: Kafka's own topics, should a client make topics of these names.
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

#: What all clients may do where no rights are checked, as bits of Kafka's operations.
_TOPIC_OPERATIONS: Final = 3576
_CLUSTER_OPERATIONS: Final = 8096
_NOT_ASKED: Final = -(2**31)

_UNKNOWN: Final = Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def metadata(step: Step, request: Request) -> MetadataResponse | Unfinished:
    """Tell where this node is, and the topics asked for."""
    message: MetadataRequest = request.message
    asked = message.topics
    if request.version < _NULL_IS_ALL_FROM:
        asked = asked or None
    if asked is not None and _is_malformed(request.version, asked):
        return _refused(asked)
    found, nodes = _find(step, asked, message), step.nodes
    cluster = _Cluster(nodes.reached_by(request), nodes.controller_id, step.config.cluster_id)
    # Not of the step, which has the answer: an answer that is dropped would be in a cycle.
    return begin(_tell(message, cluster, found, step.metadata_partitions))


class _Cluster(NamedTuple):
    """What is told beside topics."""

    nodes: Sequence[tuple[int, Address]]
    controller_id: int
    cluster_id: str


class _Missing(NamedTuple):
    """What is told in place of a topic."""

    code: ErrorCode
    name: str | None = None
    topic_id: UUID = NIL_UUID


#: What was found of the topics asked for.
_Found = list["TopicRow | _Missing"]


def _tell(
    message: MetadataRequest, cluster: _Cluster, found: _Found, made: MetadataPartitions
) -> Making[MetadataResponse]:
    operations = _TOPIC_OPERATIONS if message.include_topic_authorized_operations else _NOT_ASKED
    node_ids = tuple(node_id for node_id, _ in cluster.nodes)
    topics, piece = [], Piece()
    for each in found:
        if isinstance(each, _Missing):
            topics.append(_tell_missing(each, operations))
        else:
            partitions = yield from made.first(each.partitions, node_ids)
            topics.append(_tell_topic(each, partitions, operations))
        # Partitions are made once, but written each time, which takes turns if this does.
        if piece.is_whole(1 + len(topics[-1].partitions)):
            yield
    with_cluster = message.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=node_id, host=address.host, port=address.port)
            for node_id, address in cluster.nodes
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=_CLUSTER_OPERATIONS if with_cluster else _NOT_ASKED,
    )


def _tell_missing(missing: _Missing, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=missing.code,
        name=missing.name,
        topic_id=missing.topic_id,
        is_internal=missing.name in _INTERNAL,
        partitions=(),
        topic_authorized_operations=_NOT_ASKED if missing.name is None else operations,
    )


def _tell_topic(
    row: TopicRow, partitions: tuple[MetadataResponsePartition, ...], operations: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=row.name,
        topic_id=row.topic_id,
        is_internal=row.name in _INTERNAL,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _find(
    step: Step, asked: tuple[MetadataRequestTopic, ...] | None, message: MetadataRequest
) -> _Found:
    if asked is None:
        return list(step.table.rows.values())
    if any(topic.topic_id != NIL_UUID for topic in asked):
        return _by_id(step, asked)
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    return _by_name(step, names, to_be_made(message) if step.config.auto_create else ())


def _is_malformed(version: int, asked: tuple[MetadataRequestTopic, ...]) -> bool:
    """Whether topics are asked for in a way that the version does not know, or not at all.

    Next to an id, what says nothing at all does no harm.
    """
    has_ids = any(topic.topic_id != NIL_UUID for topic in asked)
    is_nameless = any(topic.name is None for topic in asked)
    return has_ids or is_nameless if version < _BY_ID_FROM else is_nameless and not has_ids


def _refused(asked: tuple[MetadataRequestTopic, ...]) -> MetadataResponse:
    return MetadataResponse(
        brokers=(),
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name or "",
                topic_id=topic.topic_id,
                partitions=(),
            )
            for topic in asked
        ),
    )


# -- by id -------------------------------------------------------------------------------------


def _by_id(step: Step, asked: tuple[MetadataRequestTopic, ...]) -> _Found:
    """The topics with the ids asked for; once there is an id, names don't count."""
    ids = dict.fromkeys(topic.topic_id for topic in asked)
    ids.pop(NIL_UUID, None)
    return [
        step.table.by_id(topic_id) or _Missing(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id)
        for topic_id in ids
    ]


# -- by name -----------------------------------------------------------------------------------


def _by_name(step: Step, names: Collection[str], to_make: Collection[str]) -> _Found:
    rows = step.table.rows
    problems = _create(step, [name for name in to_make if name not in rows])
    for name in names:
        if name not in rows and name not in problems:
            problems[name] = check_name(name) or _UNKNOWN
    return [
        _Missing(problems[name].code, name) if name in problems else rows[name] for name in names
    ]


def _create(step: Step, missing: list[str]) -> dict[str, Problem]:
    """Make the topics that can be made, and say why the others can't."""
    partitions = step.config.default_partitions
    problems = {
        name: problem for name in missing if (problem := _check_creation(step, name)) is not None
    }
    possible = [name for name in missing if name not in problems]
    if len(possible) * partitions > REQUEST_LIMIT:
        return problems | dict.fromkeys(possible, TOO_MANY)
    quota = Quota(step)
    for name in possible:
        problem = quota.take(name, partitions)
        if problem is None:
            step.create(name, partitions)
        else:
            problems[name] = problem
    return problems


def _check_creation(step: Step, name: str) -> Problem | None:
    return _UNKNOWN if name == CLUSTER_METADATA else check_new_name(step.table, name)
