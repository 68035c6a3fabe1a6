"""Tables of literal rows, in the shape in which the pipeline makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from coterie_pipeline.tables import TABLES
from tests.pipeline.report.samples import START_MS

Rows = Mapping[str, Iterable[Mapping[str, object]]]


def frames(spark: SparkSession, rows: Rows) -> dict[str, DataFrame]:
    """All tables; what a row does not say is null, and a table that is not named has no rows."""
    return {each.name: frame(spark, each.name, rows.get(each.name, ())) for each in TABLES}


def frame(spark: SparkSession, name: str, rows: Iterable[Mapping[str, object]]) -> DataFrame:
    """One table."""
    declared = next(each for each in TABLES if each.name == name)
    values = [tuple(row.get(column) for column in declared.names) for row in rows]
    return spark.createDataFrame(values, declared.ddl)


def after(seconds: float) -> int:
    """A moment of the scene."""
    return START_MS + round(seconds * 1000)


def owned(
    partition: int, holder: str, start: float, end: float, **more: object
) -> dict[str, object]:
    """An interval of ownership in the group billing."""
    return {
        "group": "billing",
        "topic": "orders",
        "partition": partition,
        "holder": holder,
        "member": holder,
        "from_ms": after(start),
        "to_ms": after(end),
        "released_ms": after(end),
        "generation": 1,
        "last_generation": 1,
        "began": "assigned",
        "ended": "let_go",
        **more,
    }


def faulty(
    kind: str, partition: int, start: float, end: float, **more: object
) -> dict[str, object]:
    """A gap, or an overlap that is certain."""
    return {
        "group": "billing",
        "topic": "orders",
        "partition": partition,
        "fault": kind,
        "from_ms": after(start),
        "to_ms": after(end),
        "sure_ms": after(end) - after(start),
        "most_ms": after(end) - after(start),
        "cause": "session_expired",
        "rebalance": 1,
        "is_open": False,
        "holder": "a",
        "next_holder": "b",
        **more,
    }


def rebalanced(number: int, start: float, **more: object) -> dict[str, object]:
    """A rebalance of a second."""
    return {
        "group": "billing",
        "rebalance": number,
        "started_ms": after(start),
        "joined_ms": after(start + 0.9),
        "ended_ms": after(start + 1),
        "outcome": "completed",
        "generation": number,
        "cause": "session_expired",
        "root": number,
        "root_cause": "session_expired",
        "cause_chain": ["session_expired"],
        "came": [],
        "went": [],
        "dropped": [],
        "awaited": ["a", "b"],
        "late": [],
        "total_ms": 1_000,
        "needs_rejoin": False,
        "stopped_partition_ms": 1_000,
        **more,
    }


def joined(
    identity: str, member: str, start: float | None, end: float | None, **more: object
) -> dict[str, object]:
    """A membership of a dynamic member."""
    return {
        "group": "billing",
        "member": member,
        "identity": identity,
        "kind": "dynamic",
        "joined_ms": None if start is None else after(start),
        "ended_ms": None if end is None else after(end),
        "began": "joined",
        "ended": "open" if end is None else "session_expired",
        "returns": 0,
        "is_flapping": False,
        **more,
    }
