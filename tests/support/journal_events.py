"""Events of a group `g`, with the fields that a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie_protocol.journal import (
    MemberGone,
    MemberJoined,
    MemberPhase,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)

__all__ = ["completed", "conflict", "gone", "joined", "phase", "phase_joined", "started"]


def started(**values: Any) -> RebalanceStarted:
    """The start of a rebalance."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 1,
        "from_state": "Stable",
        "cause": "member_joined",
        "detail": "",
        "awaited": (),
        "deadline": None,
    }
    return RebalanceStarted(**defaults | values)


def phase(
    member: str, after_ms: int | None, owned: Mapping[str, tuple[int, ...]] | None = None
) -> MemberPhase:
    """A member that joined, and what it still owns."""
    return MemberPhase(
        member=member, instance=None, host="h", joined_after_ms=after_ms, owned=owned
    )


def phase_joined(*members: MemberPhase, **values: Any) -> PhaseJoined:
    """The end of a first phase."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 2,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m",
        "members": members,
        "dropped": (),
        "last": None,
        "cause": "member_joined",
        "took_ms": 0,
    }
    return PhaseJoined(**defaults | values)


def completed(**values: Any) -> RebalanceCompleted:
    """The end of a second phase."""
    defaults: dict[str, Any] = {
        "group": "g",
        "generation": 2,
        "cause": "member_joined",
        "assigned": {},
        "moved": 0,
        "revoked": 0,
        "needs_rejoin": False,
        "took_ms": 0,
        "total_ms": 0,
    }
    return RebalanceCompleted(**defaults | values)


def conflict(partition: int, *, withheld: bool = False) -> OwnershipConflict:
    """A partition given to one member while another holds it."""
    return OwnershipConflict(
        group="g",
        generation=2,
        topic="t",
        partition=partition,
        holder="a",
        given_to="b",
        withheld=withheld,
    )


def joined(member: str = "m") -> MemberJoined:
    """A member that came."""
    return MemberJoined(
        group="g",
        member=member,
        instance=None,
        client_id="",
        host="h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=("range",),
        topics=None,
    )


def gone(member: str = "m", how: str = "left") -> MemberGone:
    """A member that went."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="h",
        how=how,
        silent_ms=0,
        session_timeout_ms=1,
    )
