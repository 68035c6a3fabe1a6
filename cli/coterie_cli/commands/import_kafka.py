"""`coterie pipeline import-kafka`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie_cli.options import Json
from coterie_cli.output import FAILED, MISUSED, count_of, fail, print_json, say, showing_status

if TYPE_CHECKING:
    from coterie_pipeline.kafka_logs import Imported

__all__ = ["import_kafka"]


def import_kafka(
    logs: Annotated[
        list[Path], typer.Argument(help="Brokers' logs, or folders of them.", exists=True)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the journal goes.")],
    dump: Annotated[
        Path | None,
        typer.Option(help="Segments of __consumer_offsets: a file or a folder.", exists=True),
    ] = None,
    zone: Annotated[str, typer.Option(help="The logs' time zone, such as Europe/Berlin.")] = "UTC",
    cluster: Annotated[str, typer.Option(help="What to call the cluster.")] = "kafka",
    *,
    commits: Annotated[bool, typer.Option(help="Whether to write commits as well.")] = True,
    json: Json = False,
) -> None:
    """Write a journal of what Kafka's brokers logged about their groups."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from coterie_pipeline.kafka_logs import KafkaLogsError, import_logs

    try:
        time_zone = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # the last for a part of the world
        fail(f"There is no time zone {zone!r}: give a name such as Europe/Berlin.", MISUSED)
    with showing_status("reading") as show:
        try:
            imported = import_logs(
                logs,
                out,
                dump=dump,
                zone=time_zone,
                cluster=cluster,
                commits=commits,
                progress=lambda lines: show(f"{lines:,} lines read"),
            )
        except KafkaLogsError as error:
            fail(str(error), FAILED)
        except OSError as error:
            if error.filename is None:
                raise
            fail(f"{error.filename} can't be read or written: {error.strerror}.", FAILED)
    if json:
        print_json(imported)
    else:
        _print_summary(imported, out)


def _print_summary(imported: Imported, out: Path) -> None:
    say(
        f"{out}: {count_of(sum(imported.written.values()), 'line')} "
        f"about {count_of(imported.groups, 'group')}, "
        f"{_moment(imported.first_ms)} to {_moment(imported.last_ms)}."
    )
    say(
        f"{count_of(imported.rebalances, 'rebalance')}, {imported.completed:,} of them completed; "
        f"who was given what is known of {imported.assignments:,}."
    )
    say(
        f"{imported.understood:,} of {imported.coordinator_lines:,} lines of coordinators "
        f"were understood, in {imported.files:,} files of {imported.lines:,} lines."
    )
    for sentence in _caveats(imported):
        say(sentence)
    for line in imported.not_understood:
        say(f"not understood: {line}", err=True)


def _caveats(imported: Imported) -> Iterator[str]:
    """What is known to be missing from the journal."""
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
