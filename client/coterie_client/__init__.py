"""The members' side of a group: join it, work on its partitions, commit, hand over.

`Group` is where to begin; `Admin` looks after topics, groups and offsets.

A name is imported when it is first used, so that a program which needs one of the two does not load
the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coterie_client.admin import Admin
    from coterie_client.assignors import WarmSettings
    from coterie_client.changes import Assigned, Change, Changes, Lost, Revoked
    from coterie_client.counters import GroupCounters
    from coterie_client.directory import Directory, Owner
    from coterie_client.errors import DirectoryRefusedError, NoOwnerError
    from coterie_client.group import Group
    from coterie_client.membership import (
        ClosedError,
        PartitionLostError,
        Phase,
        Position,
        Role,
        Sources,
    )
    from coterie_client.membership.events import Event
    from coterie_client.partition import Partition
    from coterie_client.standby import Standby
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
    "Directory",
    "DirectoryRefusedError",
    "Event",
    "Group",
    "GroupCounters",
    "GroupMisuseError",
    "Lost",
    "NoOwnerError",
    "Owner",
    "Partition",
    "PartitionLostError",
    "Phase",
    "Position",
    "Release",
    "Restart",
    "Revoked",
    "Role",
    "Sasl",
    "SaslMechanism",
    "Security",
    "Sources",
    "Standby",
    "Stop",
    "Tls",
    "TopicPartition",
    "WarmSettings",
    "Work",
    "WorkCancelledError",
    "WorkStalledError",
]

#: Where the public names are.
_MODULES: Final = {
    "admin": "Admin",
    "assignors": "WarmSettings",
    "changes": "Assigned Change Changes Lost Revoked",
    "counters": "GroupCounters",
    "directory": "Directory Owner",
    "errors": "DirectoryRefusedError NoOwnerError",
    "group": "Group",
    "membership": "ClosedError PartitionLostError Phase Position Role Sources",
    "membership.events": "Event",
    "partition": "Partition",
    "standby": "Standby",
    "wire": "PLAINTEXT Sasl SaslMechanism Security Tls",
    "wire.addresses": "TopicPartition",
    "work": "GroupMisuseError Release Restart Stop Work WorkCancelledError WorkStalledError",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # to a type checker, it would say that there is every name

    def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
