"""The part of a report's data that is about single groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from coterie_pipeline.report.charts import Chart, charts
from coterie_pipeline.report.model import (
    Advice,
    Caps,
    CommitLine,
    Cost,
    GroupDetail,
    GroupLine,
    Late,
    Process,
    Rebalance,
    Session,
    Some,
    Span,
)
from coterie_pipeline.report.queries import first, grouped, row_of, text
from coterie_pipeline.report.shares import shares

__all__ = ["details"]

Tables = Mapping[str, DataFrame]

#: How many members of a list are named.
_NAMES_MAX: Final = 5
_LATE_MAX: Final = 3

_TABLES: Final = (
    "rebalances",
    "ownership",
    "ownership_faults",
    "member_sessions",
    "commits",
)

#: The lists of members in a rebalance.
_MEMBERS: Final = ("came", "went", "dropped", "awaited")


def details(
    tables: Tables,
    lines: Sequence[GroupLine],
    advice: Mapping[str, tuple[Advice, ...]],
    costs: Mapping[str, tuple[Cost, ...]],
    caps: Caps,
) -> tuple[GroupDetail, ...]:
    """The details of these groups, in their order."""
    if not lines:
        return ()
    groups = [line.group for line in lines]
    its = {name: tables[name].where(F.col("group").isin(groups)) for name in _TABLES}
    known = _spans(its)
    spans = {group: known[group] for group in groups if group in known}
    drawn = charts(its["ownership"], its["ownership_faults"], its["member_sessions"], spans, caps)
    rebalances = _rebalances(its["rebalances"], lines, caps)
    processes = _processes(its["member_sessions"], groups, caps)
    commits = _commits(its["commits"], caps)
    found = []
    for line in lines:
        name = line.group
        chart = drawn.get(name, Chart())
        named, processes_in_all = processes.get(name, ((), 0))
        committed, commits_in_all = commits.get(name, ((), 0))
        found.append(
            GroupDetail(
                line=line,
                span=spans.get(name, Span(0, 1)),
                advice=advice.get(name, ()),
                rows=chart.rows,
                rows_in_all=chart.rows_in_all,
                faulty_rows_left_out=chart.faulty_rows_left_out,
                merged_below_ms=chart.merged_below_ms,
                rebalances=rebalances.get(name, ()),
                costs=costs.get(name, ()),
                processes=named,
                processes_in_all=processes_in_all,
                commits=committed,
                commits_in_all=commits_in_all,
            )
        )
    return tuple(found)


def _spans(its: Tables) -> Mapping[str, Span]:
    """By group, the time from the first event to the last."""
    times = (
        ("rebalances", "started_ms", "ended_ms"),
        ("ownership", "from_ms", "to_ms"),
        ("member_sessions", "joined_ms", "ended_ms"),
        ("commits", "first_ms", "last_ms"),
    )
    known = [
        its[name].select("group", F.col(start).alias("from_ms"), F.col(end).alias("to_ms"))
        for name, start, end in times
    ]
    found = (
        reduce(DataFrame.unionByName, known)
        .groupBy("group")
        .agg(
            F.min(F.least("from_ms", "to_ms")).alias("from_ms"),
            F.max(F.greatest("from_ms", "to_ms")).alias("to_ms"),
        )
        .where("from_ms is not null")
        .collect()
    )
    return {
        row["group"]: Span(row["from_ms"], max(row["to_ms"], row["from_ms"] + 1)) for row in found
    }


def _rebalances(
    rebalances: DataFrame, lines: Sequence[GroupLine], caps: Caps
) -> Mapping[str, tuple[Rebalance, ...]]:
    """The most costly rebalances of each group, in the order of time."""
    given = shares({line.group: line.rebalances for line in lines}, caps.rebalances)
    whole = F.col("stopped_partition_ms") + F.col("silent_partition_ms")
    cost = [
        whole.desc_nulls_last(),
        F.desc_nulls_last("total_ms"),
        F.asc("rebalance"),
    ]
    found = (
        rebalances.transform(first(max(given.values()), ["group"], cost))
        .where(F.col("place") <= _given(given))
        .withColumns({f"{name}_count": _size(name) for name in (*_MEMBERS, "late")})
        .withColumns({name: F.slice(name, 1, _NAMES_MAX) for name in _MEMBERS})
        .withColumn("late", F.slice("late", 1, _LATE_MAX))
        .orderBy("group", "rebalance")
        .collect()
    )
    return {group: tuple(_rebalance(row) for row in rows) for group, rows in grouped(found).items()}


def _given(given: Mapping[str, int]) -> Column:
    """The number of a group's rows that are shown, as a column."""
    pairs = (F.lit(part) for pair in sorted(given.items()) for part in pair)
    return F.create_map(*pairs)[F.col("group")]


