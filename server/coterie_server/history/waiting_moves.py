"""Which partitions are to move, and what each of these moves waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coterie_server.history.record import NAMES_MAX, CountedNames

if TYPE_CHECKING:
    from coterie_protocol.journal import MemberPhase, Partitions, RebalanceCompleted

__all__ = ["waiting_moves"]


def waiting_moves(event: RebalanceCompleted, said: Iterable[MemberPhase]) -> CountedNames:
    """The moves that an assignment leaves for later, a few of them in words.

    `said` is what members said as they joined.
    """
    if not event.targets:
        return CountedNames()
    moves = [
        (topic, number, member)
        for member, partitions in event.targets.items()
        for topic, numbers in partitions.items()
        for number in numbers
    ]
    members = {phase.member: phase for phase in said} if moves else {}
    owners = _owners(event.assigned or {}) if moves else {}

    def name(member: str | None) -> str:
        if member is None:
            return "no member"
        return (members[member].instance if member in members else None) or member

    named = tuple(
        f"{topic}-{number} from {name(owners.get((topic, number)))} to {name(member)}"
        f" ({_state(event, members.get(member), member, topic, number)})"
        for topic, number, member in sorted(moves)[:NAMES_MAX]
    )
    return CountedNames(len(moves), named)


def _state(
    event: RebalanceCompleted, said: MemberPhase | None, member: str, topic: str, number: int
) -> str:
    """What the move of a partition to a member waits for."""
    lags = (said.lags if said else None) or {}
    lag = lags.get(topic, {}).get(str(number))
    if lag is not None:
        return f"its copy was {lag:,} behind"
    has_copy = any(
        number in (orders or {}).get(member, {}).get(topic, ())
        for orders in (event.warming, event.standbys)
    )
    return "its copy is being made" if has_copy else "its turn to make a copy has not come"


def _owners(assigned: Mapping[str, Partitions]) -> dict[tuple[str, int], str]:
    return {
        (topic, number): member
        for member, partitions in assigned.items()
        for topic, numbers in partitions.items()
        for number in numbers
    }
