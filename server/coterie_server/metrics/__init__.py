"""Figures for Prometheus, in a registry of their own."""

from coterie_server.metrics.census import Census, GroupCount, count_groups
from coterie_server.metrics.errors import error_of
from coterie_server.metrics.figures import Metrics

__all__ = ["Census", "GroupCount", "Metrics", "count_groups", "error_of"]
