"""From tables to the data of a report, chosen and cut short in Spark so that little is collected.

Every choice has a total order, so the same tables give the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from coterie_pipeline.report.details import details
from coterie_pipeline.report.model import (
    Advice,
    Caps,
    GroupLine,
    NodeRead,
    Report,
    Span,
    Totals,
    Unread,
)
from coterie_pipeline.report.queries import first, row_of, summed, text

__all__ = ["collect"]

Tables = Mapping[str, DataFrame]

#: Into how many parts the time is divided in the overview.
_PARTS: Final = 48

_UNREAD_MAX: Final = 10

_FIGURES: Final = (
    "rebalances",
    "stopped_partition_ms",
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
    lines = _lines(tables, figures, span, caps)
    weighed = tables["advice"].transform(_weighed)
    drawn = lines[: caps.groups_drawn]
    report = Report(
        span=span,
        nodes=nodes,
        unread=_unread(tables["unread"]),
        totals=_totals(figures),
        lines=lines,
        advice=tuple(_advice(row) for row in weighed.orderBy(*_WEIGHT).take(caps.advice)),
        advice_in_all=tables["advice"].count(),
        details=details(tables, drawn, _advice_of(weighed, drawn, caps), caps),
    )
    figures.unpersist()
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


def _lines(tables: Tables, figures: DataFrame, span: Span, caps: Caps) -> tuple[GroupLine, ...]:
    trouble = [
        *(F.desc(name) for name in ("overlaps", "stopped_partition_ms", "possible_overlaps")),
        *(F.desc("rebalances"), F.asc("group")),
    ]
    found = figures.orderBy(*trouble).take(caps.groups_listed)
    groups = [row["group"] for row in found]
    stopped = _stopped_by_time(tables["ownership_faults"], groups, span)
    causes = _main_causes(tables["rebalances"], groups)
    lines = []
    for row in found:
        cause, times = causes.get(row["group"], ("", 0))
        lines.append(
            row_of(
                GroupLine,
                row,
                main_cause=cause,
                main_cause_rebalances=times,
                stopped_by_time_ms=stopped.get(row["group"], ()),
            )
        )
    return tuple(lines)


def _main_causes(rebalances: DataFrame, groups: Sequence[str]) -> Mapping[str, tuple[str, int]]:
    """By group, the most frequent root cause of its rebalances, and its count."""
    found = (
        rebalances.where(F.col("group").isin(list(groups)))
        .groupBy("group", text("root_cause"))
        .agg(F.count(F.lit(1)).alias("times"))
        .transform(first(1, ["group"], [F.desc("times"), F.asc("root_cause")]))
        .collect()
    )
    return {row["group"]: (row["root_cause"], row["times"]) for row in found}


def _stopped_by_time(
    faults: DataFrame, groups: Sequence[str], span: Span
) -> Mapping[str, tuple[int, ...]]:
    """By group, the time stood still in each of equal parts of the time; gaps are split."""
    part_ms = -(-span.length_ms // _PARTS)

    def part(moment: Column) -> Column:
        place = F.floor((moment - span.from_ms) / part_ms).cast("int")
        return F.greatest(F.lit(0), F.least(F.lit(_PARTS - 1), place))

    begins = F.col("part") * part_ms + span.from_ms
    share = F.least(F.col("to_ms"), begins + part_ms) - F.greatest(F.col("from_ms"), begins)
    found = (
        faults.where((F.col("fault") == "gap") & F.col("group").isin(list(groups)))
        .withColumn("part", F.explode(F.sequence(part(F.col("from_ms")), part(F.col("to_ms")))))
        .groupBy("group", "part")
        .agg(F.sum(F.greatest(share, F.lit(0))).alias("stopped_ms"))
        .collect()
    )
    by_group: dict[str, list[int]] = {}
    for row in found:
        by_group.setdefault(row["group"], [0] * _PARTS)[row["part"]] = row["stopped_ms"]
    return {group: tuple(parts) for group, parts in by_group.items()}


_SEVERITIES: Final = ("wrong", "costly", "note")

_WEIGHT: Final = ("weight", "saves_order", "group", "rule", "about", "sentence")


def _weighed(advice: DataFrame) -> DataFrame:
    """Add the columns that sort advice: the worst first, then what saves most."""
    weight = reduce(
        lambda rest, index: F.when(F.col("severity") == _SEVERITIES[index], index).otherwise(rest),
        range(len(_SEVERITIES)),
        F.lit(len(_SEVERITIES)),
    )
    return advice.withColumns(
        {"weight": weight, "saves_order": -F.coalesce("saves_partition_ms", F.lit(-1))}
    )


def _advice_of(
    weighed: DataFrame, lines: Sequence[GroupLine], caps: Caps
) -> Mapping[str, tuple[tuple[Advice, ...], int]]:
    """By group, the advice that is shown, and how much there is."""
    groups = [line.group for line in lines]
    found = (
        weighed.where(F.col("group").isin(groups))
        .transform(first(caps.advice, ["group"], [F.col(name) for name in _WEIGHT]))
        .orderBy("group", "place")
        .collect()
    )
    by_group: dict[str, list[Row]] = {}
    for row in found:
        by_group.setdefault(row["group"], []).append(row)
    return {
        group: (tuple(_advice(row) for row in rows), rows[0]["in_all"])
        for group, rows in by_group.items()
    }


def _advice(row: Row) -> Advice:
    evidence = tuple(sorted((key, value or "") for key, value in (row["evidence"] or {}).items()))
    return row_of(Advice, row, evidence=evidence)
