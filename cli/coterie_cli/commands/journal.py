"""`coterie journal`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.interrupts import raising_interrupts
from coterie_cli.nearest import did_you_mean
from coterie_cli.output import (
    FAILED,
    MISUSED,
    count_of,
    fail,
    print_table,
    reader_is_gone,
    say,
    time_text,
)

if TYPE_CHECKING:
    from coterie_protocol.journal import Event, Line
    from coterie_server.journal import JournalTail

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
        int, typer.Option("--lines", "-n", min=0, max=2**31 - 1, help="How many to begin with.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, until Ctrl-C.")] = False,
    commits: Annotated[bool, typer.Option("--commits", help="Also show commits.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are.")] = False,
) -> None:
    """Print the journal's last lines."""
    import time
    from itertools import islice

    from coterie_protocol.journal import OffsetsCommitted, write_line
    from coterie_server.journal import JournalTail

    def is_wanted(line: Line) -> bool:
        if group is not None and line.event.group not in ("", group):
            return False
        return commits or not isinstance(line.event, OffsetsCommitted)

    def show(line: Line) -> None:
        if json:
            typer.echo(write_line(line).rstrip("\n"))
        else:
            say(_text_of(line))

    folder = _plain_journal_in(journal)
    reader = JournalTail(folder, is_wanted)
    with _readable():
        newest_first = reader.newest_first()
        last = list(islice(newest_first, lines))
        if group is not None and not follow:
            _require_known(group, reader, newest_first, folder)
        for line in reversed(last):
            show(line)
        if reader.bad:
            number = count_of(reader.bad, "line")
            say(f"{number} can't be read: `coterie journal verify` says which.", err=True)
        with suppress(KeyboardInterrupt), raising_interrupts():
            while follow and not reader_is_gone(sys.stdout):
                time.sleep(_EVERY_S)
                for line in reader.new_lines():
                    show(line)


def _require_known(group: str, reader: JournalTail, older: Iterator[Line], folder: Path) -> None:
    """End the command if no line is about a group; older lines are read only to find that out."""
    while group not in reader.groups and next(older, None) is not None:
        pass
    if group not in reader.groups:
        hint = did_you_mean(group, reader.groups)
        fail(f"There is no line about a group {group!r} in {_full(folder)}{hint}", FAILED)


@contextmanager
def _readable() -> Iterator[None]:
    """End the command with a sentence if files can't be read."""
    from coterie_server.journal import ArchiveError

    try:
        yield
    except ArchiveError as error:
        fail(str(error), FAILED)
    except OSError as error:
        if error.filename is None:  # it is the output that failed
            raise
        fail(f"{error.filename} can't be read: {error.strerror}.", FAILED)


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
    from coterie_server.journal import list_files
    from coterie_server.journal import verify as verify_journal

    with _readable():
        folder = _journal_in(journal, list_files)
        report = verify_journal(folder)
    if not report.nodes and report.is_whole:
        fail(f"There are no lines in {_full(folder)}.", FAILED)
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
        say(f"{bad.source}, line {bad.number}: {kind}: {bad.why}", err=True)
    if not report.is_whole:
        repeated = sum(node.repeated for node in report.nodes.values())
        counts = f"{report.missing} lines missing, {repeated} repeated, {report.bad} unreadable"
        fail(f"Not whole: {counts}.", FAILED)
    say("Whole: nothing is missing, repeated or unreadable.")


def _journal_in(path: Path, list_files: Callable[[Path], Sequence[object]]) -> Path:
    """The journal of a data directory; any other path as it is, if there are such files in it."""
    inside = path / "journal"
    if inside.is_dir():
        return inside
    if path.is_dir() and not list_files(path):
        fail(f"There is no journal in {_full(path)}.", MISUSED)
    return path


def _plain_journal_in(path: Path) -> Path:
    """The same for one that is read from its end, as no compressed file can be."""
    from coterie_server.journal import is_packed, list_segments

    with _readable():
        journal = _journal_in(path, list_segments)
    if journal.is_file() and is_packed(journal):
        fail(f"{journal} is compressed, and tail reads from the end: unpack it first.", MISUSED)
    return journal


def _full(path: Path) -> Path:
    """A path for the end of a sentence, where `.` would read as `..`."""
    try:
        return path.absolute()
    except OSError:  # the current directory is gone
        return path
