"""`coterie topics`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.options import BOOTSTRAP, Bootstrap, CaFile, Json, Mechanism, Target, TlsOn, User

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, create, grow and delete topics.")

Name = Annotated[str, typer.Argument(help="The topic.", show_default=False)]
Partitions = Annotated[int, typer.Argument(min=1, help="How many partitions.", show_default=False)]


@app.command("list")
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP,
    *,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
    json: Json = False,
) -> None:
    """Show all topics and how many partitions they have."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.list_all(Target(bootstrap, tls, ca_file, user, mechanism), as_json=json)


@app.command()
def create(
    name: Name,
    partitions: Partitions,
    bootstrap: Bootstrap = BOOTSTRAP,
    *,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
) -> None:
    """Create a topic."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.create(Target(bootstrap, tls, ca_file, user, mechanism), name, partitions)


@app.command()
def grow(
    name: Name,
    partitions: Partitions,
    bootstrap: Bootstrap = BOOTSTRAP,
    *,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
) -> None:
    """Give a topic more partitions; its groups share them out at once."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.grow(Target(bootstrap, tls, ca_file, user, mechanism), name, partitions)


@app.command()
def delete(
    name: Name,
    bootstrap: Bootstrap = BOOTSTRAP,
    *,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
) -> None:
    """Delete a topic, and all groups' offsets in it."""
    from coterie_cli.doing import topics  # noqa: PLC0415  # heavy

    topics.delete(Target(bootstrap, tls, ca_file, user, mechanism), name)
