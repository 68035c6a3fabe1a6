"""What `coterie pipeline what-if` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer

from coterie_cli.doing.connecting import FAILED, MISUSED, give_up
from coterie_cli.doing.output import print_json, print_table
from coterie_cli.doing.sparking import progress, started
from coterie_cli.pipeline import Engine

__all__ = ["Wish", "what_if"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be tried, and on what."""

    sets: Sequence[str]
    grids: Sequence[str]
    groups: Sequence[str]
    seeds: int
    since: datetime | None
    until: datetime | None
    json: bool


def what_if(engine: Engine, tables: str, wish: Wish) -> int:
    """Play the histories, and print the answers."""
    with progress() as tell, started(engine, tell) as spark:
        # An extra.
        from coterie_pipeline.steps.parsing import CONTROL  # noqa: PLC0415
        from coterie_pipeline.warehouse import NoTablesError, Warehouse  # noqa: PLC0415
        from coterie_pipeline.whatif import Bounds, Plan  # noqa: PLC0415
        from coterie_pipeline.whatif import what_if as replay  # noqa: PLC0415

        try:
            plan = Plan.parse(wish.sets, wish.grids, groups=wish.groups, seeds=wish.seeds)
            warehouse = Warehouse(spark, tables)
            warehouse.paths()
        except (ValueError, NoTablesError) as error:
            give_up(f"{str(error).rstrip('.')}.", MISUSED)
        tell("playing")
        bounds = Bounds(since_ms=_ms(wish.since), until_ms=_ms(wish.until))
        found = replay(spark, warehouse.bronze((CONTROL,)), plan, bounds)
        rows = [row.asDict(recursive=True) for row in found.collect()]
    unknown = set(wish.groups) - {row["group"] for row in rows}
    if unknown or not rows:
        give_up(f"There is no group {', '.join(sorted(unknown)) or 'at all'} in {tables}.", FAILED)
    if wish.json:
        print_json(rows)
    else:
        _tell(rows)
    return 0


def _tell(rows: Sequence[dict[str, Any]]) -> None:
    """Group by group: the settings side by side, and what follows from that."""
    from coterie_pipeline.whatif import HEADINGS, LIMITS, answers  # noqa: PLC0415  # an extra

    for answer in answers(rows):
        typer.secho(f"{answer.group}, {answer.title}", bold=True)
        if answer.rows:
            headings = [heading.upper() for heading in HEADINGS]
            print_table(headings, answer.rows, "")
        for sentence in (*answer.sentences, *answer.notes):
            typer.echo(f"  {sentence}")
        typer.echo()
    typer.echo("What a replay can't know:")
    for limit in LIMITS:
        typer.echo(f"  {limit}")


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.replace(tzinfo=UTC).timestamp() * 1000)
