"""Kafka's consumer groups as a small service of their own.

These are the names of the client, by which programs work in groups: `Group` is where to begin, and
`Admin` looks after topics, groups and offsets.  They are imported when they are first used.

What else there is has packages of its own: `coterie_assignors` for assignors, `coterie_protocol`
for Kafka's messages and its errors, `coterie_testing` (`pip install 'coterie[testing]'`) for tests
of programs that work in groups, and `coterie_server` (`coterie[server]`) for a coordinator inside a
program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie_client import (
        PLAINTEXT,
        Admin,
        Assigned,
        Change,
        Changes,
        ClosedError,
        Directory,
        DirectoryRefusedError,
        Event,
        Group,
        GroupCounters,
        GroupMisuseError,
        Lost,
        NoOwnerError,
        Owner,
        Partition,
        PartitionLostError,
        Phase,
        Position,
        Release,
        Restart,
        Revoked,
        Role,
        Sasl,
        SaslMechanism,
        Security,
        Sources,
        Standby,
        Stop,
        Tls,
        TopicPartition,
        WarmSettings,
        Work,
        WorkCancelledError,
        WorkStalledError,
    )

    __version__: str

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
    "__version__",
]

if not TYPE_CHECKING:  # to a type checker, it would say that there is every name

    def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
        if name == "__version__":
            value = import_module("coterie_protocol.version").VERSION
        elif name in __all__:
            value = getattr(import_module("coterie_client"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
