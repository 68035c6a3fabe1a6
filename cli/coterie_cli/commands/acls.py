"""`coterie acls`, with the options of `kafka-acls`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from coterie_cli.acl_choices import Choice, with_acls
from coterie_cli.completion import complete_group, complete_topic
from coterie_cli.connection import administer
from coterie_cli.options import Json, Target, check_name, with_target
from coterie_cli.output import (
    FAILED,
    MISUSED,
    capitalized,
    count_of,
    fail,
    print_json,
    print_table,
    say,
)
from coterie_cli.views import acl_view

if TYPE_CHECKING:
    from coterie_client.admin import Acl, Admin

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Say who may do what.")

T = TypeVar("T")

#: As Kafka's brokers do, the server takes principals of other kinds as well, which nothing matches.
_OF_CLIENTS = "User:"
_HEADINGS = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "PERMISSION", "OPERATION")


@app.command("list")
@with_target
def list_acls(
    *,
    target: Target,
    principal: Annotated[
        str | None,
        typer.Option(metavar="User:NAME", help="Only those about one.", callback=check_name),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help="Only those about a topic.", autocompletion=complete_topic, callback=check_name
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Only those about a group.", autocompletion=complete_group, callback=check_name
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Only those about the cluster.")
    ] = False,
    pattern: Annotated[
        str,
        typer.Option(
            "--resource-pattern-type",
            metavar="TYPE",
            help="literal, prefixed, any, or match, which finds all that concern the name.",
        ),
    ] = "any",
    json: Json = False,
) -> None:
    """Show ACLs: all of them, or those about something."""
    from coterie_client.admin import AclFilter

    about = {"Topic": topic, "Group": group, "Cluster": "kafka-cluster" if cluster else None}
    chosen: list[tuple[str, str | None]] = [
        (kind, name) for kind, name in about.items() if name is not None
    ]
    chosen = chosen or [("Any", None)]
    filters = _made(
        lambda: [
            AclFilter(principal, resource=kind, name=name, pattern=pattern) for kind, name in chosen
        ]
    )

    async def work(admin: Admin) -> list[Acl]:
        return [acl for each in filters for acl in await admin.acls.list(each)]

    found = administer(target, work)
    if json:
        print_json([acl_view(acl) for acl in found])
    else:
        _print(found, "There are no such ACLs." if filters != [AclFilter()] else _NONE)


_NONE = "There are no ACLs."


@app.command()
@with_target
@with_acls
def add(*, acls: Choice, target: Target) -> None:
    """Add ACLs; those that exist already stay as they are."""
    wanted = _made(acls.acls)
    administer(target, lambda admin: admin.acls.create(*wanted))
    for acl in wanted:
        say(f"{acl}.")
    for principal in dict.fromkeys(acl.principal for acl in wanted):
        if not principal.startswith(_OF_CLIENTS):
            say(f"{principal} is no client of a Coterie node: those are User:NAME.", err=True)


@app.command()
@with_target
@with_acls
def remove(
    *,
    acls: Choice,
    target: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Remove ACLs; without a principal, those about everyone, and without an operation, of all."""
    filters = _made(acls.filters)

    async def look(admin: Admin) -> list[Acl]:
        return [acl for each in filters for acl in await admin.acls.list(each)]

    async def delete(admin: Admin) -> list[Acl]:
        deleted = (await admin.acls.delete_many(filters)).get_all()
        return [acl for these in deleted.values() for acl in these]

    gone = list(dict.fromkeys(administer(target, look if dry_run else delete)))
    if not gone:
        fail("There are no such ACLs.", FAILED)
    _print(gone, "")
    if dry_run:
        say("Nothing was removed: this was a dry run.")
    else:
        say(f"Removed {count_of(len(gone), 'ACL')}.")


def _made(make: Callable[[], T]) -> T:
    from coterie_client.errors import ConfigurationError

    try:
        return make()
    except ConfigurationError as error:
        fail(f"{capitalized(str(error).rstrip('.'))}.", MISUSED)


def _print(acls: Iterable[Acl], empty: str) -> None:
    rows = [
        (a.resource, a.name, a.pattern, a.principal, a.host, a.permission, a.operation)
        for a in acls
    ]
    print_table(_HEADINGS, [tuple(map(str, row)) for row in rows], empty)
