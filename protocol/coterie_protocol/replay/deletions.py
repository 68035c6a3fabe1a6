"""When topics were deleted, in the time of a group.

The node that deletes a topic dates that by its own clock, which may disagree with that of the node
that has the group.  What that one writes as it hears of it is in the group's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from coterie_protocol.replay.order import Placed, moves_time

__all__ = ["Deletion", "deleted_topic", "in_time_of"]

#: When a topic was deleted, and by whose clock.
Deletion = tuple[int, str]

_DELETED: Final = " deleted"


def in_time_of(
    lines: Iterable[Placed], deletions: Mapping[str, Sequence[Deletion]]
) -> dict[str, list[int]]:
    """By topic, when it was deleted, the earliest first; the lines are those of a group."""
    told: dict[str, set[Deletion]] = {}
    for line in lines if deletions else ():
        heard = line.at if moves_time(line.kind) else line.ts
        for topic in _told(line):
            told.setdefault(topic, set()).add((heard, line.node))
    return {
        topic: sorted(_in_time(each, sorted(own), told.get(topic, ())) for each in own)
        for topic, own in deletions.items()
    }


def deleted_topic(cause: str, detail: str | None) -> str | None:
    """The topic whose deletion a rebalance is for; None if it is for something else."""
    if cause != "topic_changed" or not (detail or "").endswith(_DELETED):
        return None
    return (detail or "").removesuffix(_DELETED)


def _told(line: Placed) -> Iterator[str]:
    """The topics of which a line tells that they were deleted."""
    if line.kind == "offsets_deleted" and line["how"] == "topic_deleted":
        yield from line["partitions"]
    elif line.kind == "rebalance_started":
        topic = deleted_topic(line["cause"], line["detail"])
        if topic is not None:
            yield topic


def _in_time(it: Deletion, all_of_it: Sequence[Deletion], told: Iterable[Deletion]) -> int:
    """When a deletion was heard of by another node's clock; if it was not, when it says."""
    heard = _nearest(it, told)
    if heard is None or heard[1] == it[1] or _nearest(heard, all_of_it) != it:
        return it[0]
    return heard[0]


def _nearest(it: Deletion, others: Iterable[Deletion]) -> Deletion | None:
    return min(others, key=lambda other: (abs(other[0] - it[0]), other), default=None)
