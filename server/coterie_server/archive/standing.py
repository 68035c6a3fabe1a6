"""What administrators had ordered of a group, and still stood as its journal ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.operations import DRAIN
from coterie_server.http.group_view import OperationView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie_protocol.replay import Source

__all__ = ["STANDING", "standing_in"]

#: The lines that tell of it.
STANDING: Final = frozenset({"operation_started", "operation_ended"})


def standing_in(lines: Iterable[Source]) -> list[OperationView]:
    """What stands after lines of these kinds, and those by which a group was deleted."""
    found: list[OperationView] = []
    for line in lines:
        match line.values["kind"]:
            case "group_deleted":
                found.clear()
            case "operation_started":
                found.append(_started(line.ts, line.values))
            case "operation_ended":
                found = [left for each in found if (left := _left(each, line.values))]
    return found


def _started(ts_ms: int, values: Mapping[str, Any]) -> OperationView:
    is_drain = values["operation"] == DRAIN
    return OperationView(
        operation=values["operation"],
        member=values["member"],
        instance=values["instance"],
        partitions=values["partitions"],
        at_a_time=values["at_a_time"] if is_drain else None,
        left=None,
        by=values["by"],
        reason=values["reason"],
        since_ms=ts_ms,
        until_ms=values["until"],
        followed=True,  # whether a member follows it is in no journal
    )


def _left(order: OperationView, ended: Mapping[str, Any]) -> OperationView | None:
    """What is left of an order, now that something has ended."""
    about = order.operation, order.member, order.instance
    if about != (ended["operation"], ended["member"], ended["instance"]):
        return order
    if order.partitions is None:
        return None
    gone = {topic: set(numbers) for topic, numbers in (ended["partitions"] or {}).items()}
    left = {
        topic: tuple(each for each in numbers if each not in gone.get(topic, ()))
        for topic, numbers in order.partitions.items()
    }
    left = {topic: numbers for topic, numbers in left.items() if numbers}
    return replace(order, partitions=left) if left else None
