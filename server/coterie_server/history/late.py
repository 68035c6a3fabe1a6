"""The members that a rebalance waited for longest."""

from __future__ import annotations

import heapq

from coterie_protocol.journal import PhaseJoined
from coterie_server.history.record import LATE_MAX, LateMember

__all__ = ["came_late", "latest"]


def came_late(
    event: PhaseJoined, awaited: set[str], before_ms: int, waited_ms: int
) -> list[LateMember]:
    """Of those that were awaited, the ones that did not join at once.

    They were awaited for `waited_ms`, and for `before_ms` before their joins began to count.
    """
    late = []
    for phase in event.members:
        after_ms, how = waited_ms, "away"
        if phase.joined_after_ms is not None:
            after_ms, how = before_ms + phase.joined_after_ms, "joined"
        if phase.member not in awaited or (how == "joined" and after_ms == 0):
            continue
        late.append(LateMember(phase.member, phase.instance, phase.host, after_ms, how))
    return late


def latest(late: tuple[LateMember, ...]) -> tuple[LateMember, ...]:
    """Those that took longest."""
    return tuple(heapq.nlargest(LATE_MAX, late, key=lambda each: each.after_ms))
