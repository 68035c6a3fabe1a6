"""`coterie journal`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.interrupts import raising_interrupts
from coterie_cli.output import FAILED, MISUSED, fail, print_table, time_text

if TYPE_CHECKING:
    from coterie_protocol.journal import Event, Line

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Read what a node wrote down.")

Folder = Annotated[
    Path, typer.Argument(help="A data directory, or a journal's folder or file.", exists=True)
]

#: How often a journal that is followed is read again.
_EVERY_S: Final = 0.5

#: Fields that are not printed after the kind: the group stands before it.
_HIDDEN: Final = ("group",)


@app.command()
def tail(
    journal: Folder = Path("coterie-data"),
    *,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many to begin with.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, until Ctrl-C.")] = False,
    commits: Annotated[bool, typer.Option("--commits", help="Also show commits.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are.")] = False,
) -> None:
    """Print the journal's last lines."""
    import time
    from collections import deque

    from coterie_protocol.journal import OffsetsCommitted, write_line

    def is_wanted(line: Line) -> bool:
        if group is not None and line.event.group not in ("", group):
            return False
        return commits or not isinstance(line.event, OffsetsCommitted)

    def show(line: Line) -> None:
        typer.echo(write_line(line).rstrip("\n") if json else _text_of(line))

    folder = _journal_in(journal)
    seen: dict[str, int] = {}
    for line in deque(_new_lines(folder, seen, is_wanted), lines):
        show(line)
    with suppress(KeyboardInterrupt), raising_interrupts():
        while follow:
            time.sleep(_EVERY_S)
            for line in _new_lines(folder, seen, is_wanted):
                show(line)


def _new_lines(
    journal: Path, seen: dict[str, int], is_wanted: Callable[[Line], bool]
) -> Iterator[Line]:
    """The lines after those in `seen`, which has the latest number of each node."""
    from coterie_protocol.journal_text import BadLine
    from coterie_server.journal import read_journal

    for entry in read_journal(journal):
        if isinstance(entry, BadLine) or entry.seq <= seen.get(entry.node, -1):
            continue
        seen[entry.node] = entry.seq
        if is_wanted(entry):
            yield entry


def _text_of(line: Line) -> str:
    """A line for people: when, which group, what."""
    event = line.event
    group = f"{event.group}: " if event.group else ""
    kind = event.kind.replace("_", " ")
    return f"{time_text(line.ts)}  {group}{kind}  {_details(event)}".rstrip()


def _details(event: Event) -> str:
    values = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in _HIDDEN}
    shown = {name: value for name, value in values.items() if value not in (None, "", (), {})}
    return " ".join(f"{name}={_value_text(value)}" for name, value in shown.items())


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{len(value)}]" if value and not isinstance(value[0], str) else ",".join(value)
    text = str(value)
    return repr(text) if isinstance(value, str) and " " in text else text


@app.command()
def verify(journal: Folder = Path("coterie-data")) -> None:
    """Read all of a journal, and say what is missing or damaged; exits with 1 if anything is."""
    from coterie_server.journal import verify as verify_journal

    report = verify_journal(_journal_in(journal))
    rows = [
        (
            *(node.node, node.lines, time_text(node.first_ts), time_text(node.last_ts)),
            *(node.starts, node.crashes, node.missing, node.repeated),
        )
        for node in report.nodes.values()
    ]
    headings = ("NODE", "LINES", "FROM", "TO", "STARTS", "CRASHES", "MISSING", "REPEATED")
    print_table(headings, rows, "There are no lines.")
    for bad in report.examples:
        kind = "torn" if bad.torn else "unreadable"
        typer.echo(f"{bad.source}, line {bad.number}: {kind}: {bad.why}", err=True)
    if not report.is_whole:
        fail(f"Not whole: {report.missing} lines missing, {report.bad} unreadable.", FAILED)
    typer.echo("Whole: nothing is missing, repeated or unreadable.")


def _journal_in(path: Path) -> Path:
    """The journal of a data directory; any other path as it is."""
    inside = path / "journal"
    if inside.is_dir():
        return inside
    if path.is_dir() and not any(path.glob("journal-*")):
        fail(f"There is no journal in {path}.", MISUSED)
    return path
