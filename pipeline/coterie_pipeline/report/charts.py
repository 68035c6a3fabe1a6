"""Choosing, in Spark, the partitions and intervals that a group's chart of ownership shows.

Partitions with faults come first.  If there are too many intervals to draw, those of one owner that
are too close to tell apart are merged, the closest first; if there are still too many, the last
partitions are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from coterie_pipeline.report import model
from coterie_pipeline.report.model import Bar, Caps, Fault, Span
from coterie_pipeline.report.queries import first, grouped, row_of, summed, text
from coterie_pipeline.report.shares import shares

__all__ = ["Chart", "charts"]

#: Fractions of the whole time that are too short to tell apart, from finest to coarsest.  The
#: coarsest is a few pixels wide; if it were wider, a hatched gap would cover what was owned.
_FINENESS: Final = (2000, 500, 200)

#: The fault that is drawn in a lane of another name.
_FAULTS: Final = {"possible": "overlap"}

_PARTITION: Final = ("group", "topic", "partition")
_EVENTFUL: Final = ("overlaps", "possible", "stopped_ms", "intervals")
#: The counts of what there is to draw of a partition.
_DRAWN: Final = ("overlaps", "possible", "gaps", "silences", "intervals")


@dataclass(frozen=True, slots=True)
class Chart:
    """One group's chart of ownership."""

    rows: tuple[model.Row, ...] = ()
    rows_in_all: int = 0
    faulty_rows_left_out: int = 0
    merged_below_ms: int = 0


def charts(
    ownership: DataFrame,
    faults: DataFrame,
    sessions: DataFrame,
    spans: Mapping[str, Span],
    caps: Caps,
) -> Mapping[str, Chart]:
    """The chart of each group that has a span, the most important first.

    A group without any ownership has none.
    """
    chosen = _chosen(ownership, faults, caps).persist()
    rows = grouped(chosen.orderBy("group", "place").collect())
    wanted = {
        group: sum(row[n] for row in rows[group] for n in _DRAWN)
        for group in spans
        if group in rows
    }
    given = shares(wanted, caps.bars)
    limits = ownership.sparkSession.createDataFrame(
        [(group, spans[group].length_ms, given[group]) for group in sorted(rows)],
        "`group` STRING, length_ms BIGINT, most BIGINT",
    )
    pieces = (
        _pieces(ownership.transform(_with_identity(sessions)), faults)
        .join(F.broadcast(chosen.select(*_PARTITION, "place")), list(_PARTITION), how="inner")
        .join(F.broadcast(limits), "group", how="inner")
        .transform(_with_distances)
        .transform(_with_nearness)
        .transform(_merged)
        .transform(_cut)
        .orderBy(*_PARTITION, "from_ms", "to_ms", "lane", "holder", "next_holder")
        .collect()
    )
    chosen.unpersist()
    found = grouped(pieces)
    return {group: _chart(rows[group], found[group]) for group in found}


