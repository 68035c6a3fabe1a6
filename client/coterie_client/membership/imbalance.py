"""Has the group rebalance when loads are out of balance, if this member leads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from coterie_assignors import Assignor, Cluster, MemberInfo, Weights
from coterie_assignors.outlook import later, read_loads
from coterie_client.membership.context import Context
from coterie_client.membership.phases import Phase
from coterie_protocol.consumer import decode_assignment, group_by_topic
from coterie_protocol.messages.sync_group import SyncGroupRequestAssignment

__all__ = ["Decision", "Imbalance"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a leader decided, and by what."""

    assignor: Assignor
    cluster: Cluster
    members: Mapping[str, MemberInfo]
    assignments: Sequence[SyncGroupRequestAssignment]


class Imbalance:
    """Looks at the loads once a rest time, as far as the leader knows them.

    Of its own partitions it knows the present load; other members told theirs when they joined.  So
    this finds that it has too much itself, and what the last rebalance has left to do, because
    partitions rested or the number of moves was limited.  Where more is wanted, `Weights.refresh`
    has members join again to tell.
    """

    def __init__(self, context: Context) -> None:
        self._outbox, self._state = context.outbox, context.state
        self._fail = context.fail
        self._loads = context.loads
        self._decision: Decision | None = None
        self._decided_ms = 0
        self._due_ms = 0

    @property
    def deadline_ms(self) -> int | None:
        """When to look."""
        return self._due_ms if self._is_watching() else None

    def decided(self, decision: Decision, now_ms: int) -> None:
        """Note what was decided: it is looked at again after a rest."""
        self._decision, self._decided_ms = decision, now_ms
        weights = decision.assignor.weights
        if weights is not None:
            self._due_ms = now_ms + weights.rest_ms

    def advance(self, now_ms: int) -> None:
        """Look, if it is time to, and ask for a rebalance if partitions are to move."""
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

    def _is_watching(self) -> bool:
        state, decision = self._state, self._decision
        if decision is None or not state.is_leader or state.phase is not Phase.STABLE:
            return False
        weights = decision.assignor.weights
        starts = weights is not None and (weights.rebalance or weights.refresh is not None)
        return starts and state.rejoin_reason is None and not state.is_closing

    def _reason(self, decision: Decision, weights: Weights, now_ms: int) -> str | None:
        elapsed_ms = now_ms - self._decided_ms
        members = read_loads(decision.members)
        own = self._state.identity.member_id
        if weights.rebalance:
            assignment = {
                each.member_id: decode_assignment(each.assignment).assigned_partitions
                for each in decision.assignments
            }
            known = later(members, assignment, elapsed_ms)
            if own in known:
                known[own] = replace(
                    known[own],
                    owned=group_by_topic(self._state.owned),
                    loads=self._loads.report(now_ms),
                )
            reason = decision.assignor.reason_to_rebalance(decision.cluster, known)
            if reason is not None:
                return reason
        others_tell = any(each.loads is not None for name, each in members.items() if name != own)
        if weights.refresh_ms is not None and elapsed_ms >= weights.refresh_ms and others_tell:
            return f"members told theirs {elapsed_ms // 1000} s ago"
        return None
