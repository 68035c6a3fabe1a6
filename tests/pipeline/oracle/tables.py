"""What the pipeline's tables should hold, worked out by other means than Spark's.

Lines are put in order and replayed in plain Python (`reading`, `replay`, `memberships`), and
DuckDB makes the tables of that; there is one `.sql` file for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import duckdb

from tests.pipeline.oracle.memberships import Membership, hosts_and_names, memberships
from tests.pipeline.oracle.reading import Placed, Raw, placed, raw_lines, read_once
from tests.pipeline.oracle.replay import Interval, Replay, Span, spans

__all__ = ["oracle_tables"]

_SQL: Final = Path(__file__).parent

#: What the SQL is about, as DuckDB declares columns.
_INPUTS: Final[Mapping[str, str]] = {
    "raw": "segment VARCHAR, name VARCHAR, text VARCHAR, why VARCHAR, node VARCHAR, seq BIGINT,"
    " ts BIGINT",
    "lines": "grp VARCHAR, node VARCHAR, seq BIGINT, ts BIGINT, kind VARCHAR, body VARCHAR",
    "control": "grp VARCHAR, pos BIGINT, at_ms BIGINT, stint BIGINT, node VARCHAR, ts BIGINT,"
    " kind VARCHAR, body VARCHAR",
    "spans": "grp VARCHAR, rebalance BIGINT, began_pos BIGINT, started_pos BIGINT,"
    " joined_pos BIGINT, completed_pos BIGINT, ended_pos BIGINT, outcome VARCHAR",
    "intervals": "grp VARCHAR, topic VARCHAR, partition BIGINT, holder VARCHAR, member VARCHAR,"
    " from_ms BIGINT, began_pos BIGINT, began VARCHAR, generation BIGINT, last_generation BIGINT,"
    " to_ms BIGINT, ended_pos BIGINT, ended VARCHAR, released_ms BIGINT,"
    " given_ms BIGINT",
    "given": "grp VARCHAR, pos BIGINT, holder VARCHAR, topic VARCHAR, partition BIGINT",
    "people": "grp VARCHAR, member VARCHAR, instance VARCHAR, host VARCHAR",
    "memberships": "grp VARCHAR, number BIGINT, member VARCHAR, instance VARCHAR, host VARCHAR,"
    " began VARCHAR, began_pos BIGINT, known_ms BIGINT, joined_ms BIGINT, client_id VARCHAR,"
    " rebalance_timeout_ms BIGINT, session_timeout_ms BIGINT, protocols VARCHAR[],"
    " topics VARCHAR[], join_reason VARCHAR, ended VARCHAR, ended_pos BIGINT, ended_ms BIGINT,"
    " silent_ms BIGINT, leave_reason VARCHAR",
}

#: What follows from that alone.
_VIEWS: Final = """
CREATE TABLE horizons AS
    SELECT grp, min(ts) AS first_ms, max(ts) AS horizon_ms FROM lines WHERE grp <> '' GROUP BY grp;
CREATE TABLE deletions AS
    SELECT body ->> 'topic' AS topic, ts FROM lines
    WHERE kind = 'topic_changed' AND (body ->> 'change') = 'deleted';
CREATE MACRO said(value) AS coalesce(CAST(value AS VARCHAR), 'unknown');
"""

#: The tables in an order in which each is made of what is there.
_STEPS: Final = ("moments", "generations", "owned", "gaps")
_TABLES: Final = (
    "nodes",
    "unread",
    "rebalances",
    "ownership",
    "ownership_faults",
    "member_sessions",
    "commits",
    "group_health",
    "advice",
)


def oracle_tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The tables of a journal's folder; `advice` without its sentences."""
    raws = raw_lines(folder)
    lines = read_once(raws)
    inputs: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INPUTS}
    inputs["raw"] = [_raw_row(raw) for raw in raws]
    inputs["lines"] = [_line_row(line) for line in lines]
    for group, own in placed(lines).items():
        horizon_ms = max(line["ts"] for line in lines if line["group"] == group)
        for name, rows in _of_group(own, horizon_ms).items():
            inputs[name] += [(group, *row) for row in rows]
    return _made(inputs)


def _made(inputs: Mapping[str, Sequence[tuple[Any, ...]]]) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        for name, rows in inputs.items():
            _fill(database, name, rows)
        database.execute(_VIEWS)
        for name in _STEPS:
            database.execute(_sql(name))
        made = {}
        for name in _TABLES:
            database.execute(f"CREATE TABLE {name} AS {_sql(name)}")
            found = database.sql(f"FROM {name}")
            made[name] = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        return made


def _sql(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


def _fill(database: duckdb.DuckDBPyConnection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = _INPUTS[name]
    database.execute(f"CREATE TABLE {name} ({columns})")
    names = [column.split()[0] for column in columns.split(", ")]
    values = [dict(zip(names, row, strict=True)) for row in rows]
    struct = f"STRUCT({columns})[]"
    database.execute(f"INSERT INTO {name} SELECT unnest(?::{struct}, recursive := true)", [values])


# -- rows -----------------------------------------------------------------------------------------


def _raw_row(raw: Raw) -> tuple[Any, ...]:
    node, seq = raw.number or (None, None)
    name = Path(raw.segment).name
    return raw.segment, name, raw.text, raw.why, node, seq, raw.values.get("ts")


def _line_row(line: Mapping[str, Any]) -> tuple[Any, ...]:
    kept = (line[name] for name in ("group", "node", "seq", "ts", "kind"))
    return (*kept, json.dumps(line))


def _of_group(own: Sequence[Placed], horizon_ms: int) -> dict[str, Iterable[tuple[Any, ...]]]:
    """What replaying a group tells."""
    people = hosts_and_names(own)
    instances = {member: name for member, (name, _) in people.items() if name is not None}
    replay = Replay(instances)
    replay.run(own, horizon_ms)
    return {
        "control": [
            (p.pos, p.at, p.stint, p["node"], p["ts"], p.kind, json.dumps(p.values)) for p in own
        ],
        "spans": [_row(span) for span in spans(own)],
        "intervals": [_row(interval) for interval in replay.intervals],
        "given": replay.given,
        "people": [(member, *known) for member, known in people.items()],
        "memberships": [
            (number, *_row(each)) for number, each in enumerate(memberships(own, people), 1)
        ],
    }


def _row(each: Span | Interval | Membership) -> tuple[Any, ...]:
    return tuple(getattr(each, field.name) for field in fields(each))
