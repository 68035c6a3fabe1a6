"""What `coterie topics` does."""

from __future__ import annotations

from coterie_cli.doing.connecting import administer
from coterie_cli.doing.output import print_json, print_table, say
from coterie_cli.options import Target

__all__ = ["create", "delete", "grow", "list_all"]


def list_all(target: Target, *, as_json: bool) -> None:
    """Show all topics."""
    found = administer(target, lambda admin: admin.topics.list())
    if as_json:
        print_json(found)
        return
    rows = [(topic.name, topic.partitions) for topic in sorted(found, key=lambda t: t.name)]
    print_table(("TOPIC", "PARTITIONS"), rows, "There are no topics.")


def create(target: Target, name: str, partitions: int) -> None:
    """Create one."""
    administer(target, lambda admin: admin.topics.create(name, partitions=partitions))
    say(f"Created {name} with {partitions} partitions.")


def grow(target: Target, name: str, partitions: int) -> None:
    """Give one more partitions."""
    administer(target, lambda admin: admin.topics.grow(name, partitions))
    say(f"{name} has {partitions} partitions now.")


def delete(target: Target, name: str) -> None:
    """Delete one."""
    administer(target, lambda admin: admin.topics.delete(name))
    say(f"Deleted {name}.")
