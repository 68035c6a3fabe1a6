"""What `coterie pipeline` does with Spark."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console

from coterie_cli.doing.connecting import FAILED, MISUSED, give_up
from coterie_cli.doing.output import as_json, count_of, print_json, print_table
from coterie_cli.doing.sparking import progress, started
from coterie_cli.pipeline import Engine

if TYPE_CHECKING:
    from pyspark.sql import Row

__all__ = ["FollowWish", "follow", "report", "run"]

_err: Final = Console(stderr=True, highlight=False)

#: Alerts do not wait until new tables are made.
_FAIR: Final = {"spark.scheduler.mode": "FAIR"}

#: What an advice's severity looks like.
_COLOURS: Final = {"wrong": "red", "costly": "yellow", "note": "default"}


@dataclass(frozen=True, slots=True)
class FollowWish:
    """How to follow."""

    every_s: float
    refresh_s: float
    storm: str
    once: bool
    json: bool


def run(engine: Engine, journals: Sequence[str], out: str, ends: str | None, *, json: bool) -> int:
    """Make the tables, and say what is in them."""
    with progress() as tell, started(engine, tell) as spark:
        from coterie_pipeline.batch import NoJournalsError, read_ends  # noqa: PLC0415
        from coterie_pipeline.batch import run as run_batch  # noqa: PLC0415
        from coterie_pipeline.warehouse import Warehouse, WrongLayoutError  # noqa: PLC0415

        known = None if ends is None else read_ends(spark, ends)
        try:
            done = run_batch(spark, journals, out, ends=known, on_stage=tell)
        except (NoJournalsError, WrongLayoutError) as error:
            give_up(str(error), MISUSED)
        tell("reading the advice")
        warehouse = Warehouse(spark, out).fitting()
        advice = warehouse.table("advice").collect()
        paths = warehouse.paths()
    if json:
        print_json({**as_json(done.reading), "rows": done.moment.rows, "tables": paths})
        return 0
    reading = done.reading
    typer.echo(f"{count_of(reading.segments, 'file')}, {reading.fresh:,} of them new or changed.")
    print_table(
        ("TABLE", "ROWS", "PARQUET"),
        [(name, done.moment.rows[name], path) for name, path in paths.items()],
        "There are no tables.",
    )
    _print_advice(advice)
    return 0


def _print_advice(advice: Sequence[Row]) -> None:
    """The sentences, the worst first."""
    console = Console(highlight=False)
    order = list(_COLOURS)
    for row in sorted(advice, key=lambda row: (order.index(row.severity), row.group, row.sentence)):
        group = f"{row.group}: " if row.group else ""
        console.print(f"{row.severity:7}", style=_COLOURS[row.severity], end="")
        console.print(f"{group}{row.sentence}", markup=False, soft_wrap=True)


def follow(engine: Engine, journals: Sequence[str], out: str, wish: FollowWish) -> int:
    """Follow journals until it is stopped."""
    with progress() as tell, started(engine, tell, _FAIR) as spark:
        from coterie_pipeline.streaming.alerts import Storm  # noqa: PLC0415  # an extra
        from coterie_pipeline.streaming.files import SourceError  # noqa: PLC0415
        from coterie_pipeline.streaming.follow import (  # noqa: PLC0415
            CheckpointError,
            FollowOptions,
            Progress,
        )
        from coterie_pipeline.streaming.follow import follow as follow_journals  # noqa: PLC0415
        from coterie_pipeline.warehouse import WrongLayoutError  # noqa: PLC0415

        def on_progress(so_far: Progress) -> None:
            behind = f", {so_far.behind_bytes / 1e6:,.1f} MB behind" if so_far.behind_bytes else ""
            tell(f"{so_far.lines:,} lines in {so_far.batches:,} batches{behind}")

        rebalances, minutes = _storm(wish.storm)
        options = FollowOptions(
            every_s=wish.every_s,
            refresh_s=wish.refresh_s,
            once=wish.once,
            storm=Storm(rebalances, minutes * 60_000),
        )
        try:
            follow_journals(
                spark,
                journals,
                out,
                options,
                on_alert=lambda row: _print_alert(row, json=wish.json),
                on_progress=on_progress,
            )
        except (CheckpointError, WrongLayoutError) as error:
            give_up(str(error), MISUSED)
        except SourceError as error:
            give_up(str(error), FAILED)
    return 0


def _storm(text: str) -> tuple[int, int]:
    rebalances, _, minutes = text.partition("/")
    if not (rebalances.isdecimal() and minutes.isdecimal() and int(rebalances) and int(minutes)):
        give_up(f"--storm {text}: expected REBALANCES/MINUTES, such as 5/5.", MISUSED)
    return int(rebalances), int(minutes)


def _print_alert(row: Row, *, json: bool) -> None:
    if json:
        typer.echo(json_text.dumps(as_json(row.asDict(recursive=True))))
        return
    when = datetime.fromtimestamp(row.at_ms / 1000, UTC).astimezone()
    typer.echo(f"{when:%Y-%m-%d %H:%M:%S}  {row.kind.replace('_', ' ')}  {row.sentence}")


def report(engine: Engine, tables: str, output: Path, *, json: bool) -> int:
    """Write the report."""
    with progress() as tell, started(engine, tell) as spark:
        from coterie_pipeline.report import write_report  # noqa: PLC0415  # an extra
        from coterie_pipeline.warehouse import NoTablesError, Warehouse  # noqa: PLC0415

        try:
            found = Warehouse(spark, tables).fitting().tables()
        except NoTablesError as error:
            give_up(str(error), MISUSED)
        tell("drawing")
        summary = write_report(found, output)
    if json:
        print_json(summary)
        return 0
    drawn = (
        f", {summary.groups_drawn} of them drawn" if summary.groups_drawn < summary.groups else ""
    )
    typer.echo(
        f"{output}: {count_of(summary.groups, 'group')}{drawn}, "
        f"{count_of(summary.rebalances, 'rebalance')}, {count_of(summary.overlaps, 'overlap')}; "
        f"{summary.size_bytes / 1e6:.1f} MB. Open it in a browser."
    )
    return 0
