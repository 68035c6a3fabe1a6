"""Has the group rebalance when loads are out of balance, or when this member's has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coterie_assignors import Assignor, Cluster, MemberInfo, Partitions, Weights
from coterie_assignors.outlook import later, read_loads
from coterie_client.membership.consumer_protocol import Outcome
from coterie_client.membership.context import Context
from coterie_client.membership.phases import Phase
from coterie_protocol.consumer import decode_assignment, group_by_topic

__all__ = ["Decision", "Imbalance"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a leader decided, and by what."""

    assignor: Assignor
    cluster: Cluster
    members: Mapping[str, MemberInfo]
    outcome: Outcome

    def assignment(self) -> dict[str, Partitions]:
        """What each member was given."""
        return {
            each.member_id: decode_assignment(each.assignment).assigned_partitions
            for each in self.outcome.assignments
        }


class Imbalance:
    """Looks at the loads once a rest time, as far as the leader knows them.

    Of its own partitions it knows the present load; other members told theirs when they joined.  So
    it finds that it has too much itself, and what the last rebalance has left to do because
    partitions rested or moves were limited.  When what others told is too old, or when they had
    just begun and could not tell yet, a rebalance has them tell.

    A member that does not lead has the group rebalance when its load has changed by more than the
    tolerance since it told it, at most once a rest time: the leader would not know otherwise.
    """

    def __init__(self, context: Context) -> None:
        self._outbox, self._state = context.outbox, context.state
        self._fail = context.fail
        self._loads = context.loads
        self._decision: Decision | None = None
        self._decided_ms = 0
        self._due_ms = 0
        #: When the member looked last whether its load has changed.
        self._looked_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to look."""
        return self._due_ms if self._is_watching() else self._change_due_ms

    def decided(self, decision: Decision, now_ms: int) -> None:
        """Note what was decided: it is looked at again after a rest.

        Not if members are away: these keep what they had, so the group is not balanced until they
        are back or given up, however often it rebalances.  Nor if partitions wait until copies of
        their state have caught up: then it rebalances anyway.
        """
        is_away = any(member.is_away for member in decision.members.values())
        is_settled = decision.outcome.is_final and not is_away
        self._decision, self._decided_ms = decision if is_settled else None, now_ms
        weights = decision.assignor.weights
        if weights is not None:
            self._due_ms = now_ms + weights.rest_ms

    def advance(self, now_ms: int) -> None:
        """Look, if it is time to, and ask for a rebalance if partitions are to move."""
        change_due_ms = self._change_due_ms
        if change_due_ms is not None and now_ms >= change_due_ms:
            self._look_for_change(now_ms)
        if not self._is_watching() or now_ms < self._due_ms:
            return
        assert self._decision is not None
        weights = self._decision.assignor.weights
        assert weights is not None
        self._due_ms = now_ms + weights.rest_ms
        try:
            reason = self._reason(self._decision, weights, now_ms)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._fail(error)
            return
        if reason is not None:
            self._state.request_rejoin(f"load: {reason}")

    @property
    def _change_due_ms(self) -> int | None:
        """When to look whether the load has changed, if another member leads."""
        state, weights, told_ms = self._state, self._loads.weights, self._loads.told_ms
        if weights is None or not weights.rebalance or told_ms is None or state.is_leader:
            return None
        if state.phase is not Phase.STABLE or state.rejoin_reason is not None or state.is_closing:
            return None
        return max(told_ms, self._looked_ms) + weights.rest_ms

    def _look_for_change(self, now_ms: int) -> None:
        weights, growth = self._loads.weights, self._loads.growth(now_ms)
        assert weights is not None
        self._looked_ms = now_ms
        if not 1 / (1 + weights.tolerance) <= growth <= 1 + weights.tolerance:
            self._state.request_rejoin(f"load: this member has {growth:.2f} times what it told")

    def _is_watching(self) -> bool:
        state, decision = self._state, self._decision
        if decision is None or not state.is_leader or state.phase is not Phase.STABLE:
            return False
        weights = decision.assignor.weights
        starts = weights is not None and weights.rebalance
        return starts and state.rejoin_reason is None and not state.is_closing

    def _reason(self, decision: Decision, weights: Weights, now_ms: int) -> str | None:
        elapsed_ms = now_ms - self._decided_ms
        told, own = read_loads(decision.members), self._state.identity.member_id
        known = later(told, decision.assignment(), elapsed_ms)
        mine = known.pop(own, None)
        reason = None
        if mine is not None:
            owned, report = group_by_topic(self._state.owned), self._loads.report(now_ms)
            everybody = known | {own: replace(mine, owned=owned, loads=report)}
            reason = decision.assignor.reason_to_rebalance(decision.cluster, everybody)
        return reason or _reason_to_ask(known, elapsed_ms, weights)


def _reason_to_ask(
    others: Mapping[str, MemberInfo], elapsed_ms: int, weights: Weights
) -> str | None:
    """Why to have the other members tell their loads anew."""
    tellers = [member.loads for member in others.values() if member.loads is not None]
    if not tellers:
        return None
    if weights.refresh_ms is not None and elapsed_ms >= weights.refresh_ms:
        return f"members told theirs {elapsed_ms // 1000} s ago"
    # A load is known after `smoothing`, if it is measured from the beginning.  What is not known
    # after twice that time is not measured at all.
    known_after_ms = 2 * weights.smoothing_ms
    beginners = sum(
        any(
            load.value is None and known_after_ms <= load.age_ms < elapsed_ms + known_after_ms
            for load in report.owned.values()
        )
        for report in tellers
    )
    if beginners:
        return f"{beginners} of {len(others)} other members could not tell theirs yet"
    return None
