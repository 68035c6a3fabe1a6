"""What administrators ask: which groups there are, how they are, and that they go."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupDeleted
from coterie_protocol.messages import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from coterie_server.group import standing
from coterie_server.group.member import metadata_of, told_assignment
from coterie_server.group.states import GroupState
from coterie_server.group.step import SHOWN_MAX
from coterie_server.turns import Piece, begin, each

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_protocol.messages import (
        DeleteGroupsRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
    )
    from coterie_protocol.operations import Operation
    from coterie_server.group.group import Group
    from coterie_server.group.records import GroupRow, MemberRow
    from coterie_server.group.step import Step
    from coterie_server.step import Request
    from coterie_server.turns import Making

__all__ = ["delete_groups", "describe_groups", "list_groups"]

#: From this version on a group that is not there is an error.
_NOT_FOUND_FROM = 6
#: What all clients may do with a group where no rights are checked: read, delete, describe,
#: describe and alter its settings, as bits of Kafka's operations.
_ALL_OPERATIONS: Final = 3400
_NOT_ASKED: Final = -(2**31)


# -- reading -----------------------------------------------------------------------------------


def describe_groups(step: Step, request: Request) -> None:
    """Tell the state and the members of groups."""
    message: DescribeGroupsRequest = request.message
    groups = step.table.groups
    found = [(group_id, _rows_of(groups.get(group_id))) for group_id in message.groups]
    step.reply(request, begin(_describe(found, request)))


class _Rows(NamedTuple):
    """A group as it is at one moment: rows don't change."""

    group: GroupRow
    members: list[MemberRow]
    operations: tuple[Operation, ...]
    are_followed: bool


def _rows_of(group: Group | None) -> _Rows | None:
    if group is None:
        return None
    rows = [member.row for member in group.members.values()]
    return _Rows(group.row, rows, group.operations, standing.are_followed(group))


def _describe(
    found: Iterable[tuple[str, _Rows | None]], request: Request
) -> Making[DescribeGroupsResponse]:
    described, piece = [], Piece()
    for group_id, rows in found:
        if rows is None:
            described.append(_missing(group_id, request))
        else:
            described.append((yield from _describe_one(rows, piece, request)))
        if piece.is_whole():
            yield
    return DescribeGroupsResponse(groups=tuple(described))


def _describe_one(rows: _Rows, piece: Piece, request: Request) -> Making[DescribedGroup]:
    group, members = rows.group, rows.members
    is_stable = group.state == GroupState.STABLE.value
    protocol = group.protocol_name if is_stable else None
    wants_absences = request.message.wants_absences
    told = yield from each(members, partial(_describe_member, protocol, wants_absences), piece)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=told,
        authorized_operations=_operations(request),
        operations=rows.operations if request.message.wants_operations else (),
        operations_not_followed=request.message.wants_operations and not rows.are_followed,
    )


def _operations(request: Request) -> int:
    return _ALL_OPERATIONS if request.message.include_authorized_operations else _NOT_ASKED


def _missing(group_id: str, request: Request) -> DescribedGroup:
    is_error = request.version >= _NOT_FOUND_FROM
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=f"Group {group_id[:SHOWN_MAX]} not found." if is_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=_NOT_ASKED if is_error else _operations(request),
    )


def _describe_member(
    protocol: str | None,
    wants_absences: bool,  # noqa: FBT001  # `partial` binds it
    member: MemberRow,
) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata_of(member, protocol),
        member_assignment=told_assignment(member),
        away_since_ms=member.away_since_ms if wants_absences else -1,
    )


def list_groups(step: Step, request: Request) -> None:
    """List the groups, all of them or those in some states or of some types."""
    message: ListGroupsRequest = request.message
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    rows = [group.row for group in step.table.groups.values()]
    if states:
        rows = [row for row in rows if row.state.lower() in states]
    if types and "classic" not in types:
        rows = []
    step.reply(request, begin(_list(rows)))


def _list(rows: Iterable[GroupRow]) -> Making[ListGroupsResponse]:
    return ListGroupsResponse(groups=(yield from each(rows, _list_one, Piece())))


def _list_one(row: GroupRow) -> ListedGroup:
    return ListedGroup(
        group_id=row.group_id,
        protocol_type=row.protocol_type or "",
        group_state=row.state,
        group_type="classic",
    )


# -- changing ----------------------------------------------------------------------------------


def delete_groups(step: Step, request: Request) -> None:
    """Delete groups that have no members."""
    message: DeleteGroupsRequest = request.message
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=_delete_one(step, group_id))
        for group_id in dict.fromkeys(message.groups_names)
    )
    step.reply(request, DeleteGroupsResponse(results=results))


def _delete_one(step: Step, group_id: str) -> ErrorCode:
    group = step.group(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    step.event(GroupDeleted(group=group_id, generation=group.row.generation, how="requested"))
    step.delete(group)
    return ErrorCode.NONE
