"""The tables `nodes` and `unread`: missing and repeated lines, clocks that are off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from coterie_pipeline.advice.journals import Unread
from coterie_pipeline.steps.lines import in_force, is_kind, of_entangled, readable
from coterie_pipeline.steps.parsing import CONTROL, UNREAD
from coterie_pipeline.steps.survey import Segment
from coterie_pipeline.tables import NODES
from coterie_pipeline.tables import UNREAD as UNREAD_LINES
from coterie_protocol.journal import ShardGiven
from coterie_protocol.replay import ClockSteps, Deletion, Giving, clocks_of

__all__ = ["Facts", "ends_ms", "facts", "nodes", "unread"]

#: How much of a line that can't be read is shown.
_EXCERPT_CHARACTERS: Final = 120

#: What begins the name of the fact that lines can't be read, before the reason.
_WHY: Final = "unread: "


@dataclass(frozen=True, slots=True)
class Facts:
    """What control lines, and lines that need a closer look, say of nodes and topics."""

    #: By node: how often it started, how often of these after a crash, and how far its clock
    #: was set back, as it told, or went back between lines that are no commits.
    runs: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: By node, how its clock was set.
    clocks: Mapping[str, ClockSteps] = field(default_factory=dict)
    #: By topic, when it was deleted and by which node's clock, the earliest first.
    deletions: Mapping[str, Sequence[Deletion]] = field(default_factory=dict)
    #: By node, where it gives shards away.
    givings: Mapping[str, Sequence[Giving]] = field(default_factory=dict)
    #: By node, ranges of the numbers of lines that can't be read or are in entangled files.
    numbers: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    #: By node, of entangled files: lines that are repeated, and numbers with different lines.
    copies: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: By node, of the lines of entangled files that count: how many, the earliest and the latest.
    counted: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: The lines that can't be read, by the reason.
    unread: Sequence[Unread] = ()


def facts(bronze: DataFrame, once: DataFrame, segments: Sequence[Segment]) -> Facts:
    """Ask Spark for all of them in one go: a row for each, with up to three numbers."""
    asked = [_runs(once), _steps(once), _deletions(once), _givings(once), _reasons(bronze)]
    unread_lines = _unread(bronze).where("node is not null and seq is not null")
    numbers = in_force(unread_lines, segments).select("node", "seq")
    if any(each.is_entangled for each in segments):
        counted = of_entangled(once, segments)
        numbers = numbers.unionByName(counted.select("node", "seq"))
        asked += [_copies(of_entangled(readable(bronze), segments)), _counted(counted)]
    asked.append(_ranges(numbers))
    rows = reduce(DataFrame.unionByName, asked).collect()
    found: dict[str, dict[str, list[tuple[int, int, int]]]] = {}
    for what, name, *values in rows:
        found.setdefault(what, {}).setdefault(name, []).append(tuple(values))
    return Facts(
        {node: each[0] for node, each in found.get("runs", {}).items()},
        _clocks(found.get("steps", {})),
        _by_topic(found.get("gone", {})),
        _by_node(found.get("given", {})),
        {node: [(a, b) for a, b, _ in each] for node, each in found.get("range", {}).items()},
        {node: each[0][:2] for node, each in found.get("copies", {}).items()},
        {node: each[0] for node, each in found.get("counted", {}).items()},
        [
            Unread(what.removeprefix(_WHY), *each[0][:2], first_file)
            for what, by_file in found.items()
            if what.startswith(_WHY)
            for first_file, each in by_file.items()
        ],
    )


def _fact(rows: DataFrame, what: str, name: str, *numbers: str) -> DataFrame:
    """Rows as facts."""
    values = (*numbers, *("NULL",) * (3 - len(numbers)))
    columns = (f"BIGINT({value}) AS {letter}" for value, letter in zip(values, "abc", strict=True))
    return rows.selectExpr(f"'{what}' AS what", f"{name} AS name", *columns)


def _runs(once: DataFrame) -> DataFrame:
    before = Window.partitionBy("node").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    so_far = before.rowsBetween(Window.unboundedPreceding, 0)
    is_run = is_kind("node_started", "node_stopped")
    former = F.last(F.when(is_run, F.col("kind")), ignorenulls=True).over(before)
    runs = (
        once.where(F.col("part") == CONTROL)
        .select(
            *("node", "kind"),
            former.alias("former"),
            # While a node runs its dates never go back, and it tells that its clock was set.
            F.greatest(F.max("ts").over(so_far) - F.col("ts"), -F.col("stepped_ms")).alias(
                "back_ms"
            ),
        )
        .groupBy("node")
        .agg(
            F.expr("count_if(kind = 'node_started') AS starts"),
            F.expr("count_if(kind = 'node_started' AND former = 'node_started') AS crashes"),
            F.max("back_ms").alias("back_ms"),
        )
    )
    return _fact(runs, "runs", "node", "starts", "crashes", "back_ms")


def _steps(once: DataFrame) -> DataFrame:
    """Steps of clocks, and starts, at which dates are the clock's again."""
    control = once.where(F.col("part") == CONTROL)
    steps = control.where(is_kind("clock_stepped", "node_started"))
    return _fact(steps, "steps", "node", "seq", "ts", "stepped_ms")


