"""`coterie pipeline`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from coterie_cli.options import Json, Variable
from coterie_cli.standing_for import standing_for

__all__ = ["Engine", "app"]

app = typer.Typer(
    no_args_is_help=True, help="Make tables and answers of what coordinators wrote down."
)

Journals = Annotated[
    list[str],
    typer.Argument(
        help="Journals' folders or files, or any path that Spark can read.", metavar="JOURNAL"
    ),
]
Tables = Annotated[str, typer.Argument(help="Where `run` or `follow` put the tables.")]
Out = Annotated[str, typer.Option("--out", "-o", help="Where the tables go; a new directory.")]


@dataclass(frozen=True, slots=True)
class Engine:
    """The Spark to work with."""

    master: str
    memory: str | None
    conf: Sequence[str] | None


def _options(
    *,
    master: Annotated[
        str,
        typer.Option(
            envvar=Variable.SPARK_MASTER,
            help="Spark: local[N] for N processors of this machine, or a cluster's address.",
        ),
    ] = "local[*]",
    memory: Annotated[
        str | None, typer.Option(help="Memory for Spark in this process, such as 4g.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
) -> None:
    """What a command has in place of its `engine`."""


_sparked: Final = standing_for("engine", Engine, _options)


@app.command()
@_sparked
def run(
    journals: Journals,
    out: Out,
    ends: Annotated[
        str | None,
        typer.Option(help="A CSV of partitions' ends (topic,partition,ts,offset), for the lag."),
    ] = None,
    *,
    engine: Engine,
    json: Json = False,
) -> None:
    """Read what is new in journals, and make the tables."""
    from coterie_cli.doing import pipelines  # noqa: PLC0415  # heavy

    raise typer.Exit(pipelines.run(engine, journals, out, ends, json=json))


@app.command()
@_sparked
def follow(
    journals: Journals,
    out: Out,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    refresh: Annotated[float, typer.Option(min=1, help="Seconds between new tables.")] = 60.0,
    storm: Annotated[
        str, typer.Option(help="Alert at so many rebalances of a group within so many minutes.")
    ] = "5/5",
    *,
    engine: Engine,
    once: Annotated[bool, typer.Option("--once", help="Stop when all is read.")] = False,
    json: Json = False,
) -> None:
    """Keep tables up to date while journals grow, and tell of overlaps and storms at once."""
    from coterie_cli.doing import pipelines  # noqa: PLC0415  # heavy

    wish = pipelines.FollowWish(every, refresh, storm, once=once, json=json)
    raise typer.Exit(pipelines.follow(engine, journals, out, wish))


@app.command()
@_sparked
def report(
    tables: Tables,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)
    ] = Path("report.html"),
    *,
    engine: Engine,
    json: Json = False,
) -> None:
    """Write a page that tells who owned what when, and why, as one file."""
    from coterie_cli.doing import pipelines  # noqa: PLC0415  # heavy

    raise typer.Exit(pipelines.report(engine, tables, output, json=json))


@app.command("what-if")
@_sparked
def what_if(  # noqa: PLR0913  # each is an option
    tables: Tables,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting that is to be tried."),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="Values to try in turn; grids are combined."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group; can be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often each history is played.")] = 3,
    since: Annotated[
        datetime | None, typer.Option(help="Only what happened from then on, in UTC.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Only what happened before, in UTC.")
    ] = None,
    *,
    engine: Engine,
    json: Json = False,
) -> None:
    """Play groups' histories again with other settings, and say what would have been different."""
    from coterie_cli.doing import what_if as doing  # noqa: PLC0415  # heavy

    wish = doing.Wish(settings or [], grid or [], group or [], seeds, since, until, json=json)
    raise typer.Exit(doing.what_if(engine, tables, wish))


@app.command("import-kafka")
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
    from coterie_cli.doing import kafka_logs  # noqa: PLC0415  # heavy

    wish = kafka_logs.Wish(dump, zone, cluster, commits=commits, json=json)
    raise typer.Exit(kafka_logs.import_logs(logs, out, wish))
