"""`coterie members`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.connected import connected
from coterie_cli.options import Json, Target

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and remove members of a group.")

Name = Annotated[str, typer.Argument(help="The group.", show_default=False)]


@app.command("list")
@connected
def list_members(
    group: Name,
    *,
    target: Target,
    json: Json = False,
) -> None:
    """Show a group's members."""
    from coterie_cli.doing import members  # noqa: PLC0415  # heavy

    members.list_all(target, group, as_json=json)


@app.command()
@connected
def remove(
    group: Name,
    *,
    target: Target,
    member: Annotated[str, typer.Option(help="The member's id.")] = "",
    instance: Annotated[str | None, typer.Option(help="A static member's name instead.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is logged.")] = "removed by coterie",
) -> None:
    """Remove a member, such as a static one that will not come back."""
    from coterie_cli.doing import members  # noqa: PLC0415  # heavy

    members.remove(target, group, member, instance, reason)
