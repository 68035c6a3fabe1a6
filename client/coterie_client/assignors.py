"""Assignors, which decide who in a group owns which partition, under the client's own name.

They live in `coterie_assignors`, which knows neither the network nor the client; an application
that has the client imports them from here.
"""

from coterie_assignors import (
    NO_GENERATION,
    Adjustment,
    Assignor,
    Claim,
    Cluster,
    CooperativeStickyAssignor,
    InvalidAssignmentError,
    MemberInfo,
    Partitions,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
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
    "InvalidAssignmentError",
    "MemberInfo",
    "Partitions",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "adjust",
    "in_kafka_order",
    "lead",
]
