"""The node's metrics for Prometheus, in a registry of their own."""

from coterie_protocol.extras import needs_extra

with needs_extra("server", "coterie_server"):
    from coterie_server.metrics.collector import Metrics
    from coterie_server.metrics.gauges import GroupCounts, NodeSnapshot, count_groups
    from coterie_server.metrics.requests import error_of

__all__ = ["GroupCounts", "Metrics", "NodeSnapshot", "count_groups", "error_of"]
