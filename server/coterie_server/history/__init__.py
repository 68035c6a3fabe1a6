"""The last rebalances of each group: why they happened, who was waited for, what they cost."""

from coterie_server.history.as_json import rebalance_json
from coterie_server.history.history import History
from coterie_server.history.record import (
    Beginning,
    CountedNames,
    HistoryLimit,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
    in_seconds,
)

__all__ = [
    "Beginning",
    "CountedNames",
    "History",
    "HistoryLimit",
    "LateMember",
    "RebalanceOutcome",
    "RebalanceRecord",
    "in_seconds",
    "rebalance_json",
]
