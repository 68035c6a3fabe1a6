"""DeleteTopics: topics go, by name or by id."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import DeletableTopicResult, DeleteTopicsResponse, DeleteTopicState
from coterie_protocol.schema import NIL_UUID
from coterie_server.topics.checks import DUPLICATE_NAME, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie_protocol.messages import DeleteTopicsRequest
    from coterie_server.step import Request
    from coterie_server.topics.records import TopicRow
    from coterie_server.topics.step import Step

__all__ = ["delete_topics"]

#: From this version on there is an error of its own for deletion being switched off.
_DELETION_DISABLED_FROM: Final = 3

_NEITHER: Final = Problem(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
_BOTH: Final = Problem(
    ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
)
_DUPLICATE_ID: Final = Problem(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
_MEANT_TWICE: Final = Problem(
    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
)
_UNKNOWN_NAME: Final = Problem(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_UNKNOWN_ID: Final = Problem(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
_DONE: Final = Problem(ErrorCode.NONE)

Results = list[DeletableTopicResult]


def delete_topics(step: Step, request: Request) -> DeleteTopicsResponse:
    """Delete topics; each goes or stays by itself."""
    message: DeleteTopicsRequest = request.message
    named = (DeleteTopicState(name=name, topic_id=NIL_UUID) for name in message.topic_names)
    states = (*message.topics, *named)
    if step.config.delete_enabled:
        results = _delete(step, states)
    else:
        results = _disabled(request.version, states)
    return DeleteTopicsResponse(responses=tuple(results))


def _disabled(version: int, states: Iterable[DeleteTopicState]) -> Results:
    has_code = version >= _DELETION_DISABLED_FROM
    code = ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST
    return [_result(state.name, state.topic_id, Problem(code)) for state in states]


def _delete(step: Step, states: Iterable[DeleteTopicState]) -> Results:
    results: Results = []
    names: Counter[str] = Counter()
    ids: Counter[uuid.UUID] = Counter()
    for state in states:
        if state.name is not None and state.topic_id != NIL_UUID:
            results.append(_result(state.name, state.topic_id, _BOTH))
        elif state.name is not None:
            names[state.name] += 1
        elif state.topic_id != NIL_UUID:
            ids[state.topic_id] += 1
        else:
            results.append(_result(None, NIL_UUID, _NEITHER))
    # The order is that of the request as far as it can be; Kafka shuffles.
    doomed: dict[str, TopicRow] = {}
    results += _find_names(step, names, doomed)
    results += _find_ids(step, ids, doomed)
    for row in doomed.values():
        step.delete(row.name)
        results.append(_result(row.name, row.topic_id, _DONE))
    return results


def _find_names(
    step: Step, names: Counter[str], doomed: dict[str, TopicRow]
) -> Iterator[DeletableTopicResult]:
    for name, times in names.items():
        row = step.table.rows.get(name)
        if times > 1:
            yield _result(name, NIL_UUID, DUPLICATE_NAME)
        elif row is None:
            yield _result(name, NIL_UUID, _UNKNOWN_NAME)
        else:
            doomed[name] = row


def _find_ids(
    step: Step, ids: Counter[uuid.UUID], doomed: dict[str, TopicRow]
) -> Iterator[DeletableTopicResult]:
    for topic_id, times in ids.items():
        row = step.table.by_id(topic_id)
        if times > 1:
            yield _result(None, topic_id, _DUPLICATE_ID)
        elif row is None:
            yield _result(None, topic_id, _UNKNOWN_ID)
        elif doomed.pop(row.name, None) is not None:
            yield _result(row.name, topic_id, _MEANT_TWICE)
        else:
            doomed[row.name] = row


def _result(name: str | None, topic_id: uuid.UUID, problem: Problem) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=problem.code, error_message=problem.message
    )
