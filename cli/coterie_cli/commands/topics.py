"""`coterie topics`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.connection import administer
from coterie_cli.options import Json, Target, TopicName, check_name, with_target
from coterie_cli.output import count_of, print_json, print_table, say
from coterie_cli.views import topic_view

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, create, grow and delete topics.")

NewName = Annotated[str, typer.Argument(help="The topic.", show_default=False, callback=check_name)]
Partitions = Annotated[
    int,
    typer.Argument(min=1, max=2**31 - 1, help="How many partitions.", show_default=False),
]


@app.command("list")
@with_target
def list_topics(*, target: Target, json: Json = False) -> None:
    """Show all topics and how many partitions they have."""
    found = administer(target, lambda admin: admin.topics.list())
    if json:
        print_json([topic_view(topic) for topic in found])
        return
    rows = [(topic.name, topic.partitions) for topic in sorted(found, key=lambda t: t.name)]
    print_table(("TOPIC", "PARTITIONS"), rows, "There are no topics.")


@app.command()
@with_target
def create(name: NewName, partitions: Partitions, *, target: Target) -> None:
    """Create a topic."""
    administer(target, lambda admin: admin.topics.create(name, partitions=partitions))
    say(f"Created {name} with {count_of(partitions, 'partition')}.")


@app.command()
@with_target
def grow(name: TopicName, partitions: Partitions, *, target: Target) -> None:
    """Give a topic more partitions; its groups share them out at once."""
    administer(target, lambda admin: admin.topics.grow(name, partitions), topic=name)
    say(f"{name} has {count_of(partitions, 'partition')} now.")


@app.command()
@with_target
def delete(name: TopicName, *, target: Target) -> None:
    """Delete a topic, and all groups' offsets in it."""
    administer(target, lambda admin: admin.topics.delete(name), topic=name)
    say(f"Deleted {name}.")
