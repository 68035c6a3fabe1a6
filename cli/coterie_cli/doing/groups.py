"""What `coterie groups` does with Kafka's own API."""

from __future__ import annotations

from collections.abc import Sequence

from coterie_cli.doing.connecting import administer
from coterie_cli.doing.output import print_json, print_table, say
from coterie_cli.options import Target
from coterie_client.admin import GroupDescription
from coterie_client.reporting import brief

__all__ = ["delete", "describe", "list_all", "show_members"]


def list_all(target: Target, states: Sequence[str], *, as_json: bool) -> None:
    """Show all groups."""
    found = administer(target, lambda admin: admin.groups.list(states=states))
    if as_json:
        print_json(found)
        return
    rows = [(each.group_id, each.state, each.protocol_type) for each in found]
    print_table(("GROUP", "STATE", "TYPE"), sorted(rows), "There are no groups.")


def describe(target: Target, group: str, *, as_json: bool) -> None:
    """Show one group."""
    found = administer(target, lambda admin: admin.groups.describe(group))
    if as_json:
        print_json(found)
        return
    assignor = f", {found.protocol}" if found.protocol else ""
    say(f"{found.group_id}: {found.state}{assignor}, coordinated by {found.coordinator}\n")
    show_members(found)


def show_members(group: GroupDescription) -> None:
    """Show a group's members and what they have."""
    rows = sorted(
        (
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.host.lstrip("/"),
            "?" if member.partitions is None else brief(member.partitions),
        )
        for member in group.members
    )
    headings = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
    print_table(headings, rows, "It has no members.")


def delete(target: Target, group: str) -> None:
    """Delete one."""
    administer(target, lambda admin: admin.groups.delete(group))
    say(f"Deleted {group} and its offsets.")
