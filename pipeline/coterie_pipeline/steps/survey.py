"""What has to be known of journals as a whole before tables are made: small, and in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from coterie_pipeline.steps.parsing import UNREAD

__all__ = ["Segment", "survey"]


@dataclass(frozen=True, slots=True)
class Segment:
    """The lines of a node in a file that can be taken into account."""

    node: str
    segment: str
    #: Their numbers, from `low` to `high`.
    low: int
    high: int
    lines: int
    first_ms: int
    last_ms: int
    #: Whether some of its numbers may be there twice, within it or in another file, or some
    #: between its first and last one are missing.  Nearly no file is.
    is_entangled: bool


def survey(bronze: DataFrame) -> list[Segment]:
    """Each file of each node."""
    rows = (
        bronze.where(F.col("part") != UNREAD)
        .groupBy("node", "segment")
        .agg(
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
            F.count("seq").alias("lines"),
            F.try_sum("seq").alias("sum"),
            F.min("ts").alias("first_ms"),
            F.max("ts").alias("last_ms"),
        )
        .collect()
    )
    found: list[Segment] = []
    for _, of_node in groupby(sorted(rows, key=_by_node), key=lambda row: row.node):
        found += _segments(list(of_node))
    return found


def _by_node(row: Row) -> tuple[str, int, int, str]:
    return row.node, row.low, row.high, row.segment


def _segments(rows: Sequence[Row]) -> Iterable[Segment]:
    """The files of one node, from the lowest numbers on."""
    highest = -1
    for index, row in enumerate(rows):
        next_low = rows[index + 1].low if index + 1 < len(rows) else row.high + 1
        overlaps = row.low <= highest or next_low <= row.high
        highest = max(highest, row.high)
        yield Segment(
            row.node, row.segment, row.low, row.high, row.lines, row.first_ms, row.last_ms,
            overlaps or not _is_regular(row),
        )  # fmt: skip


def _is_regular(row: Row) -> bool:
    """Whether the count and the sum are those of all numbers from the lowest to the highest."""
    count = row.high - row.low + 1
    return bool(row.lines == count and row.sum == (row.low + row.high) * count // 2)
