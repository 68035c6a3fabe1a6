"""Operations: what administrators have ordered of a group, for as long as it stands.

Coordinators store them, tell them to the group's leader, and show them to administrators; all in
this form.  None of it is Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie_protocol.schema import INT32, INT64, STRING, Array, field, struct

__all__ = [
    "DRAIN",
    "FREEZE",
    "KEEP_FROM",
    "PIN",
    "Operation",
    "OperationTopic",
    "partitions_of",
    "topics_of",
]

#: A member gives up what it has, and gets nothing new.
DRAIN: Final = "drain"
#: Partitions go to a member.
PIN: Final = "pin"
#: Partitions go to any other member.
KEEP_FROM: Final = "keep-from"
#: Members keep what they have.
FREEZE: Final = "freeze"


@struct()
class OperationTopic:
    """Partitions of a topic."""

    topic: str = field(STRING)
    partitions: tuple[int, ...] = field(Array(INT32))


@struct()
class Operation:
    """Something that an administrator has ordered of a group."""

    kind: str = field(STRING)
    #: Whom it is about: a static member by its name, which outlives its processes, or a dynamic one
    #: by its id.  A freeze is about no member.
    member_id: str | None = field(STRING, nullable="0+", default=None)
    instance_id: str | None = field(STRING, nullable="0+", default=None)
    #: What a pin or a keep-from is about.
    topics: tuple[OperationTopic, ...] = field(Array(OperationTopic), default=())
    #: How many partitions a drained member gives up at a time; 0 for all at once.
    at_a_time: int = field(INT32, default=0)
    #: The members that came during a freeze, by name or by id.
    newcomers: tuple[str, ...] = field(Array(STRING), default=())
    #: Who ordered it, and why, as far as they said.
    by: str = field(STRING, default="")
    reason: str = field(STRING, default="")
    since_ms: int = field(INT64, default=-1)
    #: When it ends by itself; -1 if it does not.
    until_ms: int = field(INT64, default=-1)
    #: Since when there has been no member of its name; -1 if there is one.
    missing_since_ms: int = field(INT64, default=-1)


def partitions_of(operation: Operation) -> frozenset[tuple[str, int]]:
    """What a pin or a keep-from is about."""
    return frozenset((each.topic, n) for each in operation.topics for n in each.partitions)


def topics_of(partitions: Iterable[tuple[str, int]]) -> tuple[OperationTopic, ...]:
    """Partitions as an operation names them."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return tuple(OperationTopic(topic=t, partitions=tuple(n)) for t, n in found.items())
