"""What `coterie pipeline import-kafka` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.console import Console

from coterie_cli.doing.connecting import FAILED, MISUSED, give_up
from coterie_cli.doing.output import print_json
from coterie_pipeline.kafka_logs import Imported, KafkaLogsError
from coterie_pipeline.kafka_logs import import_logs as import_all

__all__ = ["Wish", "import_logs"]

_err: Final = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """How to read."""

    dump: Path | None
    zone: str
    cluster: str
    commits: bool
    json: bool


def import_logs(logs: Sequence[Path], out: Path, wish: Wish) -> int:
    """Write the journal, and say what was understood."""
    try:
        zone = ZoneInfo(wish.zone)
    except (ZoneInfoNotFoundError, ValueError):
        give_up(f"There is no time zone {wish.zone!r}: give a name such as Europe/Berlin.", MISUSED)
    with _err.status("reading") as status:
        try:
            imported = import_all(
                logs,
                out,
                dump=wish.dump,
                zone=zone,
                cluster=wish.cluster,
                commits=wish.commits,
                progress=lambda lines: status.update(f"{lines:,} lines read"),
            )
        except KafkaLogsError as error:
            give_up(str(error), FAILED)
    if wish.json:
        print_json(imported)
    else:
        _tell(imported, out)
    return 0


def _tell(imported: Imported, out: Path) -> None:
    """What came of it, in sentences."""
    typer.echo(
        f"{out}: {sum(imported.written.values()):,} lines about {imported.groups:,} groups, "
        f"{_moment(imported.first_ms)} to {_moment(imported.last_ms)}."
    )
    typer.echo(
        f"{imported.rebalances:,} rebalances, {imported.completed:,} of them completed; "
        f"who was given what is known of {imported.assignments:,}."
    )
    typer.echo(
        f"{imported.understood:,} of {imported.coordinator_lines:,} lines of coordinators "
        f"were understood, in {imported.files:,} files of {imported.lines:,} lines."
    )
    if imported.newer_groups:
        typer.echo(f"{imported.newer_groups:,} groups are of a newer kind, and left out.")
    for line in imported.not_understood:
        _err.print(f"not understood: {line}", markup=False, soft_wrap=True)


def _moment(ms: int | None) -> str:
    return "-" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
