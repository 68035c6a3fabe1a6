"""Who we are in the group: the membership machine, without I/O."""

from coterie_client.membership.actions import (
    ANY,
    Abandon,
    Action,
    Anybody,
    Assign,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    Lane,
    Lose,
    NodeAddress,
    Position,
    Report,
    Revoke,
    Send,
    Stop,
    TopicPartition,
)
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.farewell import ClosedError
from coterie_client.membership.machine import Membership
from coterie_client.membership.offsets import PartitionLostError
from coterie_client.membership.standing import Identity, Phase

__all__ = [
    "ANY",
    "Abandon",
    "Action",
    "Anybody",
    "Assign",
    "ClosedError",
    "Committed",
    "Failure",
    "FailureKind",
    "Fetched",
    "Hangup",
    "Identity",
    "Lane",
    "Lose",
    "Membership",
    "MembershipConfig",
    "NodeAddress",
    "PartitionLostError",
    "Phase",
    "Position",
    "Report",
    "Revoke",
    "Send",
    "Sources",
    "Stop",
    "TopicPartition",
]