def _with_identity(sessions: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Add the process of each owner; the owner itself if its membership is not known."""
    known = sessions.groupBy("group", "member").agg(F.min("identity").alias("identity"))

    def add(ownership: DataFrame) -> DataFrame:
        identity = F.coalesce("identity", "holder")
        return ownership.join(known, ["group", "member"], how="left").withColumn(
            "identity", identity
        )

    return add


def _chosen(held: DataFrame, faults: DataFrame, caps: Caps) -> DataFrame:
    """The most eventful partitions of each group."""
    is_sure = (F.col("fault") == "overlap") & (F.col("sure_ms") > 0)
    is_possible = (F.col("fault") == "overlap") & (F.col("sure_ms") == 0)
    is_gap = F.col("fault") == "gap"
    intervals = held.select(*_PARTITION, F.lit(1).alias("intervals"))
    counted = faults.select(
        *_PARTITION,
        is_sure.cast("int").alias("overlaps"),
        is_possible.cast("int").alias("possible"),
        is_gap.cast("int").alias("gaps"),
        (F.col("fault") == "silence").cast("int").alias("silences"),
        F.when(is_gap, F.col("sure_ms")).otherwise(0).alias("stopped_ms"),
    )
    order = [*(F.desc(name) for name in _EVENTFUL), F.col("topic"), F.col("partition")]
    is_faulty = (F.col("overlaps") + F.col("possible") + F.col("stopped_ms")) > 0
    return (
        summed((intervals, counted), _PARTITION, [*_EVENTFUL, "gaps", "silences"])
        .withColumn("faulty", F.count_if(is_faulty).over(Window.partitionBy("group")))
        .withColumn("is_faulty", is_faulty)
        .transform(first(caps.rows, ["group"], order))
    )


def _pieces(held: DataFrame, faults: DataFrame) -> DataFrame:
    """All that is drawn in rows: intervals of ownership, gaps and overlaps, each in its lane."""
    none = F.lit(None)
    bars = held.select(
        *_PARTITION,
        F.lit("bar").alias("lane"),
        *(text(name) for name in ("holder", "identity", "member", "host")),
        *(F.lit("").alias(name) for name in ("next_holder", "next_member")),
        *("from_ms", "to_ms", "generation", "last_generation"),
        F.coalesce("released_ms", "to_ms").alias("released_ms"),
        *(text(name) for name in ("began", "ended")),
        F.lit("").alias("cause"),
        none.cast("bigint").alias("rebalance"),
        F.lit(0).cast("bigint").alias("sure_ms"),
        F.lit(False).alias("is_open"),
    )
    is_possible = (F.col("fault") == "overlap") & (F.col("sure_ms") == 0)
    others = faults.select(
        *_PARTITION,
        F.when(is_possible, "possible").otherwise(F.col("fault")).alias("lane"),
        text("holder"),
        *(F.lit("").alias(name) for name in ("identity", "host")),
        *(text(name) for name in ("member", "next_holder", "next_member")),
        *("from_ms", "to_ms"),
        *(none.cast("bigint").alias(n) for n in ("released_ms", "generation", "last_generation")),
        *(F.lit("").alias(name) for name in ("began", "ended")),
        text("cause"),
        "rebalance",
        "sure_ms",
        F.coalesce("is_open", F.lit(False)).alias("is_open"),
    )
    return bars.unionByName(others)


def _in_lane() -> WindowSpec:
    order = ("from_ms", "to_ms", "holder", "next_holder")
    return Window.partitionBy(*_PARTITION, "lane").orderBy(*order)


def _with_distances(pieces: DataFrame) -> DataFrame:
    """Add the distance of each piece from the one before it; null if they can't be merged."""
    window = _in_lane()
    is_same = (F.col("lane") != "bar") | (F.lag("holder").over(window) == F.col("holder"))
    since_ms = F.col("from_ms") - F.lag("to_ms").over(window)
    return pieces.withColumn("distance_ms", F.when(is_same, F.greatest(since_ms, F.lit(0))))


def _with_nearness(pieces: DataFrame) -> DataFrame:
    """Add the distance below which pieces are merged: the least that leaves few enough."""
    whole = Window.partitionBy("group")
    nearness = [F.lit(0), *(F.ceil(F.col("length_ms") / part) for part in _FINENESS)]
    chosen: Column = nearness[-1]
    for near in reversed(nearness[:-1]):
        is_apart = F.col("distance_ms").isNull() | (F.col("distance_ms") >= near)
        chosen = F.when(F.count_if(is_apart).over(whole) <= F.col("most"), near).otherwise(chosen)
    return pieces.withColumn("near_ms", chosen.cast("bigint"))


def _merged(pieces: DataFrame) -> DataFrame:
    """Merge pieces that are too close to each other."""
    begins = F.col("distance_ms").isNull() | (F.col("distance_ms") >= F.col("near_ms"))
    upto = _in_lane().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    order = F.struct("from_ms", "to_ms", "holder", "next_holder")
    latest = (
        *("holder", "next_holder", "identity", "member", "next_member", "host", "ended", "cause"),
        "rebalance",
    )
    return (
        pieces.withColumn("island", F.count_if(begins).over(upto))
        .groupBy(*_PARTITION, "place", "lane", "near_ms", "most", "island")
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
            F.max("released_ms").alias("released_ms"),
            F.min("generation").alias("generation"),
            F.max("last_generation").alias("last_generation"),
            F.sum("sure_ms").alias("sure_ms"),
            F.bool_or("is_open").alias("is_open"),
            F.count(F.lit(1)).alias("times"),
            F.min_by("began", order).alias("began"),
            *(F.max_by(name, order).alias(name) for name in latest),
        )
    )


def _cut(pieces: DataFrame) -> DataFrame:
    """Leave out the last partitions while there is too much; of a single one, short pieces."""
    worst = [
        F.col("lane").isin("bar", "gap", "silence"),  # false, that is overlaps, comes first
        F.desc(F.col("to_ms") - F.col("from_ms")),
        *(F.col(name) for name in ("from_ms", "lane", "holder", "next_holder")),
    ]
    row = Window.partitionBy(*_PARTITION).orderBy(*worst)
    upto = Window.partitionBy("group").orderBy("place")
    upto = upto.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    fits = F.col("so_far") <= F.col("most")
    is_kept = (F.col("place") == 1) & (F.col("rank") <= F.col("most"))
    return (
        pieces.withColumn("so_far", F.count(F.lit(1)).over(upto))
        .withColumn("rank", F.row_number().over(row))
        .where(fits | is_kept)
    )


def _chart(rows: Sequence[Row], pieces: Sequence[Row]) -> Chart:
    by_row: dict[tuple[str, int], list[Row]] = {}
    for piece in pieces:
        by_row.setdefault((piece["topic"], piece["partition"]), []).append(piece)
    drawn = [row for row in rows if (row["topic"], row["partition"]) in by_row]
    return Chart(
        rows=tuple(
            _row(row, by_row[row["topic"], row["partition"]])
            for row in sorted(drawn, key=lambda each: (each["topic"], each["partition"]))
        ),
        rows_in_all=rows[0]["in_all"],
        faulty_rows_left_out=rows[0]["faulty"] - sum(row["is_faulty"] for row in drawn),
        merged_below_ms=pieces[0]["near_ms"],
    )


def _row(row: Row, pieces: Sequence[Row]) -> model.Row:
    return model.Row(
        topic=row["topic"],
        partition=row["partition"],
        bars=tuple(
            row_of(Bar, piece, intervals=piece["times"])
            for piece in pieces
            if piece["lane"] == "bar"
        ),
        faults=tuple(
            row_of(Fault, piece, fault=_FAULTS.get(piece["lane"], piece["lane"]))
            for piece in pieces
            if piece["lane"] != "bar"
        ),
        intervals=row["intervals"],
        overlaps=row["overlaps"],
        stopped_ms=row["stopped_ms"],
    )
