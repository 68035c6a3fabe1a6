"""Rules about the journals themselves: how far to trust the rest."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.steps.advice.saying import advise, count_of, seconds

__all__ = ["clocks", "missing", "unreadable"]

#: Clocks that are kept by NTP agree better than this.
_OFF_MS: Final = 100


def missing(nodes: DataFrame) -> DataFrame:
    """Lines that are missing, and numbers that two lines have."""
    found = nodes.where("missing > 0 or conflicts > 0").select(
        F.col("node").alias("about"),
        *("missing", "gaps", "conflicts"),
        F.col("first_ms").alias("from_ms"),
        F.col("last_ms").alias("to_ms"),
    )
    return advise(
        found,
        "journal_gap",
        "wrong",
        F.format_string(
            "The journal of node %s lacks %s in %s, and has %s twice: what is told of that time "
            "may be wrong.",
            F.col("about"),
            count_of(F.col("missing"), "line", "lines"),
            count_of(F.col("gaps"), "place", "places"),
            count_of(F.col("conflicts"), "number", "numbers"),
        ),
        {name: F.col(name) for name in ("missing", "gaps", "conflicts")},
    )


def clocks(nodes: DataFrame) -> DataFrame:
    """Clocks that are off."""
    is_off = (F.col("clock_back_ms") > _OFF_MS) | (F.col("clock_behind_ms") > _OFF_MS)
    behind = _clause("clock_behind_ms", " is at least %s behind another node's")
    found = nodes.where(is_off).select(
        F.col("node").alias("about"),
        *("clock_back_ms", "clock_behind_ms"),
        F.col("first_ms").alias("from_ms"),
        F.col("last_ms").alias("to_ms"),
    )
    return advise(
        found,
        "clock",
        "note",
        F.format_string(
            "The clock of node %s%s: times that span that are off by as much.",
            F.col("about"),
            F.concat_ws(" and", _clause("clock_back_ms", " was set back by up to %s"), behind),
        ),
        {name: F.col(name) for name in ("clock_back_ms", "clock_behind_ms")},
    )


def _clause(name: str, words: str) -> Column:
    """What is wrong with a clock, if that is."""
    return F.when(F.col(name) > _OFF_MS, F.format_string(words, seconds(F.col(name))))


def unreadable(unread: DataFrame) -> DataFrame:
    """Lines that could not be taken into account; the torn line of a crash is no fault."""
    found = (
        unread.where("why != 'torn'")
        .groupBy("why")
        .agg(
            F.count("why").alias("lines"),
            F.count_distinct("segment").alias("files"),
            F.min("segment").alias("about"),
        )
        .withColumns({name: F.lit(None).cast("bigint") for name in ("from_ms", "to_ms")})
    )
    return advise(
        found,
        "unread_lines",
        "note",
        F.format_string(
            "%s in %s could not be taken into account (%s), the first of them in %s.",
            count_of(F.col("lines"), "line", "lines"),
            count_of(F.col("files"), "file", "files"),
            F.regexp_replace("why", "_", " "),
            F.col("about"),
        ),
        {name: F.col(name) for name in ("why", "lines", "files")},
    )
