"""The last rebalances of each group: why they happened, who was waited for, what they cost."""

from coterie_server.history.book import History
from coterie_server.history.rebalance import Late, Outcome, Rebalance, Some

__all__ = ["History", "Late", "Outcome", "Rebalance", "Some"]
