"""What clients are told while their requests can't be served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.error_answers import error_answer, has_error_answer, no_offsets

__all__ = ["ABOUT_RIGHTS", "CHANGES", "failure", "refusal"]

#: The requests that change topics or rights.
CHANGES: Final = (
    m.AlterUserScramCredentialsRequest,
    m.CreateAclsRequest,
    m.CreatePartitionsRequest,
    m.CreateTopicsRequest,
    m.DeleteAclsRequest,
    m.DeleteTopicsRequest,
)
#: The requests that tell of rights.
ABOUT_RIGHTS: Final = (m.DescribeAclsRequest, m.DescribeUserScramCredentialsRequest)

#: They have no coordinator to look for elsewhere, or to wait for.
_WITHOUT_COORDINATOR: Final = frozenset((*CHANGES, *ABOUT_RIGHTS))


def failure(message: object, version: int, error: ErrorCode) -> Any:  # noqa: ANN401  # to any request
    """The answer to a request that the node can't serve.

    While groups are being read, a heartbeat is taken on trust, so that no member starts over.
    """
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if is_loading and isinstance(message, m.HeartbeatRequest):
        return m.HeartbeatResponse(error_code=ErrorCode.NONE)
    answer = error_answer(message, version, error)
    if isinstance(message, m.OffsetFetchRequest) and not answer.groups and not answer.topics:
        return replace(answer, topics=_offsets_elsewhere(message, error))
    return answer


def _offsets_elsewhere(
    message: m.OffsetFetchRequest, error: ErrorCode
) -> tuple[m.OffsetFetchResponseTopic, ...]:
    """The partitions asked for, each with an error that has every client ask again.

    Kafka gives none beside the error of the whole request.  Some clients, aiokafka among them, look
    for errors at the partitions alone: of an empty list they make that nothing was ever committed,
    and begin at the first record or skip to the last.
    """
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    told = error if is_loading else ErrorCode.NOT_COORDINATOR
    return tuple(no_offsets(topic, told) for topic in message.topics or ())


def refusal(message: object, version: int, trouble: ErrorCode) -> Any | None:  # noqa: ANN401  # as above
    """The answer to a request whose shard is in trouble; None if hanging up is better.

    Clients take Metadata at its word: told of no brokers, or of a topic without partitions, they
    rejoin their group or give up what they have.  A lost connection makes them ask again.
    """
    if not has_error_answer(message):
        return None
    if isinstance(message, m.ListOffsetsRequest):
        return failure(message, version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    is_elsewhere = type(message) not in _WITHOUT_COORDINATOR
    return failure(
        message, version, trouble if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
