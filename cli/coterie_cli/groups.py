"""`coterie groups`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.connected import connected
from coterie_cli.options import HTTP, Http, Json, Target

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Look at groups, and say why they rebalance.")

Name = Annotated[str, typer.Argument(help="The group.", show_default=False)]


@app.command("list")
@connected
def list_groups(
    *,
    target: Target,
    state: Annotated[list[str] | None, typer.Option(help="Only groups in this state.")] = None,
    json: Json = False,
) -> None:
    """Show all groups."""
    from coterie_cli.doing import groups  # noqa: PLC0415  # heavy

    groups.list_all(target, state or (), as_json=json)


@app.command()
@connected
def describe(
    group: Name,
    *,
    target: Target,
    json: Json = False,
) -> None:
    """Show a group's members and what each of them has."""
    from coterie_cli.doing import groups  # noqa: PLC0415  # heavy

    groups.describe(target, group, as_json=json)


@app.command()
@connected
def delete(
    group: Name,
    *,
    target: Target,
) -> None:
    """Delete a group without members, and its offsets."""
    from coterie_cli.doing import groups  # noqa: PLC0415  # heavy

    groups.delete(target, group)


@app.command()
def why(
    group: Name,
    *,
    http: Http = HTTP,
    last: Annotated[int, typer.Option(min=1, help="How many rebalances to explain.")] = 5,
    json: Json = False,
) -> None:
    """Explain the last rebalances: the cause, who was waited for, what moved, and what it cost."""
    from coterie_cli.doing import explaining  # noqa: PLC0415  # heavy

    explaining.why(http, group, last, as_json=json)


@app.command()
def watch(
    group: Name,
    *,
    http: Http = HTTP,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Watch a group live, until Ctrl-C."""
    from coterie_cli.doing import watching  # noqa: PLC0415  # heavy

    watching.watch(http, group, every)


@app.command()
def rebalance(group: Name, *, http: Http = HTTP) -> None:
    """Rebalance a group of static members now."""
    from coterie_cli.doing import explaining  # noqa: PLC0415  # heavy

    explaining.rebalance(http, group)
