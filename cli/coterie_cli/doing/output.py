"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["as_json", "count_of", "print_json", "print_table", "say"]

#: Wide enough for tables whose cells should not be cut where nobody looks at a terminal.
_WIDTH_OF_FILES: Final = 200


def say(sentence: str) -> None:
    """Tell what was done."""
    typer.echo(sentence)


def count_of(number: int, noun: str) -> str:
    """A number with its noun: `1 member`, `2,000 members`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_json(value: object) -> None:
    """Print a value of ours as JSON."""
    typer.echo(json.dumps(as_json(value), indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print rows under headings, or a sentence if there are none."""
    found = [[_cell(cell) for cell in row] for row in rows]
    if not found:
        typer.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        numbers = all(row[index].replace(",", "").lstrip("-").isdecimal() for row in found)
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for row in found:
        table.add_row(*row)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    console.print(table)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def as_json(value: object) -> Any:  # noqa: ANN401  # any JSON
    """A value of ours in what JSON has; bytes are left out, as nobody can read them there."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {name: as_json(v) for name, v in fields.items() if not isinstance(v, bytes)}
    if isinstance(value, Mapping):
        return {_key(key): as_json(each) for key, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple | list | set | frozenset):
        return [as_json(each) for each in value]
    return value


def _key(key: object) -> str:
    return f"{key[0]}[{key[1]}]" if isinstance(key, tuple) else str(key)
