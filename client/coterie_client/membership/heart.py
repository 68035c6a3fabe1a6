"""Heartbeats: telling the coordinator that we live, and knowing until when it believes so."""

from __future__ import annotations

from typing import Final

from coterie_client.membership.actions import Failure, FailureKind, Hangup
from coterie_client.membership.finding import Finder
from coterie_client.membership.ground import Ground
from coterie_client.membership.standing import Identity, Phase
from coterie_client.membership.verdicts import Verdict, verdict_of
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

__all__ = ["Heart"]

_ALIVE: Final = frozenset(
    {Phase.PREPARING, Phase.LEADING, Phase.SYNCING, Phase.PROVING, Phase.STABLE}
)


class Heart:
    """Sends heartbeats and keeps the lease.

    The coordinator drops a member that it has not heard of for a session timeout, counted from
    when the member's last request came in.  That was no earlier than we sent it, so an answered
    heartbeat lets us go on until a session timeout after it was *sent*, whatever befalls the
    network, or the process, meanwhile.
    """

    def __init__(self, ground: Ground, finder: Finder) -> None:
        self._config = ground.config
        self._post = ground.post
        self._standing = ground.standing
        self._judge = ground.judge
        self._fail = ground.fail
        self._finder = finder
        self._ticket: int | None = None
        self._due_ms = 0
        #: Until when the coordinator counts on us at least; None if it never said so.
        self.lease_until_ms: int | None = None
        #: How often in a row our generation was said to be over.
        self._denials = 0
        #: When we last knew that no rebalance was under way.
        self.calm_at_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send the next heartbeat, or to act on a lease that has run out."""
        due_ms = self._due_ms if self._may_send() else None
        stops = self._config.stop_when_silent and self._standing.owned
        lease_ms = self.lease_until_ms if stops else None
        return min((each for each in (due_ms, lease_ms) if each is not None), default=None)

    def begin(self, now_ms: int) -> None:
        """A new generation: have a sign of life in it at once. An older one still counts."""
        self._post.drop(self._ticket)
        self._ticket = None
        self._denials = 0
        self._due_ms = now_ms

    def prove(self, now_ms: int) -> None:
        """Ask at once whether the coordinator still counts on us, unless that is under way."""
        self._due_ms = min(self._due_ms, now_ms)

    def stop(self) -> None:
        """Nobody counts on us any more."""
        self._post.drop(self._ticket)
        self._ticket = None
        self.lease_until_ms = None

    def is_trusted(self, now_ms: int) -> bool:
        """Whether the coordinator is known to count on us."""
        if not self._config.stop_when_silent:
            return True
        return self.lease_until_ms is not None and now_ms < self.lease_until_ms

    def has_run_out(self, now_ms: int) -> bool:
        """Whether we own partitions on a lease that has ended."""
        if not self._config.stop_when_silent or not self._standing.owned:
            return False
        return self.lease_until_ms is not None and now_ms >= self.lease_until_ms

    def advance(self, now_ms: int) -> None:
        """Send a heartbeat, if it is time to."""
        if not self._may_send() or now_ms < self._due_ms:
            return
        assert self._finder.address is not None
        identity, address = self._standing.identity, self._finder.address
        request = HeartbeatRequest(
            group_id=self._config.group,
            generation_id=identity.generation,
            member_id=identity.member_id,
            group_instance_id=self._config.instance,
        )

        def answered(answer: HeartbeatResponse | Failure, then_ms: int) -> None:
            self._ticket = None
            if isinstance(answer, Failure):
                self._failed(answer, address, then_ms)
            else:
                self._answered(answer, identity, now_ms, then_ms)

        self._due_ms = now_ms + self._config.heartbeat_interval_ms
        self._ticket = self._post.send(
            request, address, Lane.KEEPALIVE, self._config.heartbeat_timeout_ms, answered
        )

    def _may_send(self) -> bool:
        standing = self._standing
        if self._ticket is not None or self._finder.address is None:
            return False
        if not standing.identity.is_in_generation:
            return False
        # While the answer to a join is awaited, it only matters to those who keep partitions.
        return standing.phase in _ALIVE or (
            standing.phase is Phase.JOINING and bool(standing.owned)
        )

    def _answered(
        self, answer: HeartbeatResponse, identity: Identity, sent_ms: int, now_ms: int
    ) -> None:
        verdict = verdict_of(answer.error_code)
        if verdict in (Verdict.FINE, Verdict.REJOIN) and identity == self._standing.identity:
            self._finder.confirm()
            self.lease_until_ms = sent_ms + self._config.lease_ms
            if verdict is Verdict.FINE:
                self.calm_at_ms = sent_ms
        if verdict is Verdict.NEW_GENERATION and identity == self._standing.identity:
            self._be_denied(now_ms)
        if verdict is not Verdict.FINE:
            self._judge(answer.error_code, identity, now_ms)

    def _be_denied(self, now_ms: int) -> None:
        """End the lease if our generation was said to be over twice in a row.

        While we join, one such answer means that the one to our join is on its way. By the second,
        an interval later, it would have come: our wish to join went unheard, and the group goes on
        without us. (A static member is not dropped then, so it hears nothing worse.)
        """
        self._denials += 1
        if self._denials > 1 and self.lease_until_ms is not None:
            self.lease_until_ms = min(self.lease_until_ms, now_ms)

    def _failed(self, failure: Failure, node: NodeAddress, now_ms: int) -> None:
        if failure.kind is FailureKind.REFUSED:
            self._fail(failure.reason)
            return
        self._due_ms = now_ms
        if failure.kind is FailureKind.TIMED_OUT:
            # It does not even answer heartbeats, so it will not answer what waits beside them.
            self._post.do(Hangup(node))
        self._finder.forget(f"no answer to a heartbeat: {failure}", now_ms, node)
