"""What administrators had ordered of a group, and still stood as its journal ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.operations import DRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie_protocol.replay.order import Placed

__all__ = ["STANDING", "StandingOrder", "standing_in"]

#: The lines that tell of it.
STANDING: Final = frozenset({"operation_started", "operation_ended"})

_Partitions = dict[str, list[int]]


@dataclass(slots=True)
class StandingOrder:
    """An operation, as a node shows it; whether a member follows it is in no journal."""

    operation: str
    member: str | None
    instance: str | None
    partitions: _Partitions | None
    at_a_time: int | None
    by: str
    reason: str
    since_ms: int
    until_ms: int | None
    left: int | None = None
    followed: bool = True


def standing_in(lines: Iterable[Placed]) -> list[StandingOrder]:
    """What stands after lines of these kinds, and those by which a group was deleted."""
    found: list[StandingOrder] = []
    for line in lines:
        if line.kind == "group_deleted":
            found.clear()
        elif line.kind == "operation_started":
            found.append(_started(line))
        elif line.kind == "operation_ended":
            found = [each for each in found if not _is_over(each, line.values)]
    return found


def _started(line: Placed) -> StandingOrder:
    is_drain = line["operation"] == DRAIN
    return StandingOrder(
        operation=line["operation"],
        member=line["member"],
        instance=line["instance"],
        partitions=line["partitions"],
        at_a_time=line["at_a_time"] if is_drain else None,
        by=line["by"],
        reason=line["reason"],
        since_ms=line.at,
        until_ms=line["until"],
    )


def _is_over(order: StandingOrder, ended: Mapping[str, Any]) -> bool:
    """Take what has ended from an order; whether nothing is left of it."""
    about = order.operation, order.member, order.instance
    if about != (ended["operation"], ended["member"], ended["instance"]):
        return False
    if order.partitions is None:
        return True
    gone = {topic: set(numbers) for topic, numbers in (ended["partitions"] or {}).items()}
    left = {
        topic: [each for each in numbers if each not in gone.get(topic, ())]
        for topic, numbers in order.partitions.items()
    }
    order.partitions = {topic: numbers for topic, numbers in left.items() if numbers}
    return not order.partitions
