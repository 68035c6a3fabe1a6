"""`coterie groups`: those of Kafka's own API first, then those that ask a node over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie_cli.connection import (
    access_to,
    administer,
    ask_about_group,
    find_groups,
    http_address,
    http_addresses,
)
from coterie_cli.group_operations import add_operations
from coterie_cli.nearest import did_you_mean
from coterie_cli.operation_text import operation_sentences
from coterie_cli.options import GroupName, Json, Target, check_number, with_target
from coterie_cli.output import (
    MISUSED,
    count_of,
    fail,
    print_json,
    print_json_rows,
    print_prose,
    print_table,
    say,
    terminal_columns,
    time_text,
)
from coterie_cli.rebalances import explain, known_since
from coterie_cli.views import group_view, member_views, operation_views
from coterie_cli.work_text import absences, moves, work_text

if TYPE_CHECKING:
    from coterie_client.admin import GroupDescription

__all__ = ["app", "print_members"]

app = typer.Typer(no_args_is_help=True, help="Look at groups, and say why they rebalance.")


#: Kafka's names of the states; those below Dead are of its newer groups only.
_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Empty",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Initializing",
)


def _states(given: list[str] | None) -> list[str] | None:
    """The states by their own names, however they were written."""
    by_letters = {state.lower(): state for state in _STATES}
    for state in given or ():
        if state.lower() not in by_letters:
            known = did_you_mean(state, _STATES)
            hint = f". There are {', '.join(_STATES)}." if known == "." else known
            fail(f"There is no state {state!r}{hint}", MISUSED)
    return given and [by_letters[state.lower()] for state in given]


def _complete_state(incomplete: str) -> list[str]:
    return [state for state in _STATES if state.startswith(incomplete)]


States = Annotated[
    list[str] | None,
    typer.Option(
        help="Only groups in this state.", callback=_states, autocompletion=_complete_state
    ),
]


@app.command("list")
@with_target
def list_groups(
    *,
    target: Target,
    state: States = None,
    json: Json = False,
) -> None:
    """Show all groups."""
    found = find_groups(target, state or ())
    if json:
        print_json_rows(found)
        return
    columns = ("group", "state", "type", "protocol", "generation", "members")
    rows = ([each[column] for column in columns] for each in found)
    print_table([column.upper() for column in columns], rows, "There are no groups.")


@app.command()
@with_target
def describe(group: GroupName, *, target: Target, json: Json = False) -> None:
    """Show a group's members and what each of them has."""
    found = administer(target, lambda admin: admin.groups.describe(group), group=group)
    if json:
        print_json(group_view(found))
        return
    assignor = f", {found.protocol}" if found.protocol else ""
    say(f"{found.group_id}: {found.state}{assignor}, coordinated by {found.coordinator}")
    for sentence in operation_sentences(operation_views(found)):
        print_prose(sentence, terminal_columns())
    say()
    print_members(found)


def print_members(group: GroupDescription) -> None:
    """Print a group's members and what they have."""
    views = member_views(group)
    headings = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"]
    rows = [
        [each["member"], each["instance"] or "", each["client_id"], each["host"], work_text(each)]
        for each in views
    ]
    if any(each["address"] is not None or each["labels"] for each in views):
        headings.insert(-1, "ADDRESS")
        for row, each in zip(rows, views, strict=True):
            row.insert(-1, _told_text(each))
    if any(each["away_since_ms"] is not None for each in views):
        headings.insert(-1, "AWAY SINCE")
        for row, each in zip(rows, views, strict=True):
            since_ms = each["away_since_ms"]
            row.insert(-1, "" if since_ms is None else time_text(since_ms))
    print_table(headings, rows, "It has no members.", is_long=True)
    if still_to_move := moves(views):
        say()
        print_prose(f"Still to move: {still_to_move}.", terminal_columns())


def _told_text(member: Mapping[str, Any]) -> str:
    """What a member tells of itself: `10.0.0.7:8080 zone=eu-1a`."""
    labels = (f"{name}={value}" for name, value in member["labels"].items())
    return " ".join(filter(None, (member["address"], *labels)))


@app.command()
@with_target
def delete(group: GroupName, *, target: Target) -> None:
    """Delete a group without members, and its offsets."""
    administer(target, lambda admin: admin.groups.delete(group), group=group)
    say(f"Deleted {group} and its offsets.")


# -- why -------------------------------------------------------------------------------------------


@app.command()
@with_target
def why(
    group: GroupName,
    *,
    target: Target,
    last: Annotated[int, typer.Option(min=1, help="How many rebalances to explain.")] = 5,
    json: Json = False,
) -> None:
    """Explain the last rebalances: the cause, who was waited for, what moved, and what it cost."""
    found = ask_about_group(target, group)
    running = [found["rebalance"]] if found.get("rebalance") else []
    records = [*running, *found["rebalances"]][:last]
    if json:
        print_json(records)
        return
    columns = terminal_columns()
    standing = operation_sentences(found.get("operations", ()))  # nodes of before don't tell
    for sentence in (*standing, *absences(found["members"])):
        print_prose(sentence, columns)
        say()
    for number, record in enumerate(records):
        if number:
            say()
        for line in explain(record):
            print_prose(line, columns)
    if sentence := known_since(group, found["history"], records, wanted=last):
        if records:
            say()
        print_prose(sentence, columns)


# -- watch -----------------------------------------------------------------------------------------


@app.command("watch")
@with_target
def watch_group(
    group: GroupName,
    *,
    target: Target,
    every: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, help="Seconds between two looks.", callback=check_number),
    ] = 1.0,
) -> None:
    """Watch a group live, until Ctrl-C; outside of a terminal, print a line for each change."""
    from coterie_cli.watching import AnyNode, watch

    first = ask_about_group(target, group)
    address = http_address(target, group)
    nodes = AnyNode(
        group,
        address,
        lambda timeout_s: http_addresses(replace(target, timeout_s=timeout_s)),
        target.timeout_s,
        lambda other: access_to(target, other),
    )
    watch(nodes.look, first, every_s=every)


# -- rebalance -------------------------------------------------------------------------------------


@app.command()
@with_target
def rebalance(group: GroupName, *, target: Target) -> None:
    """Rebalance a group of static members now."""
    found = ask_about_group(target, group, "rebalance", post=True)
    present = [each for each in found["members"] if each.get("away_since_ms") is None]
    say(f"{group} rebalances: {count_of(len(present), 'member')} to join again.")


add_operations(app)
