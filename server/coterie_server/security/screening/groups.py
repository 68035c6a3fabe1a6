"""What Kafka checks of requests about groups, and how it says what is not allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.error_answers import error_answer, join_error, sync_error
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

__all__ = [
    "delete_groups",
    "describe_groups",
    "find_coordinator",
    "heartbeat",
    "join",
    "leave",
    "list_groups",
    "sync",
]

_GROUP: Final = ResourceType.GROUP
_NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED

#: The error codes' own messages, for answers that have room for one.
_TEXTS: Final = {
    _NO_GROUP: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}

#: From this version on SyncGroup has to name the protocol; whether it does is checked first.
_SYNC_PROTOCOL_FROM: Final = 5
#: From this version on FindCoordinator asks for many keys.
_FIND_MANY_FROM: Final = 4


# -- members -----------------------------------------------------------------------------------


def join(asking: Asking, message: m.JoinGroupRequest, version: int) -> Verdict:
    """READ on the group."""
    if asking.may(Operation.READ, _GROUP, message.group_id):
        return PASS
    return Refused(join_error(version, _NO_GROUP))  # even the member id is not told


def sync(asking: Asking, message: m.SyncGroupRequest, version: int) -> Verdict:
    """READ on the group."""
    is_named = message.protocol_type is not None and message.protocol_name is not None
    if version >= _SYNC_PROTOCOL_FROM and not is_named:
        return PASS  # to be refused for that
    if asking.may(Operation.READ, _GROUP, message.group_id):
        return PASS
    return Refused(sync_error(_NO_GROUP))


def heartbeat(asking: Asking, message: m.HeartbeatRequest, version: int) -> Verdict:
    """READ on the group."""
    del version
    if asking.may(Operation.READ, _GROUP, message.group_id):
        return PASS
    return Refused(m.HeartbeatResponse(error_code=_NO_GROUP))


def leave(asking: Asking, message: m.LeaveGroupRequest, version: int) -> Verdict:
    """READ on the group, whichever members are to leave."""
    del version
    if asking.may(Operation.READ, _GROUP, message.group_id):
        return PASS
    return Refused(m.LeaveGroupResponse(error_code=_NO_GROUP))


# -- from outside ------------------------------------------------------------------------------


def find_coordinator(
    asking: Asking, message: m.FindCoordinatorRequest, version: int
) -> Making[Verdict]:
    """DESCRIBE on each group, or on each transactional id; other keys are refused anyway."""
    if message.key_type not in _KEYS:
        return PASS
    kind, error = _KEYS[message.key_type]
    if version < _FIND_MANY_FROM:
        if asking.may(Operation.DESCRIBE, kind, message.key):
            return PASS
        return Refused(
            m.FindCoordinatorResponse(
                error_code=error, error_message=_TEXTS[error], node_id=-1, host="", port=-1
            )
        )
    keys = message.coordinator_keys
    allowed, refused = yield from asking.sort_in_turns(Operation.DESCRIBE, kind, keys, str)
    if not refused:
        return PASS
    not_found = {key: _no_coordinator(key, error) for key in refused}

    def complete(answer: m.FindCoordinatorResponse) -> m.FindCoordinatorResponse:
        found = iter(answer.coordinators)
        told = (not_found[key] if key in not_found else next(found) for key in keys)
        return replace(answer, coordinators=tuple(told))

    if not allowed:
        return Refused(complete(m.FindCoordinatorResponse(coordinators=())))
    return Narrowed(replace(message, coordinator_keys=tuple(allowed)), complete)


_KEYS: Final = {
    0: (_GROUP, _NO_GROUP),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


def _no_coordinator(key: str, error: ErrorCode) -> m.Coordinator:
    return m.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="")


def describe_groups(
    asking: Asking, message: m.DescribeGroupsRequest, version: int
) -> Making[Verdict]:
    """DESCRIBE on each group; an answer says what else may be done with it."""
    names = message.groups
    allowed, refused = yield from asking.sort_in_turns(Operation.DESCRIBE, _GROUP, names, str)
    if not refused and not message.include_authorized_operations:
        return PASS
    if not allowed:
        return Refused(error_answer(message, version, _NO_GROUP))
    not_told = error_answer(replace(message, groups=tuple(refused)), version, _NO_GROUP)
    hidden = {group.group_id: group for group in not_told.groups}

    def complete(answer: m.DescribeGroupsResponse) -> Making[m.DescribeGroupsResponse]:
        described = iter(answer.groups)
        piece = Piece(CHECKS_AT_ONCE // 5)
        told = []
        for name in names:
            group = hidden.get(name) or next(described)
            if message.include_authorized_operations and not group.error_code:
                operations = asking.operations(_GROUP, name)
                group = replace(group, authorized_operations=operations)
            told.append(group)
            if piece.is_whole():
                yield
        return replace(answer, groups=tuple(told))

    return Narrowed(
        replace(message, groups=tuple(allowed)) if hidden else message,
        lambda answer: begin(complete(answer)),
    )


def list_groups(asking: Asking, message: m.ListGroupsRequest, version: int) -> Verdict:
    """DESCRIBE on the cluster shows all groups; else those are shown that may be described."""
    del version
    if asking.may_in_cluster(Operation.DESCRIBE, is_noted=False):
        return PASS

    def complete(answer: m.ListGroupsResponse) -> Making[m.ListGroupsResponse]:
        piece = Piece(CHECKS_AT_ONCE)
        shown = []
        for group in answer.groups:
            if asking.may(Operation.DESCRIBE, _GROUP, group.group_id, is_noted=False):
                shown.append(group)
            if piece.is_whole():
                yield
        return replace(answer, groups=tuple(shown))

    return Narrowed(message, lambda answer: begin(complete(answer)))


def delete_groups(asking: Asking, message: m.DeleteGroupsRequest, version: int) -> Making[Verdict]:
    """DELETE on each group."""
    names = dict.fromkeys(message.groups_names)
    allowed, refused = yield from asking.sort_in_turns(Operation.DELETE, _GROUP, names, str)
    return leave_out(
        message,
        allowed,
        refused,
        lambda left: error_answer(left, version, _NO_GROUP),
        of="groups_names",
        told_in="results",
    )
