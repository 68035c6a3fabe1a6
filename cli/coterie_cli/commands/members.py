"""`coterie members`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from coterie_cli.commands.groups import print_members
from coterie_cli.connection import administer
from coterie_cli.nearest import did_you_mean
from coterie_cli.options import GroupName, Json, Target, check_name, with_target
from coterie_cli.output import FAILED, MISUSED, fail, print_json, say
from coterie_cli.views import member_views

if TYPE_CHECKING:
    from coterie_client.admin import Admin

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List and remove members of a group.")


@app.command("list")
@with_target
def list_members(group: GroupName, *, target: Target, json: Json = False) -> None:
    """Show a group's members."""
    found = administer(target, lambda admin: admin.groups.describe(group), group=group)
    if json:
        print_json(member_views(found))
    else:
        print_members(found)


@app.command()
@with_target
def remove(
    group: GroupName,
    *,
    target: Target,
    member: Annotated[str, typer.Option(help="The member's id.", callback=check_name)] = "",
    instance: Annotated[
        str | None, typer.Option(help="A static member's name instead.", callback=check_name)
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Why; it is logged.", callback=check_name)
    ] = "removed by coterie",
) -> None:
    """Remove a member, such as a static one that will not come back."""
    if bool(member) == (instance is not None):
        fail("Say who: --member ID, or --instance NAME for a static one.", MISUSED)
    name = instance or member

    async def work(admin: Admin) -> None:
        # A missing group has no members either, and that is what the server would say.
        known = await admin.members.list(group)
        names = [(each.member_id if instance is None else each.instance_id) for each in known]
        if name not in names:
            known_names = [each for each in names if each is not None]
            fail(f"{group} has no member {name!r}{did_you_mean(name, known_names)}", FAILED)
        await admin.members.remove(group, member_id=member, instance_id=instance, reason=reason)

    administer(target, work, group=group)
    say(f"Removed {name} from {group}.")
