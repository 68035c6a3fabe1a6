"""Advice."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.tables import ADVICE

__all__ = ["advice"]


def advice(
    nodes, unread, rebalances, ownership_faults, member_sessions, group_health, control
) -> DataFrame:
    """The table."""
    return nodes.where("false").select(
        *(F.lit(None).cast(c.type).alias(c.name) for c in ADVICE.columns)
    )
