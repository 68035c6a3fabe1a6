"""Lines of a journal for the tests of recordings, and the recording of such lines."""

from __future__ import annotations

from typing import Any

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    Line,
    MemberGone,
    MemberJoined,
    MemberPhase,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.replay import (
    Recording,
    read_recording,
)

__all__ = [
    "BEGAN_MS",
    "completed",
    "gone",
    "joined",
    "phase",
    "recorded",
    "recovered",
    "seconds",
    "started",
]

BEGAN_MS = 1_700_000_000_000


def joined(member: str, **fields: Any) -> MemberJoined:
    """A member joins."""
    values: dict[str, Any] = {
        "group": "g",
        "member": member,
        "instance": None,
        "client_id": member.rstrip("0123456789"),
        "host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocols": ("range",),
        "topics": ("jobs",),
    }
    return MemberJoined(**values | fields)


def gone(member: str, how: str, silent_ms: int = 0, reason: str = "") -> MemberGone:
    """A member is no longer there."""
    return MemberGone(
        reason=reason,
        group="g",
        member=member,
        instance=None,
        host="/10.0.0.1",
        how=how,
        silent_ms=silent_ms,
        session_timeout_ms=10_000,
    )


def started(*awaited: str, cause: str = "member_joined") -> RebalanceStarted:
    """A rebalance begins."""
    return RebalanceStarted(
        group="g",
        generation=1,
        from_state="Stable",
        cause=cause,
        detail="",
        awaited=awaited,
        deadline=None,
    )


def phase(*members: tuple[str, int], topics: tuple[str, ...] | None = ("jobs",)) -> PhaseJoined:
    """Members have joined, each so many milliseconds after the start."""
    return PhaseJoined(
        group="g",
        generation=2,
        protocol_type="consumer",
        protocol="range",
        leader=members[0][0],
        members=tuple(
            MemberPhase(
                member=member,
                instance=None,
                host="/10.0.0.1",
                joined_after_ms=joined_after_ms,
                topics=topics,
            )
            for member, joined_after_ms in members
        ),
        dropped=(),
        last=None,
        cause="member_joined",
        took_ms=max(joined_after_ms for _, joined_after_ms in members),
    )


def completed(assigned: dict[str, dict[str, tuple[int, ...]]] | None) -> RebalanceCompleted:
    """An assignment is in place."""
    return RebalanceCompleted(
        group="g",
        generation=1,
        cause="member_joined",
        assigned=assigned,
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=1,
        total_ms=1,
    )


def recovered(*members: str) -> GroupRecovered:
    """A node reads the group back."""
    return GroupRecovered(group="g", state="Stable", generation=1, members=members)


def recorded(*events: tuple[int, Event]) -> Recording:
    """What is read out of events, each with its second."""
    lines = [
        Line(BEGAN_MS + second * 1000, "1", number, event)
        for number, (second, event) in enumerate(events)
    ]
    return read_recording(lines, "g")


def seconds(ms: int | None) -> float | None:
    """A moment, counted from the beginning."""
    return None if ms is None else (ms - BEGAN_MS) / 1000
