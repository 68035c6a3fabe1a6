"""The last rebalances of each group: why they happened, who was waited for, what they cost."""

from coterie_server.history.history import History
from coterie_server.history.record import (
    Beginning,
    CountedNames,
    HistoryLimit,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
)

__all__ = [
    "Beginning",
    "CountedNames",
    "History",
    "HistoryLimit",
    "LateMember",
    "RebalanceOutcome",
    "RebalanceRecord",
]
