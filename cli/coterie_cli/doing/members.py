"""What `coterie members` does."""

from __future__ import annotations

from coterie_cli.doing.connecting import MISUSED, administer, give_up
from coterie_cli.doing.groups import show_members
from coterie_cli.doing.output import print_json, say
from coterie_cli.options import Target

__all__ = ["list_all", "remove"]


def list_all(target: Target, group: str, *, as_json: bool) -> None:
    """Show a group's members."""
    found = administer(target, lambda admin: admin.groups.describe(group))
    if as_json:
        print_json(found.members)
    else:
        show_members(found)


def remove(target: Target, group: str, member: str, instance: str | None, reason: str) -> None:
    """Remove one."""
    if bool(member) == (instance is not None):
        give_up("Say who: --member ID, or --instance NAME for a static one.", MISUSED)
    administer(
        target,
        lambda admin: admin.members.remove(
            group, member_id=member, instance_id=instance, reason=reason
        ),
    )
    say(f"Removed {instance or member} from {group}.")
