"""How a membership ends: closed, broken, or fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie_client.membership.actions import Failure, Stop
from coterie_client.membership.config import REASON_CHARS
from coterie_client.membership.events import Fenced, GroupLeft
from coterie_client.membership.finding import Finder
from coterie_client.membership.ground import Ground
from coterie_client.membership.heart import Heart
from coterie_client.membership.holdings import Holdings
from coterie_client.membership.offsets import Fetches
from coterie_client.membership.standing import NO_MEMBER_ID, Identity, Phase
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

__all__ = ["ClosedError", "Farewell"]

#: How long the last request of a membership may take: nothing depends on its answer.
_GOODBYE_MS: Final = 3_000


class ClosedError(CoterieError):
    """The group has been left, so nothing more can be asked of it."""


class Farewell:
    """Ends the membership in good order, as far as there is time."""

    def __init__(
        self,
        ground: Ground,
        *,
        finder: Finder,
        heart: Heart,
        holdings: Holdings,
        fetches: Fetches,
        hush: Callable[[], None],
    ) -> None:
        self._config = ground.config
        self._own_host = ground.sources.host
        self._post = ground.post
        self._standing = ground.standing
        self._finder = finder
        self._heart = heart
        self._holdings = holdings
        self._fetches = fetches
        #: Drops what else is under way.
        self._hush = hush
        self._leaves = False
        #: Whether the last request is under way.
        self._is_asked = False
        #: Until when to look for a coordinator that was lost, to say goodbye to it.
        self._until_ms: int | None = None
        self._reason = ""
        self._error: Exception | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to end without having said goodbye."""
        return None if self._is_asked else self._until_ms

    def close(self, *, leave: bool, deadline_ms: int, reason: str, now_ms: int) -> None:
        """Let go of everything, then leave if that is wanted."""
        standing = self._standing
        if standing.phase in (Phase.LEAVING, Phase.OVER):
            return
        if not standing.is_closing:
            standing.is_closing, standing.rejoin = True, None
            self._leaves, self._reason = leave, reason
        self._holdings.revoke(list(standing.owned), "closing", deadline_ms, now_ms)

    def fail(self, error: Exception) -> None:
        """It can't go on: lose everything, and let the others know."""
        standing = self._standing
        if standing.phase in (Phase.LEAVING, Phase.OVER):
            return
        self._holdings.lose(str(error) or type(error).__name__)
        standing.is_closing, standing.rejoin = True, None
        self._leaves = self._config.instance is None
        self._reason = f"failed: {type(error).__name__}"
        self._error = error

    def fenced(self) -> None:
        """Another process joined in our name: find out which, and stop."""
        standing = self._standing
        self._holdings.lose("fenced by another process with the same instance id")
        self._hush()
        standing.phase, standing.is_closing = Phase.LEAVING, True
        self._is_asked = True
        identity = standing.identity
        request = DescribeGroupsRequest(groups=(self._config.group,))

        def answered(answer: DescribeGroupsResponse | Failure, _now_ms: int) -> None:
            self._blame(identity, None if isinstance(answer, Failure) else answer)

        if self._finder.address is None:
            self._blame(identity, None)
        else:
            address = self._finder.address
            self._post.send(request, address, Lane.KEEPALIVE, _GOODBYE_MS, answered)

    def advance(self, now_ms: int) -> None:
        """Leave, as soon as nothing is owned any more."""
        standing = self._standing
        if not standing.is_closing or self._is_asked or standing.phase is Phase.OVER:
            return
        if standing.owned:
            return
        if standing.phase is not Phase.LEAVING:
            self._hush()
            standing.phase = Phase.LEAVING
            self._until_ms = now_ms + _GOODBYE_MS
        identity = standing.identity
        if not self._leaves or identity.member_id == NO_MEMBER_ID:
            self._end(identity, stays=not self._leaves)
        elif self._finder.address is not None:
            self._say_goodbye(identity, self._finder.address)
        elif self._until_ms is not None and now_ms >= self._until_ms:
            self._end(identity, stays=False)

    def _say_goodbye(self, identity: Identity, node: NodeAddress) -> None:
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
        self._post.send(request, node, Lane.KEEPALIVE, _GOODBYE_MS, answered)

    def _blame(self, identity: Identity, answer: DescribeGroupsResponse | None) -> None:
        instance = self._config.instance or ""
        successor = _successor(answer, instance, identity.member_id)
        name = successor.member_id if successor else None
        host = successor.client_host.lstrip("/") if successor else None
        self._post.report(
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
        self._standing.phase = Phase.OVER
        self._standing.identity = Identity()
        self._heart.stop()
        self._post.close()
        self._fetches.fail(ClosedError("the group has been left"))
        if identity.member_id:
            self._post.report(GroupLeft(member_id=identity.member_id, stays=stays))
        self._post.do(Stop(self._error))


def _successor(
    answer: DescribeGroupsResponse | None, instance: str, member_id: str
) -> DescribedGroupMember | None:
    members = [member for group in answer.groups for member in group.members] if answer else []
    for member in members:
        if member.group_instance_id == instance and member.member_id != member_id:
            return member
    return None
