"""Assignors: who of a group is to have which partition.  They are pure: no I/O, no clock."""

from coterie_assignors.base import (
    NO_GENERATION,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
    in_kafka_order,
)
from coterie_assignors.cooperative import Adjustment, InvalidAssignmentError, adjust, lead
from coterie_assignors.range import RangeAssignor
from coterie_assignors.roundrobin import RoundRobinAssignor
from coterie_assignors.sticky import CooperativeStickyAssignor, StickyAssignor

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
