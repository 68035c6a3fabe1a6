"""The last rebalances of each group: why they happened, who was waited for, what they cost."""

from coterie_server.history.history import History
from coterie_server.history.record import (
    CountedNames,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
)

__all__ = ["CountedNames", "History", "LateMember", "RebalanceOutcome", "RebalanceRecord"]
