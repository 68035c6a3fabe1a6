"""What the pipeline's tables should hold, worked out by other means: DuckDB's SQL.

Lines are read in plain Python, and all that follows from them is asked in SQL, with windows and
joins where the pipeline replays line by line; there is one `.sql` file for each table, and for each
step on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import duckdb

from tests.pipeline.oracle.dates import Dates
from tests.pipeline.oracle.reading import Raw, former_lives, is_void, raw_lines, read_once

__all__ = ["oracle_tables"]

_SQL: Final = Path(__file__).parent

#: What the SQL is about, as DuckDB declares columns.
_INPUTS: Final[Mapping[str, str]] = {
    "raw": "segment VARCHAR, name VARCHAR, text VARCHAR, why VARCHAR, node VARCHAR, seq BIGINT,"
    " ts BIGINT, is_void BOOLEAN",
    "lines": "grp VARCHAR, node VARCHAR, seq BIGINT, ts BIGINT, kind VARCHAR, body VARCHAR",
}

#: What is made of the steps, without SQL.
_IDENTITIES: Final = "grp VARCHAR, number BIGINT, identity VARCHAR"

#: What follows from that alone.
_VIEWS: Final = """
CREATE MACRO said(value) AS coalesce(CAST(value AS VARCHAR), 'unknown');
"""

#: The tables in an order in which each is made of what is there.
_STEPS: Final = (
    "control",
    "resumed",
    "deletions",
    "people",
    "spans",
    "moments",
    "generations",
    "given",
    "statements",
    "intervals",
    "memberships",
    "owned",
    "gaps",
    "silences",
)
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
    void = former_lives(raws)
    inputs["raw"] = [(*_raw_row(raw), is_void(raw, void)) for raw in raws]
    inputs["lines"] = [_line_row(line) for line in lines]
    return _made(inputs, Dates(lines))


def _made(
    inputs: Mapping[str, Sequence[tuple[Any, ...]]], dates: Dates
) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        database.create_function("lasted", dates.lasted, ["VARCHAR", "BIGINT", "BIGINT"], "BIGINT")
        database.create_function("after", dates.after, ["VARCHAR", "BIGINT", "BIGINT"], "BIGINT")
        for name, rows in inputs.items():
            _fill(database, name, rows)
        database.execute(_VIEWS)
        database.create_function("crc_32", lambda text: crc32(text.encode()), ["VARCHAR"], "BIGINT")
        for name in _STEPS:
            database.execute(_sql(name))
        _fill(database, "identities", list(_identities(database)))
        made = {}
        for name in _TABLES:
            database.execute(f"CREATE TABLE {name} AS {_sql(name)}")
            found = database.sql(f"FROM {name}")
            made[name] = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        return made


def _identities(database: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, int, str]]:
    """Which of those with its client id and host each dynamic membership is of."""
    named = database.execute(
        "SELECT grp, client_id || '@' || host, number, began_pos, over_pos, member"
        " FROM memberships WHERE instance IS NULL AND client_id || '@' || host IS NOT NULL"
    ).fetchall()
    for (group, name), rows in groupby(sorted(named), key=itemgetter(0, 1)):
        chosen: dict[int, int] = {}
        unused = list(range(len(named), 0, -1))
        its = [row[2:] for row in rows]
        comes = [(began_pos, 1, member, number) for number, began_pos, _, member in its]
        goes = [(over_pos, 0, member, number) for number, _, over_pos, member in its if over_pos]
        for _, is_coming, _, number in sorted(comes + goes):
            if is_coming:
                chosen[number] = unused.pop()
                identity = name if chosen[number] == 1 else f"{name}#{chosen[number]}"
                yield group, number, identity
            else:
                unused.append(chosen[number])


def _sql(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text(encoding="utf-8")


def _fill(database: duckdb.DuckDBPyConnection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    columns = _INPUTS.get(name, _IDENTITIES)
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
