"""The answers to JoinGroup and SyncGroup, in the exact shapes that Kafka gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.messages import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from coterie_server.group.group import Group
    from coterie_server.group.member import Member
    from coterie_server.step import Request

__all__ = ["join_answer", "sync_answer"]

#: The first version of JoinGroup in which the protocol's name may be null.
_NULLABLE_NAME_FROM = 7


def join_answer(
    group: Group,
    member: Member,
    request: Request,
    *,
    leader: str | None = None,
    as_leader: bool | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The answer to a join into the current generation; the leader is told of all members."""
    row, version = group.row, request.version
    if as_leader is None:
        as_leader = row.leader == member.id
    return JoinGroupResponse(
        generation_id=row.generation,
        protocol_type=row.protocol_type if version >= _NULLABLE_NAME_FROM else None,
        protocol_name=row.protocol_name or (None if version >= _NULLABLE_NAME_FROM else ""),
        leader=(row.leader or "") if leader is None else leader,
        skip_assignment=skip_assignment,
        member_id=member.id,
        members=_all_members(group, request) if as_leader else (),
        operations=group.operations if as_leader and request.message.wants_operations else (),
    )


def _all_members(group: Group, request: Request) -> tuple[JoinGroupResponseMember, ...]:
    told = group.away if request.message.wants_absences else ()
    is_ordered = bool(group.operations) and request.message.wants_operations
    return tuple(
        [
            JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.row.protocol_name),
                away_with=member.row.assignment if member.id in told else None,
                assigned_last=member.row.assignment if is_ordered else None,
            )
            for member in group.members.values()
        ]
    )


def sync_answer(group: Group, member: Member, request: Request) -> SyncGroupResponse:
    """A member's assignment, with a fencing token if the request asks for one."""
    return SyncGroupResponse(
        protocol_type=group.row.protocol_type,
        protocol_name=group.row.protocol_name,
        assignment=member.assignment,
        fencing_token=group.token if request.message.wants_token else -1,
    )
