"""What `coterie journal` does."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from coterie_cli.doing.connecting import FAILED, MISUSED, give_up
from coterie_cli.doing.output import print_table
from coterie_protocol.journal import Event, Line, OffsetsCommitted, write_line
from coterie_protocol.journal_text import BadLine
from coterie_server.journal import read_journal
from coterie_server.journal import verify as audit

__all__ = ["Wish", "tail", "told", "verify"]

#: How often a journal that is followed is looked at.
_EVERY_S: Final = 0.5

#: What says nothing to a person who reads line by line.
_SILENT: Final = ("group",)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to print."""

    group: str | None
    lines: int
    follow: bool
    commits: bool
    json: bool

    def wants(self, line: Line) -> bool:
        """Whether a line is to be printed."""
        event = line.event
        if self.group is not None and event.group not in ("", self.group):
            return False
        return self.commits or not isinstance(event, OffsetsCommitted)


def tail(where: Path, wish: Wish) -> int:
    """Print the last lines, and what comes after them if that is wanted."""
    journal = _journal_in(where)
    seen: dict[str, int] = {}
    last = deque(_fresh(journal, seen, wish), wish.lines)
    for line in last:
        _print(line, wish)
    try:
        while wish.follow:
            time.sleep(_EVERY_S)
            for line in _fresh(journal, seen, wish):
                _print(line, wish)
    except KeyboardInterrupt:
        pass
    return 0


def verify(where: Path) -> int:
    """Say whether a journal is whole."""
    report = audit(_journal_in(where))
    rows = [
        (
            node.node,
            node.lines,
            _moment(node.first_ts),
            _moment(node.last_ts),
            node.starts,
            node.crashes,
            node.missing,
            node.repeated,
        )
        for node in report.nodes.values()
    ]
    headings = ("NODE", "LINES", "FROM", "TO", "STARTS", "CRASHES", "MISSING", "REPEATED")
    print_table(headings, rows, "There are no lines.")
    for bad in report.examples:
        kind = "torn" if bad.torn else "unreadable"
        typer.echo(f"{bad.source}, line {bad.number}: {kind}: {bad.why}", err=True)
    if report.is_whole:
        typer.echo("Whole: nothing is missing, repeated or unreadable.")
        return 0
    missing = f"{report.missing} lines missing, {report.bad} unreadable"
    typer.secho(f"Not whole: {missing}.", fg=typer.colors.RED, err=True)
    return FAILED


def told(line: Line) -> str:
    """A line for a person: when, which node, which group, what."""
    event = line.event
    group = f"{event.group}: " if event.group else ""
    return f"{_moment(line.ts)}  {group}{event.kind.replace('_', ' ')}  {_details(event)}".rstrip()


def _details(event: Event) -> str:
    values = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in _SILENT}
    shown = {name: value for name, value in values.items() if value not in (None, "", (), {})}
    return " ".join(f"{name}={_shown(value)}" for name, value in shown.items())


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{len(value)}]" if value and not isinstance(value[0], str) else ",".join(value)
    text = str(value)
    return repr(text) if isinstance(value, str) and " " in text else text


def _moment(ts_ms: int) -> str:
    return f"{datetime.fromtimestamp(ts_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def _print(line: Line, wish: Wish) -> None:
    typer.echo(write_line(line).rstrip("\n") if wish.json else told(line))


def _fresh(journal: Path, seen: dict[str, int], wish: Wish) -> Iterator[Line]:
    """The lines that were not there before."""
    for entry in read_journal(journal):
        if isinstance(entry, BadLine) or entry.seq <= seen.get(entry.node, -1):
            continue
        seen[entry.node] = entry.seq
        if wish.wants(entry):
            yield entry


def _journal_in(where: Path) -> Path:
    """The journal of a data directory, or what was given."""
    inside = where / "journal"
    if inside.is_dir():
        return inside
    if where.is_dir() and not any(where.glob("journal-*")):
        give_up(f"There is no journal in {where}.", MISUSED)
    return where
