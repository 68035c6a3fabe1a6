"""CreatePartitions: topics grow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import CreatePartitionsResponse, CreatePartitionsTopicResult
from coterie_server.topics.checks import (
    DUPLICATE_NAME,
    REQUEST_LIMIT,
    TOO_MANY,
    Problem,
    Quota,
    check_replicas,
    check_size,
)

if TYPE_CHECKING:
    from coterie_protocol.messages import CreatePartitionsRequest, CreatePartitionsTopic
    from coterie_server.step import Request
    from coterie_server.topics.step import Step

__all__ = ["create_partitions"]


def create_partitions(step: Step, request: Request) -> CreatePartitionsResponse:
    """Give topics more partitions, or only say whether that could be done."""
    message: CreatePartitionsRequest = request.message
    times = Counter(topic.name for topic in message.topics)
    plain = [topic for topic in message.topics if times[topic.name] == 1]
    # Kafka has no check of its own here: it fails half-way, with 10,000 partitions made.
    if sum(_increase(step, topic) for topic in plain) > REQUEST_LIMIT:
        return CreatePartitionsResponse(results=tuple(_excessive(step, t) for t in message.topics))
    duplicates = [_result(name, DUPLICATE_NAME) for name, number in times.items() if number > 1]
    quota = Quota(step)
    results = [_grow(step, quota, topic, validate_only=message.validate_only) for topic in plain]
    return CreatePartitionsResponse(results=(*duplicates, *results))


def _increase(step: Step, topic: CreatePartitionsTopic) -> int:
    current = step.table.counts.get(topic.name)
    return 0 if current is None else max(topic.count - current, 0)


def _grow(
    step: Step, quota: Quota, topic: CreatePartitionsTopic, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    before = step.table.counts.get(topic.name, 0)
    problem = _check(step, topic) or quota.take(topic.name, topic.count, before)
    if problem is None and not validate_only:
        step.grow(topic.name, topic.count)
    return _result(topic.name, problem)


def _excessive(step: Step, topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    """A refusal because of the whole request, unless the topic alone is too large already."""
    return _result(topic.name, check_size(step.config, topic.count) or TOO_MANY)


def _result(name: str, problem: Problem | None) -> CreatePartitionsTopicResult:
    told = problem or Problem(ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=name, error_code=told.code, error_message=told.message)


# -- checks, in Kafka's order ------------------------------------------------------------------


def _check(step: Step, topic: CreatePartitionsTopic) -> Problem | None:
    current = step.table.counts.get(topic.name)
    if current is None:
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _check_count(topic, current) or _check_assignments(step, topic, topic.count - current)


def _check_count(topic: CreatePartitionsTopic, current: int) -> Problem | None:
    if topic.count == current:
        text = f"Topic already has {current} partition(s)."
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    if topic.count < current:
        text = (
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{topic.count} would not be an increase."
        )
        return Problem(ErrorCode.INVALID_PARTITIONS, text)
    return None


def _check_assignments(step: Step, topic: CreatePartitionsTopic, added: int) -> Problem | None:
    if topic.assignments is None:
        return None
    if len(topic.assignments) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified."
        )
        return Problem(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    for assignment in topic.assignments:
        problem = check_replicas(step.config.node_id, assignment.broker_ids)
        if problem is not None:
            return problem
    return None
