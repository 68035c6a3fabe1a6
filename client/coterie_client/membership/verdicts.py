"""What a member does about an error code: the table behind every answer that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import error_for

__all__ = ["Verdict", "verdict_of"]


class Verdict(Enum):
    """What an error code asks of a member."""

    FINE = auto()
    #: The same node may answer better in a moment.
    RETRY = auto()
    #: Somebody else coordinates the group now.
    SEEK = auto()
    #: Join again; what is owned stays owned until then.
    REJOIN = auto()
    #: The coordinator gave us an id to join with.
    TAKE_ID = auto()
    #: We were left behind: everything owned is lost, the member id still stands.
    NEW_GENERATION = auto()
    #: The coordinator does not know us: everything owned is lost, the member id too.
    NEW_IDENTITY = auto()
    #: Another process has our instance id.
    FENCED = auto()
    #: It will not get better by itself.
    FATAL = auto()


_VERDICTS: Final[Mapping[ErrorCode, Verdict]] = {
    ErrorCode.NONE: Verdict.FINE,
    # A bug over there. It may not strike twice, and a fleet of workers should not die of it.
    ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.SEEK,
    ErrorCode.NOT_COORDINATOR: Verdict.SEEK,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.TAKE_ID,
    ErrorCode.ILLEGAL_GENERATION: Verdict.NEW_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.NEW_IDENTITY,
    # What a commit is told when the coordinator has forgotten the whole group.
    ErrorCode.GROUP_ID_NOT_FOUND: Verdict.NEW_IDENTITY,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
    # Said of a commit that a later one has overtaken.  The next one has a higher number.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.RETRY,
}


def verdict_of(code: int) -> Verdict:
    """Judge an error code."""
    found = _VERDICTS.get(ErrorCode.of(code))
    if found is not None:
        return found
    return Verdict.RETRY if error_for(code).retriable else Verdict.FATAL
