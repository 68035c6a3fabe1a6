"""What clients are told while their requests can't be served."""

from __future__ import annotations

from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.error_answers import error_answer, has_error_answer

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
    return error_answer(message, version, error)


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
