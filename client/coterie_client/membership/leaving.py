"""How a membership ends: closed, failed, or fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie_client.membership.actions import Failure, Stop
from coterie_client.membership.config import REASON_CHARS
from coterie_client.membership.context import NO_MEMBER_ID, Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup
from coterie_client.membership.events import Fenced, GroupLeft
from coterie_client.membership.heartbeats import Heartbeats
from coterie_client.membership.offsets import Fetches
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.phases import Phase
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_protocol.errors import FencedInstanceIdError
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coterie_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

__all__ = ["ClosedError", "Leaving"]

#: How long the last request of a membership may take: nothing depends on its answer.
_LAST_REQUEST_MS: Final = 3_000


class ClosedError(CoterieError):
    """The group has been left."""


class Leaving:
    """Ends the membership in good order, as far as time permits."""

    def __init__(
        self,
        context: Context,
        *,
        lookup: CoordinatorLookup,
        heartbeats: Heartbeats,
        ownership: Ownership,
        fetches: Fetches,
        abort_join: Callable[[], None],
    ) -> None:
        self._config = context.config
        self._own_host = context.sources.host
        self._outbox = context.outbox
        self._state = context.state
        self._lookup = lookup
        self._heartbeats = heartbeats
        self._ownership = ownership
        self._fetches = fetches
        self._abort_join = abort_join
        self._leaves = False
        #: Whether the last request is under way.
        self._is_asked = False
        #: Until when to look for a lost coordinator, to send it the last request.
        self._until_ms: int | None = None
        self._reason = ""
        self._error: Exception | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to end without having left, because the coordinator was not found."""
        return None if self._is_asked else self._until_ms

    def close(self, *, leave: bool, deadline_ms: int, reason: str, now_ms: int) -> None:
        """Let go of everything, then leave if that is wanted."""
        state = self._state
        if state.phase in (Phase.LEAVING, Phase.OVER):
            return
        if not state.is_closing:
            state.is_closing, state.rejoin_reason = True, None
            self._leaves, self._reason = leave, reason
        self._ownership.revoke(list(state.owned), "closing", deadline_ms, now_ms)

    def fail(self, error: Exception) -> None:
        """Lose everything and leave, because of an error that no retry would mend."""
        state = self._state
        if state.phase in (Phase.LEAVING, Phase.OVER):
            return
        self._ownership.lose(str(error) or type(error).__name__)
        state.is_closing, state.rejoin_reason = True, None
        self._leaves = self._config.instance is None
        self._reason = f"failed: {type(error).__name__}"
        self._error = error

    def fenced(self) -> None:
        """Stop, because another process has joined with the same instance id; find out which."""
        state = self._state
        self._ownership.lose("fenced by another process with the same instance id")
        self._abort_join()
        state.enter(Phase.LEAVING)
        state.is_closing = True
        self._is_asked = True
        identity = state.identity
        request = DescribeGroupsRequest(groups=(self._config.group,))

        def answered(answer: DescribeGroupsResponse | Failure, _now_ms: int) -> None:
            self._end_fenced(identity, None if isinstance(answer, Failure) else answer)

        if self._lookup.address is None:
            self._end_fenced(identity, None)
        else:
            address = self._lookup.address
            self._outbox.send(request, address, Lane.KEEPALIVE, _LAST_REQUEST_MS, answered)

    def advance(self, now_ms: int) -> None:
        """Leave, once nothing is owned any more."""
        state = self._state
        if not state.is_closing or self._is_asked or state.phase is Phase.OVER:
            return
        if state.owned:
            return
        if state.phase is not Phase.LEAVING:
            self._abort_join()
            state.enter(Phase.LEAVING)
            self._until_ms = now_ms + _LAST_REQUEST_MS
        identity = state.identity
        if not self._leaves or identity.member_id == NO_MEMBER_ID:
            self._end(identity, stays=not self._leaves)
        elif self._lookup.address is not None:
            self._leave(identity, self._lookup.address)
        elif self._until_ms is not None and now_ms >= self._until_ms:
            self._end(identity, stays=False)

    def _leave(self, identity: Identity, node: NodeAddress) -> None:
        self._is_asked = True
        member = MemberIdentity(
            member_id=identity.member_id,
            group_instance_id=self._config.instance,
            reason=self._reason[:REASON_CHARS],
        )
        request = LeaveGroupRequest(group_id=self._config.group, members=(member,))

        def answered(_answer: LeaveGroupResponse | Failure, _then_ms: int) -> None:
            self._end(identity, stays=False)

        # Not behind a join that may be waiting for others.
        self._outbox.send(request, node, Lane.KEEPALIVE, _LAST_REQUEST_MS, answered)

    def _end_fenced(self, identity: Identity, answer: DescribeGroupsResponse | None) -> None:
        instance = self._config.instance or ""
        successor = _successor(answer, instance, identity.member_id)
        name = successor.member_id if successor else None
        host = successor.client_host.lstrip("/") if successor else None
        self._outbox.report(
            Fenced(
                instance_id=instance,
                member_id=identity.member_id,
                host=self._own_host or None,
                successor=name,
                successor_host=host,
            )
        )
        here = f" at {self._own_host}" if self._own_host else ""
        by = f"member {name} at {host}" if successor else "another process"
        detail = f"instance id {instance!r} of {identity.member_id}{here} was taken over by {by}"
        self._error = FencedInstanceIdError(detail)
        self._end(identity, stays=False)

    def _end(self, identity: Identity, *, stays: bool) -> None:
        self._state.enter(Phase.OVER)
        self._state.identity = Identity()
        self._heartbeats.stop()
        self._outbox.ignore_all()
        self._fetches.fail(ClosedError("the group has been left"))
        if identity.member_id:
            self._outbox.report(GroupLeft(member_id=identity.member_id, stays=stays))
        self._outbox.add(Stop(self._error))


def _successor(
    answer: DescribeGroupsResponse | None, instance: str, member_id: str
) -> DescribedGroupMember | None:
    members = [member for group in answer.groups for member in group.members] if answer else []
    for member in members:
        if member.group_instance_id == instance and member.member_id != member_id:
            return member
    return None
