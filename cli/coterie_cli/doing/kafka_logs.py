"""What `coterie pipeline import-kafka` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.console import Console

from coterie_cli.doing.connecting import FAILED, MISUSED, give_up
from coterie_cli.doing.output import count_of, print_json
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
        f"{out}: {count_of(sum(imported.written.values()), 'line')} "
        f"about {count_of(imported.groups, 'group')}, "
        f"{_moment(imported.first_ms)} to {_moment(imported.last_ms)}."
    )
    typer.echo(
        f"{count_of(imported.rebalances, 'rebalance')}, {imported.completed:,} of them completed; "
        f"who was given what is known of {imported.assignments:,}."
    )
    typer.echo(
        f"{imported.understood:,} of {imported.coordinator_lines:,} lines of coordinators "
        f"were understood, in {imported.files:,} files of {imported.lines:,} lines."
    )
    for sentence in _caveats(imported):
        typer.echo(sentence)
    for line in imported.not_understood:
        _err.print(f"not understood: {line}", markup=False, soft_wrap=True)


def _caveats(imported: Imported) -> Iterator[str]:
    """What the journal lacks, as far as that is known."""
    if imported.newer_groups:
        yield f"{imported.newer_groups:,} groups are of a newer kind, and left out."
    if imported.generations_in_part:
        yield (
            f"Of {imported.generations_in_part:,} generations not all members are known: "
            "the logs begin in the middle."
        )
    for reason, times in imported.unknown_reasons.items():
        yield f"Unknown reason, {times:,} times: {reason}"
    if imported.cut_off_files:
        yield f"Cut off: {', '.join(imported.cut_off_files)}"
    if imported.silent_files:
        yield f"No coordinator says anything in {', '.join(imported.silent_files)}"
    for why, count in imported.dump.unreadable.items():
        yield f"{count:,} stored batches or records could not be read: {why}"


def _moment(ms: int | None) -> str:
    return "-" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
