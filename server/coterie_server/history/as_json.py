"""A rebalance as all pages show it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coterie_protocol.journal import CAUSES
from coterie_server.history.record import in_seconds

if TYPE_CHECKING:
    from coterie_server.history.record import RebalanceRecord

__all__ = ["rebalance_json"]


def rebalance_json(rebalance: RebalanceRecord) -> dict[str, Any]:
    """A rebalance as JSON."""
    values = asdict(rebalance)
    for late in values["late"]:
        late["host"] = late["host"].lstrip("/")
    stopped_ms, silent_ms = (values.pop(f"{name}_partition_ms") for name in ("stopped", "silent"))
    del values["group"]
    return values | {
        "because": CAUSES.get(rebalance.cause, rebalance.cause),
        "complete_ms": rebalance.complete_ms,
        "stopped_partition_seconds": in_seconds(stopped_ms),
        "silent_partition_seconds": in_seconds(silent_ms),
    }
