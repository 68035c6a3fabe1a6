"""CreateTopics: topics are made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import CreatableTopicResult, CreateTopicsResponse
from coterie_server.topics.checks import (
    CLUSTER_METADATA,
    DUPLICATE_NAME,
    REQUEST_LIMIT,
    TOO_MANY,
    Problem,
    Quota,
    check_new_name,
    check_replicas,
    check_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_protocol.messages import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreateTopicsRequest,
    )
    from coterie_server.step import Request
    from coterie_server.topics.step import Step

__all__ = ["create_topics"]

#: What a request says when the default is to be taken.
_DEFAULT: Final = -1
_REPLICATION_FACTOR: Final = 1

#: The settings that Kafka's topics have.  Most are about records, which are not kept here: they
#: are accepted, so that scripts written for Kafka run, and have no effect.
_KNOWN_SETTINGS: Final = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)


def create_topics(step: Step, request: Request) -> CreateTopicsResponse:
    """Create topics, or only say whether they could be created."""
    message: CreateTopicsRequest = request.message
    times = Counter(topic.name for topic in message.topics)
    plain = [t for t in message.topics if times[t.name] == 1 and t.name != CLUSTER_METADATA]
    if sum(max(_count(step, topic), 0) for topic in plain) > REQUEST_LIMIT:
        return CreateTopicsResponse(topics=tuple(_excessive(step, t) for t in message.topics))
    # All are checked before the first is created: like Kafka, a request may create two topics
    # whose names collide with each other.
    quota = Quota(step)
    problems = [
        _check(step, topic) or quota.take(topic.name, _count(step, topic)) for topic in plain
    ]
    results = [
        _refused(topic.name, problem)
        if problem is not None
        else _created(step, topic, validate_only=message.validate_only)
        for topic, problem in zip(plain, problems, strict=True)
    ]
    return CreateTopicsResponse(topics=(*results, *_refused_beforehand(times)))


def _refused_beforehand(times: Counter[str]) -> Iterable[CreatableTopicResult]:
    """The names that are not looked at any further; Kafka, too, puts them behind the others."""
    for name, number in times.items():
        if number > 1:
            yield _refused(name, DUPLICATE_NAME)
    if times[CLUSTER_METADATA] == 1:
        text = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
        yield _refused(CLUSTER_METADATA, Problem(ErrorCode.INVALID_REQUEST, text))


def _created(step: Step, topic: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    partitions = _count(step, topic)
    if validate_only:
        # The reply is that of a creation, so it has an id, which is thrown away.
        topic_id = step.ids.topic_id()
    else:
        topic_id = step.create(topic.name, partitions).topic_id
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=_REPLICATION_FACTOR,
    )


def _excessive(step: Step, topic: CreatableTopic) -> CreatableTopicResult:
    """A refusal because of the whole request, unless the topic alone is too large already."""
    return _refused(topic.name, check_size(step.config, _count(step, topic)) or TOO_MANY)


def _refused(name: str, problem: Problem) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=problem.code, error_message=problem.message)


def _count(step: Step, topic: CreatableTopic) -> int:
    """How many partitions are asked for, in whatever way."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == _DEFAULT:
        return step.config.default_partitions
    return topic.num_partitions


# -- checks, in Kafka's order ------------------------------------------------------------------


def _check(step: Step, topic: CreatableTopic) -> Problem | None:
    return (
        check_new_name(step.table, topic.name)
        or _check_settings(topic)
        or (_check_assignments(step, topic) if topic.assignments else _check_numbers(topic))
    )


def _check_settings(topic: CreatableTopic) -> Problem | None:
    empty = [setting.name for setting in topic.configs if setting.value is None]
    if empty:
        text = f"Null value not supported for topic configs: {','.join(empty)}"
        return Problem(ErrorCode.INVALID_CONFIG, text)
    for setting in topic.configs:
        if setting.name not in _KNOWN_SETTINGS:
            text = f"Unknown topic config name: {setting.name}"
            return Problem(ErrorCode.INVALID_CONFIG, text)
    return None


def _check_numbers(topic: CreatableTopic) -> Problem | None:
    factor = topic.replication_factor
    if factor != _DEFAULT and factor <= 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        return Problem(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if topic.num_partitions != _DEFAULT and topic.num_partitions <= 0:
        text = "Number of partitions was set to an invalid non-positive value."
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    if factor > _REPLICATION_FACTOR:
        text = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of "
            f"{factor} cannot be reached because only 1 broker(s) are registered."
        )
        return Problem(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return None


def _check_assignments(step: Step, topic: CreatableTopic) -> Problem | None:
    intro = "A manual partition assignment was specified, but"
    if topic.replication_factor != _DEFAULT:
        text = f"{intro} replication factor was not set to -1."
        return Problem(ErrorCode.INVALID_REQUEST, text)
    if topic.num_partitions != _DEFAULT:
        return Problem(ErrorCode.INVALID_REQUEST, f"{intro} numPartitions was not set to -1.")
    return _check_each(step, topic.assignments)


def _check_each(step: Step, assignments: tuple[CreatableReplicaAssignment, ...]) -> Problem | None:
    seen: set[int] = set()
    for assignment in assignments:
        index = assignment.partition_index
        if index in seen:
            text = f"Found multiple manual partition assignments for partition {index}"
            return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        seen.add(index)
        problem = check_replicas(step.config.node_id, assignment.broker_ids)
        if problem is not None:
            return problem
    if seen != set(range(len(seen))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None
