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
        F.concat(
            F.lit("The journal of node "),
            F.col("about"),
            F.lit(" lacks "),
            count_of(F.col("missing"), "line", "lines"),
            F.lit(" in "),
            count_of(F.col("gaps"), "place", "places"),
            F.lit(", and has "),
            count_of(F.col("conflicts"), "number", "numbers"),
            F.lit(" twice: what is told of that time may be wrong."),
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
        F.concat(
            F.lit("The clock of node "),
            F.col("about"),
            F.concat_ws(" and", _clause("clock_back_ms", " was set back by up to %s"), behind),
            F.lit(": times that span that are off by as much."),
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
        F.concat(
            count_of(F.col("lines"), "line", "lines"),
            F.lit(" in "),
            count_of(F.col("files"), "file", "files"),
            F.lit(" could not be taken into account ("),
            F.regexp_replace("why", "_", " "),
            F.lit("), the first of them in "),
            F.col("about"),
            F.lit("."),
        ),
        {name: F.col(name) for name in ("why", "lines", "files")},
    )
