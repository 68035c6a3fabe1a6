"""A suite's result, and its forms: a table in a terminal, Markdown, and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.support.measure import RATIO, Figure

__all__ = ["Cell", "Column", "Report", "Row", "as_json", "as_markdown", "show", "widest"]

Cell = str | int | Figure | None

_ABSENT: Final = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs and its heading for people."""

    key: str
    heading: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, under its group's heading; a cell per column."""

    group: str
    cells: tuple[Cell, ...]
    #: Marks after cells, by column; the notes explain them.
    marks: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a suite."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """The rows by group, in the order of their first rows."""
        for name in dict.fromkeys(row.group for row in self.rows):
            yield name, [row for row in self.rows if row.group == name]


def show(report: Report, console: Console) -> None:
    """Print the table to a terminal."""
    table = Table(
        title=report.title,
        title_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for index, column in enumerate(report.columns):
        table.add_column(column.heading, justify="right" if index else "left", no_wrap=index > 0)
    for group, rows in report.groups():
        table.add_section()
        if group:
            table.add_row(Text(group, style="bold"))
        for row in rows:
            table.add_row(
                *(
                    _styled(cell, row.marks.get(column.key, ""))
                    for column, cell in zip(report.columns, row.cells, strict=True)
                )
            )
    console.print(table)
    for note in report.notes:
        console.print(f"  {note}", style="dim", highlight=False)
    console.print()


def _styled(cell: Cell, mark: str) -> Text:
    style = {True: "green", False: "yellow", None: ""}
    return Text(_text(cell) + mark, style[cell.reached if isinstance(cell, Figure) else None])


def as_markdown(report: Report) -> str:
    """Return the table as Markdown."""
    lines = [f"### {report.title}", ""]
    for group, rows in report.groups():
        if group:
            lines += [f"**{group}**", ""]
        lines.append(_markdown_row(column.heading.replace("\n", " ") for column in report.columns))
        lines.append(_markdown_row("---" if not i else "---:" for i in range(len(report.columns))))
        for row in rows:
            lines.append(
                _markdown_row(
                    _text(cell) + row.marks.get(column.key, "")
                    for column, cell in zip(report.columns, row.cells, strict=True)
                )
            )
        lines.append("")
    lines += [f"{note}\n" for note in report.notes]
    return "\n".join(lines)


def _markdown_row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return _ABSENT
        case int():
            return f"{cell:,}"
        case Figure():
            digits = max(0, 2 - len(str(int(cell.median)).lstrip("0")))
            number = f"{cell.median:,.{digits}f}"
            return f"{number}{cell.unit}" if cell.unit == RATIO else f"{number} {cell.unit}"
    return cell


def widest(figures: Iterable[Figure]) -> str:
    """The largest spread among a row's figures, as the text of a cell."""
    return f"±{max(figure.spread for figure in figures):.0%}"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as plain values for `json`."""
    keys = [column.key for column in report.columns]
    return {
        "title": report.title,
        "columns": {column.key: column.heading.replace("\n", " ") for column in report.columns},
        "rows": [
            {
                "group": row.group,
                **{key: _json_cell(cell) for key, cell in zip(keys, row.cells, strict=True)},
                **({"marks": row.marks} if row.marks else {}),
            }
            for row in report.rows
        ],
        "notes": list(report.notes),
    }


def _json_cell(cell: Cell) -> Any:
    if not isinstance(cell, Figure):
        return cell
    figure = {"median": cell.median, "low": cell.low, "high": cell.high, "unit": cell.unit}
    return figure if cell.reached is None else {**figure, "reached": cell.reached}
