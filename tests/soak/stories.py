"""Records of a small soak in which all is well, for tests to doctor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coterie_protocol.journal import Event, Line
from tests.soak.records import Fault, GroupPlan, JournalLines, Record, Story

__all__ = [
    "FIRST",
    "GROUP",
    "SECOND",
    "acked",
    "assigned",
    "journalled",
    "read",
    "revoked",
    "told",
    "well",
]

GROUP = "g00-coterie"
FIRST, SECOND = f"{GROUP}-0", f"{GROUP}-1"
#: When the wall's clock began, by which journals tell the time.
_WALL_MS = 1_700_000_000_000


def told(at_s: float, member: str, what: str, **details: object) -> Record:
    """Something that a member recorded."""
    return Record(at_s=at_s, member=member, life=1, what=what, **details)  # type: ignore[arg-type]


def assigned(at_s: float, member: str, *partitions: int, token: int | None = None) -> Record:
    """A member was given partitions."""
    return told(at_s, member, "assigned", partitions=partitions, token=token)


def revoked(at_s: float, member: str, *partitions: int) -> Record:
    """A member gave partitions up."""
    return told(at_s, member, "revoked", partitions=partitions)


def read(asked_s: float, member: str, offsets: Mapping[int, int]) -> Record:
    """A member asked what is committed, and was answered."""
    return told(asked_s + 0.01, member, "read", asked_s=asked_s, offsets=offsets)


def acked(asked_s: float, member: str, offsets: Mapping[int, int]) -> Record:
    """A member's commit was acknowledged."""
    return told(asked_s + 0.01, member, "acked", asked_s=asked_s, offsets=offsets)


def journalled(at_s: float, node: str, event: Event) -> Line:
    """A line of a node's journal."""
    return Line(_WALL_MS + round(at_s * 1000), node, 1, event)


def well(
    *more: Record,
    journal: Iterable[Line] = (),
    final: Mapping[int, int] | None = None,
    faults: Iterable[Fault] = (),
    is_restless: bool = False,
) -> Story:
    """Two members who commit on a partition each for 40 seconds, and what is added to that."""
    records = [assigned(1.0, FIRST, 0, token=1), assigned(1.0, SECOND, 1, token=1)]
    for partition, member in enumerate((FIRST, SECOND)):
        records.append(read(1.1, member, {partition: 0}))
        records += [acked(2.0 + n, member, {partition: n + 1}) for n in range(40)]
    story = Story(
        groups=(GroupPlan(GROUP, {FIRST: "coterie", SECOND: "coterie"}, is_restless),),
        records=tuple(records),
        faults=tuple(faults),
        journal=JournalLines(tuple(journal)),
        final={(GROUP, partition): offset for partition, offset in ({0: 40, 1: 40}).items()},
        final_s=50.0,
        formed_s=1.5,
        formed_ms=_WALL_MS + 1500,
        ended_s=42.0,
        ended_ms=_WALL_MS + 42_000,
        lease_s=3.0,
    )
    final_now = dict(story.final) | {(GROUP, p): offset for p, offset in (final or {}).items()}
    return replace(story, records=(*story.records, *more), final=final_now)
