"""Heartbeat (12): a member says that it is alive, and is told when to rejoin."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import INT16, INT32, STRING, field, request, response

__all__ = [
    "HeartbeatRequest",
    "HeartbeatResponse",
]


@request(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Keep the membership alive."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)


@response(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """No error while the membership stands and no rebalance has begun."""

    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    error_code: int = field(INT16, default=0)
