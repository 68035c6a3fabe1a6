"""The members that a rebalance waited for longest."""

from __future__ import annotations

import heapq

from coterie_protocol.journal import PhaseJoined
from coterie_server.history.record import LATE_MAX, LateMember

__all__ = ["came_late", "latest"]


def came_late(event: PhaseJoined, awaited: set[str], waited_ms: int) -> list[LateMember]:
    """Of those that were awaited, the ones that did not join at once."""
    late = []
    for phase in event.members:
        if phase.member not in awaited or phase.joined_after_ms == 0:
            continue
        after_ms, how = phase.joined_after_ms, "joined"
        if after_ms is None:
            after_ms, how = waited_ms, "away"
        late.append(LateMember(phase.member, phase.instance, phase.host, after_ms, how))
    return late


def latest(late: tuple[LateMember, ...]) -> tuple[LateMember, ...]:
    """Those that took longest."""
    return tuple(heapq.nlargest(LATE_MAX, late, key=lambda each: each.after_ms))