def _clocks(steps: Mapping[str, Sequence[tuple[int, int, int]]]) -> Mapping[str, ClockSteps]:
    return clocks_of((node, *each) for node, own in steps.items() for each in own)


def _deletions(once: DataFrame) -> DataFrame:
    control = once.where(F.col("part") == CONTROL)
    deleted = control.where(is_kind("topic_changed") & (F.col("change") == "deleted"))
    return _fact(deleted, "gone", "to_json(array(topic, node))", "ts")


def _by_topic(gone: Mapping[str, Sequence[tuple[int, int, int]]]) -> dict[str, list[Deletion]]:
    """When topics were deleted, by topics and nodes in one text, by topic."""
    found: dict[str, list[Deletion]] = {}
    for text, times in gone.items():
        topic, node = json.loads(text)
        found.setdefault(topic, []).extend((ms, node) for ms, _, _ in times)
    return {topic: sorted(each) for topic, each in found.items()}


def _givings(once: DataFrame) -> DataFrame:
    given = once.where((F.col("part") == CONTROL) & is_kind("shard_given"))
    # A field that a line lacks has its default, which the columns do not know.
    shards = f"coalesce(shards, {ShardGiven.__dataclass_fields__['shards'].default})"
    name = f"to_json(array(node, string({shards})))"
    return _fact(given, "given", name, "seq", "ts", "shard")


def _by_node(given: Mapping[str, Sequence[tuple[int, int, int]]]) -> dict[str, list[Giving]]:
    """Where shards were given away, by nodes and how many there are in one text, by node."""
    found: dict[str, list[Giving]] = {}
    for text, lines in given.items():
        node, shards = json.loads(text)
        found.setdefault(node, []).extend(Giving(*each, int(shards)) for each in lines)
    return {node: sorted(each, key=lambda it: it.seq) for node, each in found.items()}


def _copies(entangled: DataFrame) -> DataFrame:
    copies = (
        entangled.groupBy("node", "seq")
        .agg(F.count("digest").alias("copies"), F.count_distinct("digest").alias("texts"))
        .groupBy("node")
        .agg(
            F.sum(F.col("copies") - F.col("texts")).alias("duplicates"),
            F.sum(F.when(F.col("texts") > 1, 1).otherwise(0)).alias("conflicts"),
        )
    )
    return _fact(copies, "copies", "node", "duplicates", "conflicts")


def _counted(once: DataFrame) -> DataFrame:
    counted = once.groupBy("node").agg(
        F.count("seq").alias("lines"), F.min("ts").alias("first"), F.max("ts").alias("last")
    )
    return _fact(counted, "counted", "node", "lines", "first", "last")


