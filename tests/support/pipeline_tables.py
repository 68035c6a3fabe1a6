"""The pipeline's tables as plain rows, of Spark and of the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from coterie_pipeline.reading import read_files
from coterie_pipeline.steps import make_tables, parse
from coterie_pipeline.steps.commits import ENDS
from coterie_pipeline.streaming.source import name_of
from coterie_pipeline.tables import TABLES
from tests.support.journal_builder import BEGINNING_MS

__all__ = ["KEYS", "TableRows", "Tables", "differences", "plain", "spark_tables"]

#: Tables by name, as rows.
Tables = Mapping[str, Sequence[Mapping[str, Any]]]

#: What tells the rows of each table from one another.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes": ("node",),
    "unread": ("segment", "excerpt"),
    "rebalances": ("group", "rebalance"),
    "ownership": ("group", "topic", "partition", "from_ms", "to_ms", "holder", "began"),
    "ownership_faults": (
        *("group", "topic", "partition", "fault", "from_ms", "to_ms"),
        *("holder", "next_holder", "cause"),
    ),
    "member_sessions": ("group", "member", "joined_ms", "ended_ms", "began", "ended"),
    "commits": ("group", "topic", "partition", "hour_ms"),
    "group_health": ("group", "hour_ms"),
    "advice": ("group", "rule", "about"),
}

#: How many differences are shown of each column.
_EXAMPLES: Final = 3


def spark_tables(
    spark: SparkSession, paths: Iterable[Path], names: Iterable[str] = KEYS
) -> dict[str, list[dict[str, Any]]]:
    """What the pipeline's steps make of journal files, with the columns that are declared."""
    wanted = list(names)
    raw = read_files(spark, {name_of(str(path)): path.stat().st_size for path in paths})
    bronze = parse(raw).localCheckpoint()
    made = make_tables(bronze, spark.createDataFrame([], ENDS), names=wanted)
    for table in TABLES:
        if table.name in made:
            declared = spark.createDataFrame([], table.ddl).schema
            assert _types(made[table.name].schema) == _types(declared), table.name
    return {name: [plain(row) for row in made[name].collect()] for name in wanted}


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


def plain(value: Any) -> Any:
    """A value as any engine may have it, in Python's own types."""
    if isinstance(value, Row):
        return plain(value.asDict())
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value)
    return round(value, 9) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class TableRows:
    """Tables of the scenarios, with their times counted from the beginning of the scenarios."""

    tables: Tables

    def rows(self, table: str, group: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Some columns of the rows of a group (of a node, where there is none), in order."""
        about = "node" if table in ("nodes", "unread") else "group"
        key = KEYS[table]
        found = sorted(
            (
                row
                for row in self.tables[table]
                if row[about] == group and all(row[name] == value for name, value in where.items())
            ),
            key=lambda row: _sortable(row, key),
        )
        return [tuple(_since_beginning(row[name], name) for name in columns) for row in found]

    def row(self, table: str, group: str, *columns: str, **where: Any) -> tuple[Any, ...]:
        """The only one of them."""
        (row,) = self.rows(table, group, *columns, **where)
        return row


def _since_beginning(value: Any, name: str) -> Any:
    is_moment = name.endswith("_ms") and isinstance(value, int) and value >= BEGINNING_MS // 2
    return value - BEGINNING_MS if is_moment else value


def _sortable(row: Mapping[str, Any], key: Iterable[str]) -> tuple[tuple[bool, int, str], ...]:
    return tuple(
        (row[name] is None, row[name] if isinstance(row[name], int) else 0, str(row[name]))
        for name in key
    )


def differences(name: str, wanted: Iterable[Any], found: Iterable[Any]) -> list[str]:
    """In what two makers of a table differ, row by row, a few examples of each kind."""
    key = KEYS[name]
    left, right = _by_key(wanted, key), _by_key(found, key)
    by_column: dict[str, list[str]] = {}
    for each in sorted(left.keys() | right.keys()):
        ours, theirs = left.get(each, []), right.get(each, [])
        if len(ours) != len(theirs):
            row = (ours or theirs)[0]
            by_column.setdefault("rows", []).append(
                f"{len(ours)} and not {len(theirs)} times {row}"
            )
            continue
        for one, other in zip(ours, theirs, strict=True):
            for column, value in other.items():
                if one[column] != value:
                    text = f"{_named(one, key)}: {one[column]!r}, not {value!r}"
                    by_column.setdefault(column, []).append(text)
    return [
        f"{name}.{column}, {len(texts)} times: {text}"
        for column, texts in by_column.items()
        for text in texts[:_EXAMPLES]
    ]


def _by_key(rows: Iterable[Any], key: Iterable[str]) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in sorted((plain(row) for row in rows), key=repr):
        found.setdefault(_sortable(row, key), []).append(row)
    return found


def _named(row: Mapping[str, Any], key: Iterable[str]) -> str:
    return ", ".join(f"{name} {row[name]}" for name in key)
