"""What the node tells whoever watches it: how lines look, and which ones groups are worth."""

from coterie_server.log.configuration import configure
from coterie_server.log.rebalances import RebalanceLog

__all__ = ["RebalanceLog", "configure"]
