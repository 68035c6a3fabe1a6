"""`coterie pipeline`: its tables and the report; `what-if` and `import-kafka` have own modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.commands.import_kafka import import_kafka
from coterie_cli.commands.what_if import what_if
from coterie_cli.interrupts import cutting_off_interrupts
from coterie_cli.options import Json, check_number
from coterie_cli.output import (
    FAILED,
    MISUSED,
    as_json,
    count_of,
    fail,
    print_json,
    print_table,
    printable,
    say,
    showing_status,
)
from coterie_cli.spark import (
    Engine,
    require_files,
    require_tables,
    running_spark,
    with_engine,
)

if TYPE_CHECKING:
    from pyspark.sql import Row

    from coterie_pipeline.report.model import Advice
    from coterie_pipeline.streaming.follow import Progress

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Make tables and answers of what coordinators wrote down."
)

Journals = Annotated[
    list[str],
    typer.Argument(
        help="Journals' folders or files, or any path that Spark can read.", metavar="JOURNAL..."
    ),
]
Out = Annotated[
    str, typer.Option("--out", "-o", help="Where the tables go, or are; a directory of their own.")
]

#: Spark shares its threads out between alerts and new tables, so that alerts need not wait.
_FAIR: Final = {"spark.scheduler.mode": "FAIR"}

ByDay = Annotated[
    bool,
    typer.Option("--by-day", help="Divide the large tables into folders, one for each day."),
]

#: How many files are named.
_NAMED: Final = 5

#: The severities of advice, the worst first, and the colour of each.
_COLOURS: Final = {"wrong": "red", "costly": "yellow", "note": "default"}


@app.command()
@with_engine
def run(
    journals: Journals,
    out: Out,
    ends: Annotated[
        str | None,
        typer.Option(help="A CSV of partitions' ends (topic,partition,ts,offset), for the lag."),
    ] = None,
    *,
    by_day: ByDay = False,
    engine: Engine,
    json: Json = False,
) -> None:
    """Read what is new in journals, and make the tables."""
    # What was read before is read again for the tables.
    with (
        showing_status() as show,
        running_spark(
            engine,
            show,
            _layout(by_day=by_day),
            inputs=[*journals, *_made(out)],
            check=lambda engine: require_files(engine, [*journals, *([ends] if ends else [])]),
        ) as spark,
    ):
        from coterie_pipeline.batch import NoJournalsError, read_ends
        from coterie_pipeline.batch import run as run_batch
        from coterie_pipeline.report.advice import advice_of_all
        from coterie_pipeline.warehouse import UnusableDirectoryError, Warehouse

        known = None if ends is None else read_ends(spark, ends)
        try:
            done = run_batch(spark, journals, out, ends=known, on_stage=_showing(show))
        except (NoJournalsError, UnusableDirectoryError) as error:
            fail(str(error), MISUSED)
        show("reading the advice")
        warehouse = Warehouse(spark, out).fitting()
        advice = () if json else advice_of_all(warehouse.table("advice"))
        paths = warehouse.paths()
    if json:
        print_json({**as_json(done.reading), "rows": done.moment.rows, "tables": paths})
        return
    reading = done.reading
    say(f"{count_of(reading.segments, 'file')}, {reading.fresh:,} of them new or changed.")
    _tell(reading.passed_over, reading.damaged)
    unread = done.moment.rows["unread"]
    if unread:
        say(f"{count_of(unread, 'line')} can't be read: the table `unread` says which, and why.")
    print_table(
        ("TABLE", "ROWS", "PARQUET"),
        [(name, done.moment.rows[name], path) for name, path in paths.items()],
        "There are no tables.",
    )
    _print_advice(advice)


def _layout(*, by_day: bool) -> dict[str, str]:
    """The setting of Spark that says how tables are laid out; see `coterie_pipeline.layout`."""
    return {"spark.coterie.tables.byDay": "true"} if by_day else {}


def _made(out: str) -> list[str]:
    """What a directory holds, if it is there."""
    return [out] if Path(out).exists() else []


def _tell(
    passed_over: Sequence[str],
    damaged: Sequence[str],
    shorter: Sequence[str] = (),
    *,
    err: bool = False,
) -> None:
    """Name files that were not read as others were."""
    told = (
        ("not read, as their names are not a journal's", passed_over),
        ("read in part only, as the rest can't be unpacked", damaged),
        ("shorter than what was read before, so not read (begun anew? Name a new OUT)", shorter),
    )
    for what, paths in told:
        if paths:
            some = ", ".join(map(printable, paths[:_NAMED]))
            more = f", and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
            typer.echo(f"{count_of(len(paths), 'file')} {what}: {some}{more}.", err=err)


def _print_advice(advice: Sequence[Advice]) -> None:
    """Print the sentences, the worst first; one for all that are alike."""
    from rich.console import Console

    console = Console(highlight=False)
    for piece in advice:
        group = f"{piece.group}: " if piece.group else ""
        others = f" (And {piece.others}.)" if piece.others else ""
        console.print(f"{piece.severity:7}", style=_COLOURS[piece.severity], end="")
        text = printable(f"{group}{piece.sentence}{others}")
        console.print(text, markup=False, soft_wrap=True)


@app.command()
@with_engine
def follow(  # noqa: PLR0913  # one for each option
    journals: Journals,
    out: Out,
    every: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, help="Seconds between looks.", callback=check_number),
    ] = 1.0,
    refresh: Annotated[
        float,
        typer.Option(min=1, max=86_400, help="Seconds between new tables.", callback=check_number),
    ] = 60.0,
    storm: Annotated[
        str, typer.Option(help="Alert at so many rebalances of a group within so many minutes.")
    ] = "5/5",
    *,
    by_day: ByDay = False,
    engine: Engine,
    once: Annotated[bool, typer.Option("--once", help="Stop when all is read.")] = False,
    json: Json = False,
) -> None:
    """Keep tables up to date while journals grow, and tell of overlaps and storms at once."""
    settings = {**_FAIR, **_layout(by_day=by_day)}
    rebalances, minutes = _parse_storm(storm)
    with showing_status() as show, running_spark(engine, show, settings) as spark:
        from coterie_pipeline.streaming import follow as following
        from coterie_pipeline.streaming.alerts import Storm
        from coterie_pipeline.streaming.source import SourceError
        from coterie_pipeline.warehouse import UnusableDirectoryError

        options = following.FollowOptions(
            every_s=every,
            refresh_s=refresh,
            once=once,
            storm=Storm(rebalances, minutes * 60_000),
        )
        try:
            following.follow(
                spark,
                journals,
                out,
                options,
                on_alert=lambda row: _print_alert(row, json=json),
                on_progress=lambda so_far: show(_progress_text(so_far)),
                on_oddity=lambda oddity: _tell(
                    oddity.passed_over, oddity.damaged, oddity.shorter, err=json
                ),
            )
        except (following.CheckpointError, UnusableDirectoryError) as error:
            fail(str(error), MISUSED)
        except SourceError as error:
            fail(str(error), FAILED)


@app.command()
def prepare() -> None:
    """Have Java start in half the time from now on, with 200 MB in the cache folder."""
    with showing_status() as show:
        from coterie_protocol.extras import needs_extra

        with needs_extra("pipeline", "coterie_pipeline"):
            from coterie_pipeline.java import NoJavaError
            from coterie_pipeline.preparing import NotPreparedError
            from coterie_pipeline.preparing import prepare as prepare_java

        try:
            with cutting_off_interrupts():
                archive = prepare_java(_showing(show))
        except NoJavaError as error:
            fail(str(error), MISUSED)
        except NotPreparedError as error:
            fail(str(error), FAILED)
    size_mb = archive.stat().st_size / 1e6
    say(f"What Java needs for the pipeline is in {archive} ({size_mb:.0f} MB).")
    say("It is used from now on; delete it to be without it again.")


def _showing(show: Callable[[str], None]) -> Callable[[str], None]:
    """Shows stages by names that people understand."""
    return lambda stage: show(stage.removeprefix("_").replace("_", " "))


def _parse_storm(text: str) -> tuple[int, int]:
    rebalances, _, minutes = text.partition("/")
    if not (rebalances.isdecimal() and minutes.isdecimal() and int(rebalances) and int(minutes)):
        fail(f"--storm {text}: expected REBALANCES/MINUTES, such as 5/5.", MISUSED)
    return int(rebalances), int(minutes)


def _progress_text(so_far: Progress) -> str:
    behind = f", {so_far.behind_bytes / 1e6:,.1f} MB behind" if so_far.behind_bytes else ""
    return f"{so_far.lines:,} lines in {so_far.batches:,} batches{behind}"


def _print_alert(row: Row, *, json: bool) -> None:
    if json:
        from json import dumps

        typer.echo(dumps(as_json(row.asDict(recursive=True))))
        return
    # The sentence begins with the time.
    say(f"{row.kind.replace('_', ' ')}  {row.sentence}")


@app.command()
@with_engine
def report(
    tables: Annotated[str, typer.Argument(help="Where `run` or `follow` put the tables.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)
    ] = Path("report.html"),
    *,
    engine: Engine,
    json: Json = False,
) -> None:
    """Write a page that tells who owned what when, and why, as one file."""

    def check(engine: Engine) -> None:
        require_tables(engine, tables)
        if not output.absolute().parent.is_dir():
            fail(f"There is no folder {output.parent} to write to.", MISUSED)

    with showing_status() as show, running_spark(engine, show, check=check) as spark:
        from coterie_pipeline.report import write_report
        from coterie_pipeline.warehouse import NoTablesError, Warehouse

        try:
            found = Warehouse(spark, tables).fitting().tables()
        except NoTablesError as error:
            fail(str(error), MISUSED)
        show("drawing")
        try:
            summary = write_report(found, output)
        except OSError as error:
            # Of other files, Spark's among them, more is said elsewhere.
            if Path(error.filename or "").parent != output.parent:
                raise
            fail(f"{output}: {error.strerror}.", FAILED)
    if json:
        print_json(summary)
        return
    drawn = (
        f", {summary.groups_drawn} of them drawn" if summary.groups_drawn < summary.groups else ""
    )
    say(
        f"{output}: {count_of(summary.groups, 'group')}{drawn}, "
        f"{count_of(summary.rebalances, 'rebalance')}, {count_of(summary.overlaps, 'overlap')}; "
        f"{summary.size_bytes / 1e6:.1f} MB. Open it in a browser."
    )


app.command("what-if")(what_if)
app.command("import-kafka")(import_kafka)