def _size(name: str) -> Column:
    return F.coalesce(F.array_size(name), F.lit(0))


def _rebalance(row: Row) -> Rebalance:
    lists = {
        name: Some(row[f"{name}_count"], tuple(each or "" for each in row[name] or ()))
        for name in _MEMBERS
    }
    return row_of(
        Rebalance,
        row,
        number=row["rebalance"],
        root=row["root"] or row["rebalance"],
        cause_chain=tuple(each or "" for each in row["cause_chain"] or ()),
        needs_rejoin=bool(row["needs_rejoin"]),
        late=tuple(
            Late(
                each["member"] or "",
                each["instance"] or "",
                each["host"] or "",
                each["after_ms"] or 0,
                each["how"] or "",
            )
            for each in row["late"] or ()
        ),
        **lists,
    )


def _processes(
    sessions: DataFrame, groups: Sequence[str], caps: Caps
) -> Mapping[str, tuple[tuple[Process, ...], int]]:
    """The processes that came most often, with their latest memberships."""
    order = [F.desc("is_flapping"), F.desc("memberships"), F.desc("expired"), F.asc("identity")]
    named = sessions.withColumns({name: text(name) for name in ("identity", "kind")})
    processes = (
        named.groupBy("group", "identity")
        .agg(
            F.min("kind").alias("kind"),
            F.count(F.lit(1)).alias("memberships"),
            F.count_if(F.col("ended") == "session_expired").alias("expired"),
            F.bool_or(F.coalesce("is_flapping", F.lit(False))).alias("is_flapping"),
        )
        .transform(first(caps.processes, ["group"], order))
    )
    latest = [F.desc_nulls_last("joined_ms"), F.desc_nulls_first("ended_ms"), F.asc("member")]
    # First the latest membership of each process, then the one before, and so on.
    turn = F.row_number().over(Window.partitionBy("group", "identity").orderBy(*latest))
    counts = processes.groupBy("group").agg(F.sum("memberships").alias("n")).collect()
    wanted = {row["group"]: row["n"] for row in counts}
    given = shares({group: wanted[group] for group in groups if group in wanted}, caps.sessions)
    if not given:
        return {}
    found = (
        named.drop("kind", "is_flapping")
        .withColumn("turn", turn)
        .join(processes.withColumnRenamed("place", "process"), ["group", "identity"], how="inner")
        .withColumnRenamed("in_all", "processes_in_all")
        .transform(first(caps.sessions, ["group"], [F.asc("turn"), F.asc("process")]))
        .where(F.col("place") <= _given(given))
        .orderBy("group", "process", F.desc("turn"))
        .collect()
    )
    return {
        group: (tuple(_by_process(rows)), rows[0]["processes_in_all"])
        for group, rows in grouped(found).items()
    }


def _by_process(rows: Sequence[Row]) -> Iterator[Process]:
    for _, its in groupby(rows, key=lambda row: row["identity"]):
        each = list(its)
        sessions = tuple(
            row_of(Session, row, holder=row["instance"] or row["member"]) for row in each
        )
        yield row_of(Process, each[0], sessions=sessions)


def _commits(commits: DataFrame, caps: Caps) -> Mapping[str, tuple[tuple[CommitLine, ...], int]]:
    """Each partition's commits over the whole time; those that went back first."""
    minutes = (F.max("last_ms") - F.min("first_ms")) / 60_000
    order = [F.desc("regressions"), F.desc("commits"), F.asc("topic"), F.asc("partition")]
    found = (
        commits.groupBy("group", "topic", "partition")
        .agg(
            *(
                F.sum(name).alias(name)
                for name in ("commits", "advanced", "regressions", "outside")
            ),
            F.max("deepest_regression").alias("deepest_regression"),
            F.when(minutes > 0, (F.sum("commits") - 1) / minutes).alias("per_minute"),
            F.max_by("lag", "hour_ms").alias("lag"),
        )
        .transform(first(caps.commits, ["group"], order))
        .orderBy("group", "place")
        .collect()
    )
    return {
        group: (tuple(row_of(CommitLine, row) for row in rows), rows[0]["in_all"])
        for group, rows in grouped(found).items()
    }
