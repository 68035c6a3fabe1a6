"""Members of groups: who they are, and that they have to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie_client.admin.caller import Caller
from coterie_client.admin.groups import Groups
from coterie_client.admin.models import MemberDescription, MemberRef
from coterie_client.admin.results import Result, Results, error_of
from coterie_client.errors import ConfigurationError
from coterie_client.wire.addresses import NodeAddress
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import LeaveGroupRequest, MemberIdentity, MemberResponse

__all__ = ["Members"]

_DEFAULT_REASON: Final = "removed by an administrator"
_NOT_THERE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})


class Members:
    """What can be done with the members of a group; reached as `Admin.members`."""

    def __init__(self, caller: Caller, groups: Groups) -> None:
        self._caller = caller
        self._groups = groups

    async def list(self, group: str) -> tuple[MemberDescription, ...]:
        """A group's members; raises `GroupIdNotFoundError` if there is no such group."""
        return (await self._groups.describe(group)).members

    async def remove(
        self,
        group: str,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        reason: str = _DEFAULT_REASON,
    ) -> None:
        """Remove a member by its id, or a static one by its instance id.

        The group rebalances, and the member joins again if it still runs. Raises
        `UnknownMemberIdError` if there is no such member.
        """
        member = MemberRef(member_id, instance_id)
        (await self.remove_many(group, [member], reason=reason))[member].get()

    async def remove_many(
        self, group: str, members: Iterable[MemberRef], *, reason: str = _DEFAULT_REASON
    ) -> Results[MemberRef, None]:
        """Remove members of one group, which then rebalances once."""
        removed = tuple(members)
        if not all(member.member_id or member.instance_id for member in removed):
            raise ConfigurationError("A member to remove needs a member_id or an instance_id.")

        async def ask(
            node: NodeAddress, asked: Iterable[MemberRef], deadline_s: float
        ) -> Mapping[MemberRef, Result[None]]:
            identities = (
                MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.instance_id, reason=reason
                )
                for member in asked
            )
            request = LeaveGroupRequest(group_id=group, members=tuple(identities))
            answer = await self._caller.ask(request, deadline_s, node)
            error = error_of(answer.error_code, f"group {group}")
            if error is not None:
                raise error
            return {
                MemberRef(gone.member_id, gone.group_instance_id): _removed(gone, group)
                for gone in answer.members
            }

        return await self._caller.in_group(group, removed, ask, done_if=_NOT_THERE)


def _removed(gone: MemberResponse, group: str) -> Result[None]:
    member = MemberRef(gone.member_id, gone.group_instance_id)
    return Result(error=error_of(gone.error_code, f"group {group}, member {member}"))
