"""`coterie topics`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.connected import connected
from coterie_cli.options import Json, Target

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, create, grow and delete topics.")

Name = Annotated[str, typer.Argument(help="The topic.", show_default=False)]
Partitions = Annotated[int, typer.Argument(min=1, help="How many partitions.", show_default=False)]


@app.command("list")
@connected
def list_topics(
    *,
    target: Target,
    json: Json = False,
) -> None:
    """Show all topics and how many partitions they have."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.list_all(target, as_json=json)


@app.command()
@connected
def create(
    name: Name,
    partitions: Partitions,
    *,
    target: Target,
) -> None:
    """Create a topic."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.create(target, name, partitions)


@app.command()
@connected
def grow(
    name: Name,
    partitions: Partitions,
    *,
    target: Target,
) -> None:
    """Give a topic more partitions; its groups share them out at once."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.grow(target, name, partitions)


@app.command()
@connected
def delete(
    name: Name,
    *,
    target: Target,
) -> None:
    """Delete a topic, and all groups' offsets in it."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.delete(target, name)
