"""Who we are in the group: the membership machine, without I/O."""

from coterie_client.membership.actions import (
    Abandon,
    Action,
    Assign,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    Lose,
    Position,
    Report,
    Revoke,
    Send,
    Stop,
)
from coterie_client.membership.config import MembershipConfig, Sources
from coterie_client.membership.farewell import ClosedError
from coterie_client.membership.machine import Membership
from coterie_client.membership.offsets import PartitionLostError
from coterie_client.membership.standing import Identity, Phase

__all__ = [
    "Abandon",
    "Action",
    "Assign",
    "ClosedError",
    "Committed",
    "Failure",
    "FailureKind",
    "Fetched",
    "Hangup",
    "Identity",
    "Lose",
    "Membership",
    "MembershipConfig",
    "PartitionLostError",
    "Phase",
    "Position",
    "Report",
    "Revoke",
    "Send",
    "Sources",
    "Stop",
]
