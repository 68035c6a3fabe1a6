"""`coterie offsets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie_cli.connected import connected
from coterie_cli.options import Json, Target

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show, reset and delete offsets of a group.")

Name = Annotated[str, typer.Argument(help="The group.", show_default=False)]
Chosen = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:N,N-M]", help="Only these; all that it has offsets for if none."
    ),
]


@app.command()
@connected
def show(
    group: Name,
    *,
    target: Target,
    json: Json = False,
) -> None:
    """Show what a group has committed."""
    from coterie_cli.doing import offsets  # noqa: PLC0415  # heavy

    offsets.show(target, group, as_json=json)


@app.command()
@connected
def reset(
    group: Name,
    *,
    target: Target,
    to: Annotated[
        str | None, typer.Option(metavar="earliest|latest|NUMBER", help="Where to go.")
    ] = None,
    shift: Annotated[int | None, typer.Option(help="By how much to go on, or back.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A CSV file: topic, partition, offset.", dir_okay=False)
    ] = None,
    topic: Chosen = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
) -> None:
    """Set offsets of a group without members at work."""
    from coterie_cli.doing import offsets  # noqa: PLC0415  # heavy

    wish = offsets.Wish(to, shift, file, tuple(topic or ()))
    offsets.reset(target, group, wish, dry_run=dry_run)


@app.command()
@connected
def delete(
    group: Name,
    *,
    target: Target,
    topic: Chosen = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Delete offsets of topics that no member subscribes to."""
    from coterie_cli.doing import offsets  # noqa: PLC0415  # heavy

    offsets.delete(target, group, tuple(topic or ()), dry_run=dry_run)
