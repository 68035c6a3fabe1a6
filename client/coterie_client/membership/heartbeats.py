"""Heartbeats, and what is reckoned from them: the lease, and the deadlines of a rebalance."""

from __future__ import annotations

from typing import Final

from coterie_client.membership.actions import Failure, FailureKind, Hangup
from coterie_client.membership.context import Context, Identity
from coterie_client.membership.coordinator import CoordinatorLookup, Reaction, reaction_to
from coterie_client.membership.phases import HEARTBEATING, Phase
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

__all__ = ["Heartbeats"]

#: With less than this part of a rebalance timeout left, it is too late to ask again.
_TOO_LATE: Final = 20


class Heartbeats:
    """Sends heartbeats and keeps the lease.

    The coordinator drops a member that it has not heard of for a session timeout, counted from
    when the member's last request came in.  That was no earlier than the request was sent, so an
    answered heartbeat lets the member go on until a session timeout after it was *sent*, whatever
    happens to the network, or to this process, in the meantime.  Or until a rebalance timeout after
    that, if this is shorter: a rebalance may have begun right after the answer, and ends without
    the members that have not joined by then.

    A coordinator that is still reading its groups takes heartbeats on trust: it answers that all is
    well, whether the member is in the group or not.  So a heartbeat only renews a lease that has
    not run out when the answer comes.  What begins one is a join or heartbeat that was answered,
    from whose sending it counts, and then the answer to a sync that was sent later, which takes a
    coordinator that knows the group.  The sync does not count by itself: Kafka's brokers answer one
    that comes late, and the session goes on from before.

    Renewing on trust is safe: until the lease runs out, no
    coordinator can have dropped the member for its silence.  If one that reads the group answers by
    then, the member is still in what it reads, and gets a fresh session when that is read, later
    than the heartbeat was sent.  That holds for one after the other, as long as only the group's
    coordinator takes heartbeats on trust: Coterie's nodes see to that by their leases on shards,
    and Kafka's brokers as far as their controller reaches them.
    """

    def __init__(self, context: Context, lookup: CoordinatorLookup) -> None:
        self._config = context.config
        self._outbox = context.outbox
        self._state = context.state
        self._react = context.react
        self._fail = context.fail
        self._lookup = lookup
        self._ticket: int | None = None
        self._due_ms = 0
        #: Until when the coordinator keeps the member at least; None if it never said so.
        self.lease_until_ms: int | None = None
        #: Until when it keeps the member if that is in the group, by what was answered.
        self.kept_until_ms = 0
        self._awaits_answer = False
        #: Whether the lease ends with the rebalance that is under way, and not with the session.
        self._is_cut_short = False
        #: How many heartbeats in a row were told that their generation is over.
        self._denials = 0
        #: When the member last knew that no rebalance was under way.
        self.calm_at_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to send the next heartbeat, or to act on a lease that has run out."""
        due_ms = self._due_ms if self._may_send() else None
        stops = self._config.stop_when_silent and self._state.owned
        lease_ms = self.lease_until_ms if stops else None
        return min((each for each in (due_ms, lease_ms) if each is not None), default=None)

    def begin_generation(self, joined_ms: int, now_ms: int) -> None:
        """Send a heartbeat of the new generation at once; the lease of the former still counts.

        The session counts from the answer to a join that was sent at `joined_ms`.
        """
        self.kept_until_ms, self._awaits_answer = joined_ms + self._config.lease_ms, False
        self._outbox.ignore(self._ticket)
        self._ticket = None
        self._denials = 0
        self._due_ms = now_ms

    def send_soon(self, now_ms: int) -> None:
        """Send a heartbeat now, unless one is under way."""
        self._due_ms = min(self._due_ms, now_ms)

    def joins(self, now_ms: int) -> None:
        """Note that a join is on its way, by which the rebalance does not end without the member.

        A heartbeat finds out beside it whether the coordinator is there.
        """
        if self._is_cut_short:
            self._is_cut_short = False
            self.send_soon(now_ms)

    def stop(self) -> None:
        """Give up the lease, and expect no answer."""
        self._outbox.ignore(self._ticket)
        self._ticket = None
        self.lease_until_ms = None

    # -- the lease -----------------------------------------------------------------------------

    def has_lease(self, now_ms: int) -> bool:
        """Whether the coordinator is known to keep the member."""
        return not self._config.stop_when_silent or self._is_standing(now_ms)

    def _is_standing(self, now_ms: int) -> bool:
        return self.lease_until_ms is not None and now_ms < self.lease_until_ms

    def prove(self, kept_until_ms: int, now_ms: int) -> None:
        """Have a lease until then: one who knows the group has said that the member is in it.

        If that is over, another heartbeat has to be answered first; if it is over soon, as after a
        join that took long, one has to be answered in time.
        """
        self._extend(kept_until_ms)
        if not self._is_standing(now_ms):
            self.begin_anew(now_ms)
        elif not self._is_standing(now_ms + self._config.lease_ms // 2):
            self.send_soon(now_ms)

    def _extend(self, until_ms: int) -> None:
        self.lease_until_ms = max(self.lease_until_ms or 0, until_ms)

    @property
    def come_first(self) -> bool:
        """Whether a heartbeat has to be answered before a sync can prove anything."""
        return self._awaits_answer and self._state.phase is Phase.PROVING

    def begin_anew(self, now_ms: int) -> None:
        """Find out by a heartbeat, and a sync after it, whether the member is kept."""
        self._awaits_answer = True
        self.send_soon(now_ms)

    def has_run_out(self, now_ms: int) -> bool:
        """Whether partitions are owned on a lease that has ended."""
        if not self._config.stop_when_silent or not self._state.owned:
            return False
        return self.lease_until_ms is not None and now_ms >= self.lease_until_ms

    # -- the deadlines of a rebalance ----------------------------------------------------------

    # The coordinator waits for a member no longer than a rebalance timeout, and it may have begun
    # to wait right after it last said that all was calm.

    def release_deadline_ms(self, now_ms: int) -> int:
        """When partitions that are let go of from now have to be gone."""
        return max(self._earliest_start_ms(now_ms) + self._config.release_ms, now_ms + 1)

    def ask_again_ms(self, now_ms: int) -> int:
        """When to repeat a join or sync that is sent now, if there is no answer.

        Half-way to the end of the rebalance, and so on, as long as there is time for another
        attempt; after that there is no hurry.  A sync in PROVING waits for no other member.
        """
        if self._state.phase is Phase.PROVING:
            return now_ms + self._config.heartbeat_timeout_ms
        whole_ms = self._config.rebalance_timeout_ms
        left_ms = self._earliest_start_ms(now_ms) + whole_ms - now_ms
        return now_ms + max((left_ms if left_ms >= whole_ms // _TOO_LATE else whole_ms) // 2, 1)

    def _earliest_start_ms(self, now_ms: int) -> int:
        return min(self.calm_at_ms, now_ms) or now_ms

    # -- sending -------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Send a heartbeat, if it is time to."""
        if not self._may_send() or now_ms < self._due_ms:
            return
        assert self._lookup.address is not None
        identity, address = self._state.identity, self._lookup.address
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

        self._due_ms = now_ms + self._config.beat_ms
        timeout_ms = self._config.heartbeat_timeout_ms
        self._ticket = self._lookup.ask(request, Lane.KEEPALIVE, timeout_ms, answered, now_ms)

    def _may_send(self) -> bool:
        state = self._state
        if self._ticket is not None or self._lookup.address is None:
            return False
        if not state.identity.is_in_generation:
            return False
        return state.phase in HEARTBEATING or (state.phase is Phase.JOINING and bool(state.owned))

    def _answered(
        self, answer: HeartbeatResponse, identity: Identity, sent_ms: int, now_ms: int
    ) -> None:
        reaction = reaction_to(answer.error_code)
        is_current = identity == self._state.identity
        if is_current and reaction in (Reaction.NONE, Reaction.REJOIN):
            self._lookup.confirm(now_ms)
            kept_until_ms = self._kept_until_ms(reaction, sent_ms, now_ms)
            self.kept_until_ms = max(self.kept_until_ms, kept_until_ms)
            self._awaits_answer = now_ms >= self.kept_until_ms  # if it was sent long before
            if self._proves_membership(reaction, now_ms):
                self._extend(self.kept_until_ms)
            if reaction is Reaction.NONE:
                self.calm_at_ms = sent_ms
        if is_current and reaction is Reaction.RESET_GENERATION:
            self._count_denial(now_ms)
        if reaction is not Reaction.NONE:
            self._react(answer.error_code, identity, now_ms)

    def _kept_until_ms(self, reaction: Reaction, sent_ms: int, now_ms: int) -> int:
        """Until when an answer keeps the member.

        One that has not joined yet is kept no longer than the rebalance takes.
        """
        session_ms = sent_ms + self._config.lease_ms
        has_to_join = self._state.phase in (Phase.STABLE, Phase.PREPARING)
        if reaction is not Reaction.REJOIN or not has_to_join:
            return session_ms
        whole_ms = self._config.rebalance_timeout_ms
        end_ms = self._earliest_start_ms(now_ms) + whole_ms - whole_ms // _TOO_LATE
        self._is_cut_short = end_ms < session_ms
        return min(session_ms, end_ms)

    def _proves_membership(self, reaction: Reaction, now_ms: int) -> bool:
        """Whether an answer proves that the member is kept.

        Only who knows the group knows that it is rebalancing.  That all is well may be said on
        trust, which will do as long as the lease has not run out.
        """
        return reaction is Reaction.REJOIN or self._is_standing(now_ms)

    def _count_denial(self, now_ms: int) -> None:
        """End the lease if the generation was said to be over twice in a row.

        While the member joins, one such answer means that the answer to its join is on the way.  By
        the second, an interval later, that would have come: the join never arrived, and the group
        goes on without the member.  (A static member is not dropped then, so it hears nothing
        worse.)
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
            self._outbox.add(Hangup(node))
        self._lookup.forget(f"no answer to a heartbeat: {failure}", now_ms, node)
