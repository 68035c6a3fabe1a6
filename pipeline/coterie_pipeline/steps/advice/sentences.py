"""Turning what a rule has found into rows of the table: sentences, and the numbers behind them.

Expressions are written in SQL: each expression that is built in Python takes a round trip to the
JVM, and there are many rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coterie_pipeline.tables import ADVICE

__all__ = ["advise", "count_of", "found", "partition_name", "partition_seconds", "seconds"]

#: Columns that not every rule has.
_DEFAULTS: Final[Mapping[str, str]] = {
    "group": "''",
    "about": "''",
    "saves_partition_ms": "NULL",
    "from_ms": "NULL",
    "to_ms": "NULL",
}


def found(rows: DataFrame, by: Sequence[str], **columns: str) -> DataFrame:
    """Rows by what they have in common, with columns that sum them up."""
    return rows.groupBy(*(F.expr(each) for each in by)).agg(
        *(F.expr(f"{sql} AS {name}") for name, sql in columns.items())
    )


def advise(
    rows: DataFrame,
    rule: str,
    severity: str,
    sentence: str,
    words: Sequence[str],
    evidence: Sequence[str] | Mapping[str, str],
) -> DataFrame:
    """Rows of the table: `words` go into the sentence; evidence is columns, or named expressions.

    `group`, `about`, `saves_partition_ms` and the times are taken from the rows if they have them.
    """
    facts = evidence if isinstance(evidence, Mapping) else {name: name for name in evidence}
    entries = ", ".join(
        f"'{name}', ifnull(string({sql}), 'unknown')" for name, sql in facts.items()
    )
    own = set(rows.columns)
    values = {name: f"`{name}`" if name in own else sql for name, sql in _DEFAULTS.items()} | {
        "rule": _quoted(rule),
        "severity": _quoted(severity),
        "sentence": f"format_string({', '.join((_quoted(sentence), *words))})",
        "evidence": f"map({entries})",
    }
    return rows.selectExpr(
        *(f"CAST({values[each.name]} AS {each.type}) AS `{each.name}`" for each in ADVICE.columns)
    )


def seconds(ms: str) -> str:
    """A time as people read it: `0.025 s`, `3.1 s`, `180 s`."""
    return (
        f"CASE WHEN {ms} < 1000 THEN format_string('%.3f s', ({ms}) / 1000)"
        f" WHEN {ms} < 100000 THEN format_string('%.1f s', ({ms}) / 1000)"
        f" ELSE format_string('%,.0f s', ({ms}) / 1000) END"
    )


def partition_seconds(ms: str) -> str:
    """A time that is added up over partitions."""
    return f"format_string('%,.1f partition-seconds', ({ms}) / 1000)"


def count_of(number: str, one: str, many: str) -> str:
    """A number with its noun: `1 member`, `2 members`."""
    return f"format_string('%,d %s', bigint({number}), if({number} = 1, '{one}', '{many}'))"


def partition_name() -> str:
    """A partition as logs write it: `orders[3]`."""
    return "format_string('%s[%d]', topic, partition)"


def _quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
