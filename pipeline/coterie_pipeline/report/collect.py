"""From tables to the data of a report, chosen and cut short in Spark so that little is collected.

Every choice has a total order, so the same tables give the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from coterie_pipeline.report.advice import advice_of_all, advice_of_groups
from coterie_pipeline.report.costs import costs
from coterie_pipeline.report.details import details
from coterie_pipeline.report.model import (
    Caps,
    Cost,
    GroupLine,
    NodeRead,
    Report,
    Span,
    Totals,
    Unread,
)
from coterie_pipeline.report.queries import row_of, summed, text

__all__ = ["collect"]

Tables = Mapping[str, DataFrame]

#: Into how many parts the time is divided in the overview.
_PARTS: Final = 48

_UNREAD_MAX: Final = 10

_FIGURES: Final = (
    "rebalances",
    "stopped_partition_ms",
    "silent_partition_ms",
    "owned_partition_ms",
    "overlaps",
    "possible_overlaps",
    "flapping",
    "regressions",
)


def collect(tables: Tables, caps: Caps) -> Report:
    """The data of a report."""
    nodes = _nodes(tables["nodes"])
    span = _span(nodes)
    figures = _figures(tables).persist()
    listed = _listed(figures, caps)
    groups = [row["group"] for row in listed]
    caused = costs(tables["rebalances"], tables["ownership_faults"], groups)
    lines = _lines(listed, caused, _stopped_by_time(tables["ownership_faults"], groups, span))
    drawn = lines[: caps.groups_drawn]
    advice = tables["advice"].persist()
    report = Report(
        span=span,
        nodes=nodes,
        unread=_unread(tables["unread"]),
        totals=_totals(figures),
        lines=lines,
        advice=advice_of_all(advice),
        details=details(
            tables, drawn, advice_of_groups(advice, groups[: caps.groups_drawn]), caused, caps
        ),
    )
    figures.unpersist()
    advice.unpersist()
    return report


def _nodes(nodes: DataFrame) -> tuple[NodeRead, ...]:
    names = list(NodeRead.__dataclass_fields__)
    found = nodes.select(*names).orderBy("node").collect()
    return tuple(row_of(NodeRead, row) for row in found)


def _unread(unread: DataFrame) -> tuple[Unread, ...]:
    found = (
        unread.groupBy("why")
        .agg(
            F.count("why").alias("lines"),
            F.min(F.struct(text("segment"), text("excerpt"))).alias("example"),
        )
        .select("why", "lines", "example.segment", "example.excerpt")
        .orderBy("why")
        .take(_UNREAD_MAX)
    )
    return tuple(row_of(Unread, row) for row in found)


def _span(nodes: Sequence[NodeRead]) -> Span:
    """The time from the first line to the last."""
    if not nodes:
        return Span(0, 1)
    first_ms = min(node.first_ms for node in nodes)
    return Span(first_ms, max(first_ms + 1, *(node.last_ms for node in nodes)))


def _figures(tables: Tables) -> DataFrame:
    """The figures of each group, from all tables that have any."""
    health = tables["group_health"].select(
        "group",
        *(name for name in _FIGURES if name != "flapping"),
        F.col("members").alias("members"),
    )
    flapping = (
        tables["member_sessions"]
        .where("is_flapping")
        .select("group", "identity")
        .distinct()
        .select("group", F.lit(1).alias("flapping"))
    )
    partitions = (
        tables["ownership"]
        .select("group", "topic", "partition")
        .distinct()
        .select("group", F.lit(1).alias("partitions"))
    )
    members = health.groupBy("group").agg(F.max("members").alias("members"))
    parts = (health.drop("members"), flapping, partitions, members)
    return summed(parts, ["group"], [*_FIGURES, "partitions", "members"])


def _totals(figures: DataFrame) -> Totals:
    names = [name for name in Totals.__dataclass_fields__ if name in _FIGURES]
    found = figures.agg(
        F.count("group").alias("groups"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names),
        F.count_if(F.col("overlaps") > 0).alias("groups_with_overlaps"),
    ).first()
    assert found is not None
    return row_of(Totals, found)


def _listed(figures: DataFrame, caps: Caps) -> list[Row]:
    """The groups in the overview, those with the most trouble first."""
    cost = F.col("stopped_partition_ms") + F.col("silent_partition_ms")
    trouble = [
        *(F.desc("overlaps"), F.desc(cost), F.desc("possible_overlaps")),
        *(F.desc("rebalances"), F.asc("group")),
    ]
    return figures.orderBy(*trouble).take(caps.groups_listed)


def _lines(
    listed: Sequence[Row],
    caused: Mapping[str, Sequence[Cost]],
    stopped: Mapping[str, tuple[int, ...]],
) -> tuple[GroupLine, ...]:
    lines = []
    for row in listed:
        main = next((cost for cost in caused.get(row["group"], ()) if cost.cause), None)
        lines.append(
            row_of(
                GroupLine,
                row,
                main_cause="" if main is None else main.cause,
                main_cause_rebalances=0 if main is None else main.rebalances + main.follow_ups,
                stopped_by_time_ms=stopped.get(row["group"], ()),
            )
        )
    return tuple(lines)


def _stopped_by_time(
    faults: DataFrame, groups: Sequence[str], span: Span
) -> Mapping[str, tuple[int, ...]]:
    """By group, how long partitions waited in each of equal parts of the time."""
    part_ms = -(-span.length_ms // _PARTS)

    def part(moment: Column) -> Column:
        place = F.floor((moment - span.from_ms) / part_ms).cast("int")
        return F.greatest(F.lit(0), F.least(F.lit(_PARTS - 1), place))

    begins = F.col("part") * part_ms + span.from_ms
    share = F.least(F.col("to_ms"), begins + part_ms) - F.greatest(F.col("from_ms"), begins)
    found = (
        faults.where(F.col("fault").isin("gap", "silence") & F.col("group").isin(list(groups)))
        .withColumn("part", F.explode(F.sequence(part(F.col("from_ms")), part(F.col("to_ms")))))
        .groupBy("group", "part")
        .agg(F.sum(F.greatest(share, F.lit(0))).alias("stopped_ms"))
        .collect()
    )
    by_group: dict[str, list[int]] = {}
    for row in found:
        by_group.setdefault(row["group"], [0] * _PARTS)[row["part"]] = row["stopped_ms"]
    return {group: tuple(parts) for group, parts in by_group.items()}
