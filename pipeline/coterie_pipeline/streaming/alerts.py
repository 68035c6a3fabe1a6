"""Alerts: partitions with two owners, and groups that rebalance again and again.

Pure functions of the rows that replaying a group gives.  An alert has a key that stays the same
however often it is found, so that it is raised once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from coterie_pipeline.schema import struct_of
from coterie_pipeline.steps.arrow import map_batches
from coterie_pipeline.steps.groups import LINE_COLUMNS, groups_of, lines_by_group
from coterie_pipeline.steps.lines import each_once
from coterie_pipeline.steps.survey import survey
from coterie_pipeline.tables import Table, declared
from coterie_protocol.replay import replay_group

__all__ = ["ALERTS", "Storm", "alerts", "overlap_alerts", "storm_alerts"]

ALERTS: Final = Table(
    "alerts",
    "one thing to look into at once; only `follow` makes these",
    declared("""
key | STRING | what it is about: each key has one alert
group | STRING | the group
kind | STRING | `overlap`: a partition has two owners; `possible_overlap`: it may have, as one that
    had not let go of it may have worked on; `rebalance_storm`: the group rebalances again and again
at_ms | BIGINT | when it began
sentence | STRING | what was seen, for a person
evidence | MAP<STRING, STRING> | the facts behind the sentence
"""),
)

Row = Mapping[str, Any]
Alert = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Storm:
    """How many rebalances of a group within how much time are a storm."""

    rebalances: int = 5
    within_ms: int = 300_000


def alerts(control: DataFrame, storm: Storm, groups: Sequence[str] | None = None) -> DataFrame:
    """All alerts about some groups, or about all, from the parsed control lines of all."""
    # Where a node began anew shows by what it tells of itself.
    segments = survey(control)
    is_about = F.col("group") != "" if groups is None else F.col("group").isin(*groups)
    once = each_once(control.where(is_about), segments)
    lines = lines_by_group(once.select(*LINE_COLUMNS))
    return map_batches(lines, _alerting(storm), struct_of(ALERTS.ddl))


def _alerting(storm: Storm) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = to_arrow_schema(struct_of(ALERTS.ddl))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group, lines in groups_of(batches):
            # An overlap that begins with the last line has lasted no time yet, and is one all the
            # same.
            rows = replay_group(group, lines, {}, lines.last_ms + 1)
            found = list(_of_group(rows, storm))
            if found:
                yield pa.RecordBatch.from_pylist(found, schema=schema)

    return run


def _of_group(rows: Iterable[tuple[str, Row]], storm: Storm) -> Iterator[Alert]:
    rebalances: list[Row] = []
    overlaps: list[Row] = []
    for name, row in rows:
        if name == "rebalances":
            rebalances.append({key: row[key] for key in ("group", "began_at", "cause")})
        elif name == "ownership_faults" and row["fault"] == "overlap":
            overlaps.append(row)
    yield from overlap_alerts(overlaps)
    yield from storm_alerts(rebalances, storm)


# -- two owners --------------------------------------------------------------------------------


def overlap_alerts(overlaps: Iterable[Row]) -> list[Alert]:
    """Partitions with two owners; those with the same two since one moment are one alert."""
    together: dict[tuple[Any, ...], list[Row]] = {}
    for row in overlaps:
        kind = "overlap" if row["sure_ms"] > 0 else "possible_overlap"
        pair = (row["group"], kind, *(row[name] for name in _PAIR))
        together.setdefault(pair, []).append(row)
    return [_overlap_alert(kind, rows) for (_, kind, *_), rows in together.items()]


_PAIR: Final = ("from_ms", "holder", "next_holder", "cause", "began")


def _overlap_alert(kind: str, rows: Sequence[Row]) -> Alert:
    row = dict(rows[0])
    if row["holder"] == row["next_holder"]:
        # Two processes of one static member are told by their member ids.
        row |= {"holder": row["member"], "next_holder": row["next_member"]}
    partitions = _partitions(rows)
    evidence = {"partitions": partitions, **{name: row[name] for name in _EVIDENCE}}
    return {
        "key": "|".join((kind, *(str(row[name]) for name in _KEY))),
        "group": row["group"],
        "kind": kind,
        "at_ms": row["from_ms"],
        "sentence": f"{_moment(row['from_ms'])}: {row['group']}: {_what_happened(**evidence)}",
        "evidence": list(evidence.items()),
    }


_KEY: Final = ("group", "from_ms", "holder", "next_holder")
_EVIDENCE: Final = ("holder", "next_holder", "cause", "began")


def _partitions(rows: Iterable[Row]) -> str:
    numbers: dict[str, set[int]] = {}
    for row in rows:
        numbers.setdefault(row["topic"], set()).add(row["partition"])
    return " ".join(
        f"{topic}[{','.join(map(str, sorted(own)))}]" for topic, own in sorted(numbers.items())
    )


def _what_happened(partitions: str, holder: str, next_holder: str, cause: str, began: str) -> str:
    match cause:
        case "assigned_twice":
            return f"{partitions} given to both {holder} and {next_holder}."
        case "claimed_twice":
            return f"{partitions} claimed by both {holder} and {next_holder}."
        case "taken_while_held":
            return f"{partitions} given to {next_holder} before {holder} had let go."
        case _:
            return (
                f"{partitions} went to {next_holder}, and {holder} may work on: its membership "
                f"ended ({began}), and it need not know that yet."
            )


# -- storms ------------------------------------------------------------------------------------


def storm_alerts(rebalances: Iterable[Row], storm: Storm) -> Iterator[Alert]:
    """Storms of the rebalances of one group: one alert at the beginning of each.

    A storm is over when there has been none for as long as the time that rebalances are counted in.
    """
    within: deque[Row] = deque()
    stormy_ms: int | None = None
    for at_ms, of_moment in groupby(rebalances, key=lambda row: int(row["began_at"])):
        within.extend(of_moment)
        while within[0]["began_at"] <= at_ms - storm.within_ms:
            within.popleft()
        if len(within) >= storm.rebalances:
            if stormy_ms is None or at_ms - stormy_ms > storm.within_ms:
                yield _storm_alert(at_ms, within, storm)
            stormy_ms = at_ms


def _storm_alert(at_ms: int, within: Sequence[Row], storm: Storm) -> Alert:
    group = within[0]["group"]
    causes = ", ".join(sorted({row["cause"] for row in within}))
    times = f"rebalanced {len(within)} times within {storm.within_ms / 1000:g} s"
    return {
        "key": f"rebalance_storm|{group}|{at_ms}",
        "group": group,
        "kind": "rebalance_storm",
        "at_ms": at_ms,
        "sentence": f"{_moment(at_ms)}: {group}: {times} ({causes}).",
        "evidence": [("count", str(len(within))), ("causes", causes)],
    }


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{ms % 1000:03} UTC"
