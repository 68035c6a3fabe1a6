"""How members with state tell a leader what they hold, and what it answers: Kafka Streams' formats.

A member's `SubscriptionInfo` names the tasks whose state it holds and how far behind each is; the
leader's `AssignmentInfo` names the tasks that a member is to work on and those that it only keeps
up to date.  Both are Kafka's, in versions 1 to 11.  They travel in the user data of subscriptions
and assignments; `envelope` keeps them apart from what an assignor of its own writes there.

A group may be in the middle of an upgrade.  `versions` says how its members settle on a version
that all of them know.

In Kafka a task is a partition of a *subtopology*, and a member reports the sum of the offsets that
its state has reached, which the leader subtracts from the ends of the changelogs.  In a Coterie
group each topic is a subtopology, and there is no log whose end a leader could know, so members
report the lag itself in place of the sum.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.streams.envelope import join_user_data, split_user_data
from coterie_protocol.streams.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_VERSION,
    NAMED_TOPOLOGY_VERSION,
    UNKNOWN_VERSION,
    GroupVersions,
    UnknownVersionError,
    next_version,
)

if TYPE_CHECKING:
    from coterie_protocol.streams.assignment import (
        NO_REBALANCE,
        AssignmentInfo,
        HostInfo,
        Partitions,
        decode_assignment_info,
        encode_assignment_info,
    )
    from coterie_protocol.streams.subscription import (
        LATEST_OFFSET,
        UNKNOWN_OFFSET_SUM,
        SubscriptionInfo,
        decode_subscription_info,
        encode_subscription_info,
    )
    from coterie_protocol.streams.tasks import (
        TaskId,
        TopicTasks,
    )

__all__ = [
    "EARLIEST_PROBEABLE_VERSION",
    "LATEST_OFFSET",
    "LATEST_VERSION",
    "NAMED_TOPOLOGY_VERSION",
    "NO_REBALANCE",
    "UNKNOWN_OFFSET_SUM",
    "UNKNOWN_VERSION",
    "AssignmentInfo",
    "GroupVersions",
    "HostInfo",
    "Partitions",
    "SubscriptionInfo",
    "TaskId",
    "TopicTasks",
    "UnknownVersionError",
    "decode_assignment_info",
    "decode_subscription_info",
    "encode_assignment_info",
    "encode_subscription_info",
    "join_user_data",
    "next_version",
    "split_user_data",
]

#: By module, what only groups with state need; it is loaded when it is asked for.
_MODULES: Final = {
    "assignment": """
        AssignmentInfo HostInfo NO_REBALANCE Partitions
        decode_assignment_info encode_assignment_info
    """,
    "subscription": """
        LATEST_OFFSET SubscriptionInfo UNKNOWN_OFFSET_SUM
        decode_subscription_info encode_subscription_info
    """,
    "tasks": "TaskId TopicTasks",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # to a type checker, it would say that there is every name

    def __getattr__(name: str) -> Any:  # whatever the name stands for
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
