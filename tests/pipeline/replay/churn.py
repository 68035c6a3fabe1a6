"""A group in which members come and go all the time, as long as wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie_protocol.replay import Source

__all__ = ["churn"]


def churn(rebalances: int) -> Iterator[Source]:
    """A group in which one of five members goes and another one comes, again and again."""
    seq, ts = 0, 0
    members = [f"m{number}" for number in range(5)]

    def line(kind: str, **values: Any) -> Source:
        nonlocal seq
        seq += 1
        return Source("n", seq, ts, {"kind": kind, "group": "g", **values}, 800)

    for number in range(rebalances):
        ts += 10_000
        gone, fresh = members.pop(0), f"m{number + 5}"
        members.append(fresh)
        yield line(
            "member_gone", member=gone, instance=None, host="/h", how="session_expired",
            silent_ms=10_000, session_timeout_ms=10_000, reason="",
        )  # fmt: skip
        yield line(
            "member_joined", member=fresh, instance=None, client_id=fresh, host="/h",
            session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocols=["range"],
            topics=["t"], reason="",
        )  # fmt: skip
        yield line(
            "rebalance_started", generation=number, from_state="Stable", cause="session_expired",
            detail="", awaited=members, deadline=None, follows=None,
        )  # fmt: skip
        ts += 100
        phases: list[dict[str, Any]] = [
            {"member": member, "instance": None, "host": "/h", "joined_after_ms": 50, "owned": {}}
            for member in members
        ]
        yield line(
            "phase_joined", generation=number + 1, protocol="range", leader=fresh, members=phases,
            dropped=[], cause="session_expired", took_ms=100,
        )  # fmt: skip
        yield line(
            "rebalance_completed", generation=number + 1, cause="session_expired",
            assigned={member: {"t": [index]} for index, member in enumerate(members)},
            moved=1, revoked=0, needs_rejoin=False, took_ms=1, total_ms=100,
        )  # fmt: skip