def _ranges(numbers: DataFrame) -> DataFrame:
    """Numbers as ranges without holes."""
    in_order = Window.partitionBy("node").orderBy("seq")
    ranges = (
        numbers.distinct()
        .withColumn("start", F.col("seq") - F.row_number().over(in_order))
        .groupBy("node", "start")
        .agg(F.min("seq").alias("low"), F.max("seq").alias("high"))
    )
    return _fact(ranges, "range", "node", "low", "high")


def _reasons(bronze: DataFrame) -> DataFrame:
    """How many lines can't be read for each reason, in how many files, and the first of these."""
    by_reason = (
        _unread(bronze)
        .groupBy(F.concat(F.lit(_WHY), "why").alias("why"))
        .agg(
            F.count("part").alias("lines"),
            F.count_distinct("segment").alias("files"),
            F.min("segment").alias("first_file"),
        )
    )
    return by_reason.selectExpr(
        "why AS what", "first_file AS name", "lines AS a", "files AS b", "BIGINT(NULL) AS c"
    )


# -- the tables --------------------------------------------------------------------------------


def nodes(
    segments: Sequence[Segment], found: Facts, behind_ms: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The rows of the table `nodes`; it is known how far each clock is behind others."""
    rows = []
    for node in sorted({each.node for each in segments}):
        own = [each for each in segments if each.node == node]
        first_seq, last_seq, missing, gaps = _holes(_numbers(own, found.numbers.get(node, ())))
        times = [(each.lines, each.first_ms, each.last_ms) for each in _plain(own)]
        times += [found.counted[node]] if node in found.counted else []
        lines = sum(count for count, _, _ in times)
        first_ms, last_ms = min(ms for _, ms, _ in times), max(ms for _, _, ms in times)
        duplicates, conflicts = found.copies.get(node, (0, 0))
        starts, crashes, back_ms = found.runs.get(node, (0, 0, 0))
        back_ms = max(back_ms, _set_back_ms(own))
        rows.append(
            (
                *(node, lines, first_seq, last_seq, first_ms, last_ms, missing, gaps),
                *(duplicates, conflicts, starts, crashes, back_ms, behind_ms.get(node, 0)),
            )
        )
    return [dict(zip(NODES.names, row, strict=True)) for row in rows]


def ends_ms(segments: Iterable[Segment], found: Facts) -> dict[str, int]:
    """When the journal of each node ends."""
    ends: dict[str, int] = {node: last_ms for node, (_, _, last_ms) in found.counted.items()}
    for each in _plain(segments):
        ends[each.node] = max(ends.get(each.node, 0), each.last_ms)
    return ends


def _set_back_ms(own: Iterable[Segment]) -> int:
    """How far a node's clock went back from one file to a later one, by lines of any kind.

    Within a file dates hardly ever go back: a node that is running does not let them, and tells of
    its clock instead.
    """
    latest_ms, back_ms = 0, 0
    for each in sorted(_plain(own), key=lambda each: each.low):
        back_ms = max(back_ms, latest_ms - each.first_ms)
        latest_ms = max(latest_ms, each.last_ms)
    return back_ms


def _plain(segments: Iterable[Segment]) -> Iterator[Segment]:
    return (each for each in segments if not each.is_entangled)


def _numbers(own: Iterable[Segment], others: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The numbers that are present, as ranges; lines that can't be read are not missing."""
    return sorted([*((each.low, each.high) for each in _plain(own)), *others])


def _holes(ranges: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
    """The first and the last number, how many are missing between them, and in how many places."""
    first, highest = ranges[0]
    missing, gaps = 0, 0
    for low, high in ranges:
        missing += max(low - highest - 1, 0)
        gaps += low > highest + 1
        highest = max(highest, high)
    return first, highest, missing, gaps


def unread(bronze: DataFrame) -> DataFrame:
    """The table `unread`."""
    return (
        _unread(bronze)
        .withColumn("excerpt", F.substring("line", 1, _EXCERPT_CHARACTERS))
        .select(*UNREAD_LINES.names)
    )


def _unread(bronze: DataFrame) -> DataFrame:
    return bronze.where(F.col("part") == UNREAD)
