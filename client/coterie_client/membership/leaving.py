"""How a membership ends: closed, failed, or fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie_client.membership.actions import Failure, FailureKind, Hangup, Stop
from coterie_client.membership.config import REASON_CHARS
from coterie_client.membership.context import NO_MEMBER_ID, Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.events import Fenced, GroupLeft, RetryPlanned
from coterie_client.membership.fetches import Fetches
from coterie_client.membership.heartbeats import Heartbeats
from coterie_client.membership.ownership import Ownership
from coterie_client.membership.phases import Phase
from coterie_client.membership.standbys import Standbys
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_protocol.errors import FencedInstanceIdError, error_for
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

#: How long one attempt at the last request of a membership may take.
_ATTEMPT_MS: Final = 3_000
#: How long to try to leave: what is left of the time for closing, but no less and no more than
#: this.  When a coordinator dies, another one has its groups after a lease of three seconds, and a
#: client has found that one some two seconds later.
_LEAVE_MIN_MS: Final = 3_000
_LEAVE_MAX_MS: Final = 8_000
#: How long a join may be on its way after the request to leave, which takes another connection.
_OVERTAKEN_MS: Final = 1_000


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
        standbys: Standbys,
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
        self._standbys = standbys
        self._fetches = fetches
        self._abort_join = abort_join
        self._backoff = context.backoff()
        self._leaves = False
        #: When closing is to be over, if it was begun.
        self._close_by_ms: int | None = None
        #: Whether the last request is under way.
        self._is_asked = False
        #: When to send it next.
        self._again_ms = 0
        #: Until when to try to leave, once nothing is owned any more.
        self._until_ms: int | None = None
        #: Until when it may arrive before the join of a member that has no id yet.
        self._overtakes_until_ms = 0
        #: Whether an error has come up meanwhile that no retry would mend.
        self._is_hopeless = False
        self._reason = ""
        self._error: Exception | None = None

    @property
    def deadline_ms(self) -> int | None:
        """When to try again to leave, or to end without having left."""
        if self._is_asked or self._until_ms is None:
            return None
        if self._lookup.address is None:
            return self._until_ms
        return min(self._again_ms, self._until_ms)

    def close(self, *, leave: bool, deadline_ms: int, reason: str, now_ms: int) -> None:
        """Let go of everything, then leave if that is wanted."""
        state = self._state
        if state.phase in (Phase.LEAVING, Phase.OVER):
            return
        if not state.is_closing:
            state.is_closing, state.rejoin_reason = True, None
            self._leaves, self._reason = leave, reason
        self._close_by_ms = min(deadline_ms, self._close_by_ms or deadline_ms)
        self._standbys.withdraw()
        self._ownership.revoke(list(state.owned), "closing", deadline_ms, now_ms)

    def hurry(self, now_ms: int) -> None:
        """Have what is let go of to close gone before a rebalance ends that is under way."""
        if self._state.is_closing:
            deadline_ms = self._heartbeats.release_deadline_ms(now_ms)
            self._ownership.revoke(list(self._state.owned), "closing", deadline_ms, now_ms)

    def fail(self, error: Exception) -> None:
        """Lose everything and leave, because of an error that no retry would mend."""
        state = self._state
        if state.phase in (Phase.LEAVING, Phase.OVER):
            self._is_hopeless = True
            return
        self._standbys.withdraw()
        self._ownership.lose(str(error) or type(error).__name__)
        self._leave_because_of(error)

    def fail_in_order(self, error: Exception, now_ms: int) -> None:
        """Let go of everything, then leave, because of an error in the user's own code.

        To be called while commits are taken.
        """
        state = self._state
        state.has_failed = True
        self._standbys.withdraw()
        deadline_ms = self._heartbeats.release_deadline_ms(now_ms)
        self._ownership.revoke(list(state.owned), "failed", deadline_ms, now_ms)
        self._leave_because_of(error)

    def _leave_because_of(self, error: Exception) -> None:
        self._state.is_closing, self._state.rejoin_reason = True, None
        self._leaves = self._config.instance is None
        self._reason = f"failed: {type(error).__name__}"
        self._error = error

    def fenced(self) -> None:
        """Stop, because another process has joined with the same instance id; find out which."""
        state = self._state
        self._standbys.withdraw()
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
            self._outbox.send(request, address, Lane.KEEPALIVE, _ATTEMPT_MS, answered)

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
            self._until_ms = self._latest_end_ms(now_ms)
            if state.identity.member_id == NO_MEMBER_ID:
                self._overtakes_until_ms = now_ms + _OVERTAKEN_MS
        identity, node = state.identity, self._lookup.address
        is_unknown = identity.member_id == NO_MEMBER_ID and not state.may_be_known_by_name
        if not self._leaves or is_unknown:
            self._end(identity, stays=not self._leaves)
        elif self._is_hopeless or (self._until_ms is not None and now_ms >= self._until_ms):
            self._end(identity, stays=False)
        elif node is not None and now_ms >= self._again_ms:
            self._leave(identity, node, now_ms)

    def _latest_end_ms(self, now_ms: int) -> int:
        most_ms = now_ms + _LEAVE_MAX_MS
        wanted_ms = most_ms if self._close_by_ms is None else self._close_by_ms
        return min(max(wanted_ms, now_ms + _LEAVE_MIN_MS), most_ms)

    def _leave(self, identity: Identity, node: NodeAddress, now_ms: int) -> None:
        self._is_asked = True
        member = MemberIdentity(
            member_id=identity.member_id,
            group_instance_id=self._config.instance,
            reason=self._reason[:REASON_CHARS],
        )
        request = LeaveGroupRequest(group_id=self._config.group, members=(member,))

        def answered(answer: LeaveGroupResponse | Failure, then_ms: int) -> None:
            self._is_asked = False
            if not self._plans_another_attempt(answer, node, then_ms):
                self._end(identity, stays=False)

        # Not behind a join that may be waiting for others.
        left_ms = max((self._until_ms or now_ms) - now_ms, 1)
        timeout_ms = min(_ATTEMPT_MS, left_ms)
        self._lookup.ask(request, Lane.KEEPALIVE, timeout_ms, answered, now_ms)

    def _plans_another_attempt(
        self, answer: LeaveGroupResponse | Failure, node: NodeAddress, now_ms: int
    ) -> bool:
        """Repeat the request if it may not have been carried out, as when the coordinator died.

        Twice does no harm: a member that has left already is just not known any more.
        """
        if isinstance(answer, Failure):
            if answer.kind is FailureKind.REFUSED:
                return False
            if answer.kind is FailureKind.TIMED_OUT:
                self._outbox.add(Hangup(node))
            self._lookup.forget(f"no answer to a leave: {answer}", now_ms, node)
            return True
        for code in (answer.error_code, *(member.error_code for member in answer.members)):
            match reaction_to(code):
                case Reaction.FIND_COORDINATOR:
                    self._lookup.forget(str(error_for(code)), now_ms, node)
                    return True
                case Reaction.RETRY:
                    self._wait(str(error_for(code)), now_ms)
                    return True
                case Reaction.RESET_IDENTITY if now_ms < self._overtakes_until_ms:
                    self._wait("its join may be on its way", now_ms)
                    return True
        return False

    def _wait(self, reason: str, now_ms: int) -> None:
        delay_ms = self._backoff.next_ms()
        self._again_ms = now_ms + delay_ms
        planned = RetryPlanned(what="leave the group", reason=reason, delay_ms=delay_ms)
        self._outbox.report(planned)

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
