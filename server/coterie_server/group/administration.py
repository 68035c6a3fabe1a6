"""What administrators ask: which groups there are, how they are, and that they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import GroupDeleted
from coterie_protocol.messages import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie_server.group.rebalancing import prepare
from coterie_server.group.states import GroupState

if TYPE_CHECKING:
    from coterie_protocol.messages import (
        DeleteGroupsRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        OffsetFetchRequest,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member, Ticket
    from coterie_server.group.records import OffsetRow
    from coterie_server.group.turn import Call, Shard, Turn

__all__ = ["Refusal", "delete", "describe", "fetch_offsets", "force_rebalance", "list_groups"]

#: From this version on a group that is not there is an error.
_NOT_FOUND_FROM = 6
#: From this version on one OffsetFetch asks for many groups.
_MANY_GROUPS_FROM = 8
#: What everybody may do with a group where nobody's rights are checked: read, delete, describe,
#: describe and alter its settings, as bits of Kafka's operations.
_ALL_OPERATIONS: Final = 3400
_NOT_ASKED: Final = -(2**31)
#: A group's name can be as long as any text, so a sentence may not have room for all of it.
_SHOWN_MAX: Final = 1_000


class Refusal(CoterieError):  # noqa: N818  # it says no, nothing went wrong
    """A wish of an administrator that can't be fulfilled now; `name` says why in one word."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


# -- reading -----------------------------------------------------------------------------------


def describe(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Tell the state and the members of groups."""
    message: DescribeGroupsRequest = call.message
    groups = tuple(_describe_one(turn.shard, group_id, call) for group_id in message.groups)
    turn.reply(ticket, DescribeGroupsResponse(groups=groups))


def _describe_one(shard: Shard, group_id: str, call: Call) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if group is None:
        return _missing(group_id, call)
    is_stable = group.is_in(GroupState.STABLE)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.row.protocol_type or "",
        protocol_data=(group.row.protocol_name or "") if is_stable else "",
        members=tuple(_describe_member(group, m) for m in group.members.values()),
        authorized_operations=_operations(call),
    )


def _operations(call: Call) -> int:
    return _ALL_OPERATIONS if call.message.include_authorized_operations else _NOT_ASKED


def _missing(group_id: str, call: Call) -> DescribedGroup:
    is_error = call.version >= _NOT_FOUND_FROM
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=f"Group {group_id[:_SHOWN_MAX]} not found." if is_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=_NOT_ASKED if is_error else _operations(call),
    )


def _describe_member(group: Group, member: Member) -> DescribedGroupMember:
    is_stable = group.is_in(GroupState.STABLE)
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.row.client_id,
        client_host=member.row.client_host,
        member_metadata=member.metadata(group.row.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )


def list_groups(turn: Turn, ticket: Ticket, call: Call) -> None:
    """List the groups, all of them or those in some states or of some types."""
    message: ListGroupsRequest = call.message
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    groups = tuple(
        ListedGroup(
            group_id=group.id,
            protocol_type=group.row.protocol_type or "",
            group_state=group.state.value,
            group_type="classic",
        )
        for group in turn.shard.groups.values()
        if (not states or group.state.value.lower() in states) and (not types or "classic" in types)
    )
    turn.reply(ticket, ListGroupsResponse(groups=groups))


# -- offsets -----------------------------------------------------------------------------------


def fetch_offsets(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Tell how far groups have come; -1 where nothing is stored, which is no error."""
    message: OffsetFetchRequest = call.message
    if call.version < _MANY_GROUPS_FROM:
        rows = _offsets(turn.shard.groups.get(message.group_id), message.topics)
        topics = tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=tuple(OffsetFetchResponsePartition(**_told(i, r)) for i, r in found),
            )
            for name, found in rows
        )
        turn.reply(ticket, OffsetFetchResponse(topics=topics))
        return
    groups = tuple(
        OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=tuple(
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=tuple(
                        OffsetFetchResponsePartitions(**_told(i, r)) for i, r in found
                    ),
                )
                for name, found in _offsets(turn.shard.groups.get(asked.group_id), asked.topics)
            ),
        )
        for asked in message.groups
    )
    turn.reply(ticket, OffsetFetchResponse(groups=groups))


def _offsets(
    group: Group | None,
    topics: tuple[OffsetFetchRequestTopic | OffsetFetchRequestTopics, ...] | None,
) -> list[tuple[str, list[tuple[int, OffsetRow | None]]]]:
    rows = group.offsets if group is not None else {}
    if topics is not None:
        return [
            (
                topic.name,
                [(index, rows.get((topic.name, index))) for index in topic.partition_indexes],
            )
            for topic in topics
        ]
    every: dict[str, list[tuple[int, OffsetRow | None]]] = {}
    for (name, index), row in sorted(rows.items()):
        every.setdefault(name, []).append((index, row))
    return list(every.items())


def _told(index: int, row: OffsetRow | None) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": row.offset if row else -1,
        "committed_leader_epoch": row.leader_epoch if row else -1,
        "metadata": row.metadata if row else "",
    }


# -- changing ----------------------------------------------------------------------------------


def delete(turn: Turn, ticket: Ticket, call: Call) -> None:
    """Delete groups that have no members."""
    message: DeleteGroupsRequest = call.message
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=_delete_one(turn, group_id))
        for group_id in dict.fromkeys(message.groups_names)
    )
    turn.reply(ticket, DeleteGroupsResponse(results=results))


def _delete_one(turn: Turn, group_id: str) -> ErrorCode:
    group = turn.group(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_in(GroupState.EMPTY):
        return ErrorCode.NON_EMPTY_GROUP
    turn.event(GroupDeleted(group=group_id, generation=group.generation, how="requested"))
    turn.delete(group)
    return ErrorCode.NONE


def force_rebalance(turn: Turn, group_id: str) -> None:
    """Start one rebalance of a group of static members at once.

    This is the ForceStaticRebalance of KIP-345's draft, for when an operator knows better than
    the session timeouts do.
    """
    group = turn.group(group_id)
    if group is None:
        raise Refusal("group_not_found", f"There is no group {group_id!r} here.")
    if group.is_in(GroupState.PREPARING, GroupState.COMPLETING):
        raise Refusal("rebalance_in_progress", f"Group {group_id!r} is rebalancing already.")
    if group.is_in(GroupState.EMPTY):
        raise Refusal("group_empty", f"Group {group_id!r} has no members.")
    dynamic = [member.id for member in group.members.values() if not member.is_static]
    if dynamic:
        sentence = f"Group {group_id!r} has dynamic members, such as {dynamic[0]}."
        raise Refusal("dynamic_members", sentence)
    prepare(turn, group, "admin", "asked for by an administrator")
