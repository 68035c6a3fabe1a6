"""What administrators ask: which groups there are, how they are, and that they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
from coterie_server.group.rebalance import prepare
from coterie_server.group.states import GroupState
from coterie_server.group.step import SHOWN_MAX
from coterie_server.step import Refusal

if TYPE_CHECKING:
    from coterie_protocol.messages import (
        DeleteGroupsRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
    )
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.group.step import Step
    from coterie_server.group.table import GroupTable
    from coterie_server.step import Request

__all__ = ["delete_groups", "describe_groups", "force_rebalance", "list_groups"]

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
    groups = tuple(_describe_one(step.table, group_id, request) for group_id in message.groups)
    step.reply(request, DescribeGroupsResponse(groups=groups))


def _describe_one(table: GroupTable, group_id: str, request: Request) -> DescribedGroup:
    group = table.groups.get(group_id)
    if group is None:
        return _missing(group_id, request)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.row.protocol_type or "",
        protocol_data=(group.row.protocol_name or "") if is_stable else "",
        members=tuple(_describe_member(group, m) for m in group.members.values()),
        authorized_operations=_operations(request),
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


def _describe_member(group: Group, member: Member) -> DescribedGroupMember:
    is_stable = group.state is GroupState.STABLE
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.row.client_id,
        client_host=member.row.client_host,
        member_metadata=member.metadata(group.row.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )


def list_groups(step: Step, request: Request) -> None:
    """List the groups, all of them or those in some states or of some types."""
    message: ListGroupsRequest = request.message
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    groups = tuple(
        ListedGroup(
            group_id=group.id,
            protocol_type=group.row.protocol_type or "",
            group_state=group.state.value,
            group_type="classic",
        )
        for group in step.table.groups.values()
        if (not states or group.state.value.lower() in states) and (not types or "classic" in types)
    )
    step.reply(request, ListGroupsResponse(groups=groups))


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


def force_rebalance(step: Step, group_id: str) -> None:
    """Start one rebalance of a group of static members at once.

    This is the ForceStaticRebalance of KIP-345's draft, for when an operator knows better than
    the session timeouts do.
    """
    group = step.group(group_id)
    if group is None:
        raise Refusal("group_not_found", f"There is no group {group_id!r} here.")
    if group.state in (GroupState.PREPARING, GroupState.COMPLETING):
        raise Refusal("rebalance_in_progress", f"Group {group_id!r} is rebalancing already.")
    if group.state is GroupState.EMPTY:
        raise Refusal("group_empty", f"Group {group_id!r} has no members.")
    dynamic = [member.id for member in group.members.values() if member.instance_id is None]
    if dynamic:
        sentence = f"Group {group_id!r} has dynamic members, such as {dynamic[0]}."
        raise Refusal("dynamic_members", sentence)
    prepare(step, group, "admin", "asked for by an administrator")
