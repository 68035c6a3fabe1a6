"""`coterie pipeline what-if`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie_cli.nearest import did_you_mean
from coterie_cli.options import Json
from coterie_cli.output import (
    FAILED,
    MISUSED,
    fail,
    print_json,
    print_table,
    printable,
    say,
    showing_status,
)
from coterie_cli.spark import Engine, require_tables, running_spark, with_engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from coterie_pipeline.whatif import Plan

__all__ = ["what_if"]


@with_engine
def what_if(  # noqa: PLR0913  # each is an option
    tables: Annotated[str, typer.Argument(help="Where `run` or `follow` put the tables.")],
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
    groups = group or []

    def check(engine: Engine) -> None:
        _parsed(settings, grid, groups, seeds)
        require_tables(engine, tables)

    with showing_status() as show, running_spark(engine, show, check=check) as spark:
        from coterie_pipeline.steps.parsing import CONTROL
        from coterie_pipeline.warehouse import NoTablesError, Warehouse
        from coterie_pipeline.whatif import Bounds
        from coterie_pipeline.whatif import what_if as replay

        warehouse = Warehouse(spark, tables)
        try:
            warehouse.paths()
        except NoTablesError as error:
            fail(str(error), MISUSED)
        lines = warehouse.bronze((CONTROL,))
        _require_groups(lines, groups, tables)
        show("playing")
        bounds = Bounds(since_ms=_ms(since), until_ms=_ms(until))
        found = replay(spark, lines, _parsed(settings, grid, groups, seeds), bounds)
        rows = [row.asDict(recursive=True) for row in found.collect()]
    if not rows:
        fail(f"There is no group at all in {tables}.", FAILED)
    if json:
        print_json(rows)
    else:
        _print_answers(rows)


def _parsed(
    settings: Sequence[str] | None, grid: Sequence[str] | None, groups: Sequence[str], seeds: int
) -> Plan:
    from coterie_pipeline.whatif import Plan

    try:
        return Plan.parse(settings or [], grid or [], groups=groups, seeds=seeds)
    except ValueError as error:
        fail(f"{str(error).rstrip('.')}.", MISUSED)


def _require_groups(lines: DataFrame, groups: Sequence[str], tables: str) -> None:
    """Refuse groups of which no line tells."""
    if not groups:
        return
    known = {row.group for row in lines.select("group").distinct().collect()} - {"", None}
    for name in groups:
        if name not in known:
            end = did_you_mean(name, sorted(known))
            fail(f"There is no group {name} in {tables}{end}", FAILED)


def _print_answers(rows: Sequence[dict[str, Any]]) -> None:
    """Group by group: the settings side by side, and what follows from that."""
    from coterie_pipeline.whatif import HEADINGS, LIMITS, answers

    for answer in answers(rows):
        typer.secho(printable(f"{answer.group}, {answer.title}"), bold=True)
        if answer.rows:
            headings = [heading.upper() for heading in HEADINGS]
            print_table(headings, answer.rows, "")
        for sentence in (*answer.sentences, *answer.notes):
            say(f"  {sentence}")
        say()
    say("What a replay can't know:")
    for limit in LIMITS:
        say(f"  {limit}")


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.replace(tzinfo=UTC).timestamp() * 1000)
