"""Assignors, which decide which member of a group gets which partitions.

They live in `coterie_assignors`, which knows neither the network nor the client.  Applications that
have the client import them from here.
"""

from coterie_assignors import (
    NO_GENERATION,
    Adjustment,
    Assignor,
    Claim,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    InvalidAssignmentError,
    MemberInfo,
    Operations,
    Partitions,
    Plan,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    WarmReport,
    WarmSettings,
    Weights,
    adjust,
    in_kafka_order,
    lead,
)

__all__ = [
    "NO_GENERATION",
    "Adjustment",
    "Assignor",
    "Claim",
    "Cluster",
    "CooperativeStickyAssignor",
    "InstanceStickyAssignor",
    "InvalidAssignmentError",
    "MemberInfo",
    "Operations",
    "Partitions",
    "Plan",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "WarmReport",
    "WarmSettings",
    "Weights",
    "adjust",
    "in_kafka_order",
    "lead",
]
