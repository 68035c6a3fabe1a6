"""`coterie members`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.commands.groups import print_members
from coterie_cli.connection import administer
from coterie_cli.options import GroupName, Json, Target, with_target
from coterie_cli.output import MISUSED, fail, print_json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and remove members of a group.")


@app.command("list")
@with_target
def list_members(group: GroupName, *, target: Target, json: Json = False) -> None:
    """Show a group's members."""
    found = administer(target, lambda admin: admin.groups.describe(group))
    if json:
        print_json(found.members)
    else:
        print_members(found)


@app.command()
@with_target
def remove(
    group: GroupName,
    *,
    target: Target,
    member: Annotated[str, typer.Option(help="The member's id.")] = "",
    instance: Annotated[str | None, typer.Option(help="A static member's name instead.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is logged.")] = "removed by coterie",
) -> None:
    """Remove a member, such as a static one that will not come back."""
    if bool(member) == (instance is not None):
        fail("Say who: --member ID, or --instance NAME for a static one.", MISUSED)
    administer(
        target,
        lambda admin: admin.members.remove(
            group, member_id=member, instance_id=instance, reason=reason
        ),
    )
    typer.echo(f"Removed {instance or member} from {group}.")
