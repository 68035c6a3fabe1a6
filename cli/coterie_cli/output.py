"""What commands print, tables for people and JSON for programs, and how they end."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import IO, Any, Final, NoReturn

import typer

from coterie_cli.interrupts import raising_interrupts

__all__ = [
    "FAILED",
    "MISUSED",
    "UNREACHABLE",
    "as_json",
    "capitalized",
    "count_of",
    "fail",
    "print_json",
    "print_json_rows",
    "print_prose",
    "print_table",
    "printable",
    "reader_is_gone",
    "say",
    "showing_status",
    "table_lines",
    "terminal_columns",
    "time_text",
]

#: Exit codes: the server refused or the work failed; the command makes no sense; no node answered.
FAILED: Final = 1
MISUSED: Final = 2
UNREACHABLE: Final = 3

#: How a sentence begins that does not begin with a name.
_WORD: Final = re.compile(r"[a-z]+(?=[\s,:;.']*(\s|$))")

#: What JSON may hold unescaped although a terminal would obey it: some controls, what turns the
#: direction of writing, and what was no UTF-8.
_OBEYED: Final = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff]")


def printable(text: str) -> str:
    """A text with escapes for all that a terminal would obey rather than show.

    Clients choose the names of groups, members and hosts, and these may hold line breaks and a
    terminal's commands.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def say(line: str = "", *, err: bool = False) -> None:
    """Print a line, whatever is in the names that it contains."""
    typer.echo(printable(line), err=err)


def capitalized(sentence: str) -> str:
    """A sentence with a capital letter, unless it begins with a name: a file's, or a setting's."""
    return sentence[:1].upper() + sentence[1:] if _WORD.match(sentence) else sentence


def fail(sentence: str, code: int) -> NoReturn:
    """Say what went wrong, and end the command with an exit code."""
    # The code tells even where nothing can be said, as on a full disk.
    with suppress(OSError):
        typer.secho(printable(sentence), fg=typer.colors.RED, err=True)
    raise typer.Exit(code)


def reader_is_gone(stream: IO[str]) -> bool:
    """Whether a stream is a pipe that no program reads any more.

    One that has nothing to write would not notice otherwise, and go on for ever.
    """
    import select

    if not hasattr(select, "poll"):
        return False
    watched = select.poll()
    try:
        watched.register(stream.fileno(), 0)  # errors are told even so
        return any(event & select.POLLERR for _, event in watched.poll(0))
    except (OSError, ValueError):  # it is no file, as in a test
        return False


@contextmanager
def showing_status(initial: str = "...") -> Iterator[Callable[[str], None]]:
    """Show at a terminal what is being done; call the result with what comes next."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with raising_interrupts(), console.status(initial) as status:
        yield status.update


def count_of(number: int, noun: str) -> str:
    """A number with its noun: `1 member`, `2,000 members`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def time_text(ms: int) -> str:
    """A time, in this machine's time zone, to the second."""
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def terminal_columns() -> int | None:
    """How wide the terminal is that is printed to; None if it is not a terminal."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_prose(line: str, columns: int | None) -> None:
    """Print a line, on a terminal of so many columns with its words whole, and ids as well."""
    line = printable(line)
    if columns is None or len(line) <= columns:
        typer.echo(line)
        return
    import textwrap

    further = "    "
    folded = textwrap.wrap(
        line, columns, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )
    typer.echo("\n".join(folded))


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], empty: str, *, is_long: bool = False
) -> None:
    """Print rows under headings, or the sentence `empty` if there are none.

    No cell is cut or folded, however narrow the terminal is: ids are there to be copied.
    Of a table with `is_long`, the last cells are lists, which may get lines of their own there.
    """
    found = [[_cell(cell) for cell in row] for row in rows]
    if not found:
        typer.echo(empty)
        return
    heading, *lines = table_lines(headings, found, terminal_columns() if is_long else None)
    typer.secho(heading, bold=True)
    typer.echo("\n".join(lines))


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], columns: int | None = None
) -> list[str]:
    """The headings, and each row, with its cells below each other.

    If that is more than `columns` wide, each row's last cell gets a line of its own below it.
    """
    table = [headings, *rows]
    lines = _side_by_side(table)
    if columns is None or all(_width(line) <= columns for line in lines):
        return lines
    firsts = _side_by_side([row[:-1] for row in table])
    return [f"{first}\n  {row[-1]}" for first, row in zip(firsts, table, strict=True)]


def _side_by_side(table: Sequence[Sequence[str]]) -> list[str]:
    columns = map(_aligned, zip(*table, strict=True))
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _aligned(column: Sequence[str]) -> list[str]:
    """The cells of a column, with its heading first, all of one width; numbers to the right."""
    is_right = all(map(_is_number, column[1:]))
    if all(map(str.isascii, column)):  # much the fastest, for tables of many thousand rows
        width = max(map(len, column))
        return [cell.rjust(width) if is_right else cell.ljust(width) for cell in column]
    width = max(map(_width, column))
    spaces = (" " * (width - _width(cell)) for cell in column)
    pairs = zip(spaces, column, strict=True)
    return [space + cell if is_right else cell + space for space, cell in pairs]


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").lstrip("-").isdecimal()


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum((east_asian_width(c) in "WF") + (not combining(c)) for c in text)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def print_json(value: object) -> None:
    """Print dataclasses, and whatever they contain, as JSON."""
    import json

    _echo_json(json.dumps(as_json(value), indent=2, ensure_ascii=False))


def print_json_rows(rows: Iterable[Mapping[str, object]]) -> None:
    """Print a list of many small objects as JSON, one a line."""
    import json

    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    _echo_json("[" + ",\n ".join(lines) + "]")


def _echo_json(text: str) -> None:
    typer.echo(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def as_json(value: object) -> Any:  # noqa: ANN401  # any JSON
    """Turn dataclasses into what JSON has; bytes are left out, as people can't read them there."""
    from uuid import UUID

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
