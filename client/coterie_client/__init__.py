"""The members' side of a group: join it, work on its partitions, commit, hand over.

`Group` is where to begin; `Admin` looks after topics, groups and offsets.
"""

from coterie_client.admin import Admin
from coterie_client.changes import Assigned, Change, Changes, Lost, Revoked
from coterie_client.counters import GroupCounters
from coterie_client.group import Group
from coterie_client.membership import ClosedError, PartitionLostError, Phase, Position, Sources
from coterie_client.membership.events import Event
from coterie_client.partition import Partition
from coterie_client.wire import PLAINTEXT, Sasl, SaslMechanism, Security, Tls
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work import (
    GroupMisuseError,
    Release,
    Restart,
    Stop,
    Work,
    WorkCancelledError,
    WorkStalledError,
)

__all__ = [
    "PLAINTEXT",
    "Admin",
    "Assigned",
    "Change",
    "Changes",
    "ClosedError",
    "Event",
    "Group",
    "GroupCounters",
    "GroupMisuseError",
    "Lost",
    "Partition",
    "PartitionLostError",
    "Phase",
    "Position",
    "Release",
    "Restart",
    "Revoked",
    "Sasl",
    "SaslMechanism",
    "Security",
    "Sources",
    "Stop",
    "Tls",
    "TopicPartition",
    "Work",
    "WorkCancelledError",
    "WorkStalledError",
]
