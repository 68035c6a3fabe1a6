"""`coterie groups`: those of Kafka's own API first, then those that ask a node over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie_cli.connection import administer, ask_http
from coterie_cli.options import HTTP, GroupName, Http, Json, Target, with_target
from coterie_cli.output import count_of, print_json, print_table, time_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from coterie_client.admin import GroupDescription

__all__ = ["app", "print_members"]

#: What a node tells over HTTP about a group or one of its rebalances.
Record = Mapping[str, Any]

app = typer.Typer(no_args_is_help=True, help="Look at groups, and say why they rebalance.")


@app.command("list")
@with_target
def list_groups(
    *,
    target: Target,
    state: Annotated[list[str] | None, typer.Option(help="Only groups in this state.")] = None,
    json: Json = False,
) -> None:
    """Show all groups."""
    found = administer(target, lambda admin: admin.groups.list(states=state or ()))
    if json:
        print_json(found)
        return
    rows = [(each.group_id, each.state, each.protocol_type) for each in found]
    print_table(("GROUP", "STATE", "TYPE"), sorted(rows), "There are no groups.")


@app.command()
@with_target
def describe(group: GroupName, *, target: Target, json: Json = False) -> None:
    """Show a group's members and what each of them has."""
    found = administer(target, lambda admin: admin.groups.describe(group))
    if json:
        print_json(found)
        return
    assignor = f", {found.protocol}" if found.protocol else ""
    typer.echo(f"{found.group_id}: {found.state}{assignor}, coordinated by {found.coordinator}\n")
    print_members(found)


def print_members(group: GroupDescription) -> None:
    """Print a group's members and what they have."""
    from coterie_client.reporting import brief

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


@app.command()
@with_target
def delete(group: GroupName, *, target: Target) -> None:
    """Delete a group without members, and its offsets."""
    administer(target, lambda admin: admin.groups.delete(group))
    typer.echo(f"Deleted {group} and its offsets.")


def _path_of(group: str, *rest: str) -> str:
    from urllib.parse import quote

    return "/".join(("/v1/groups", quote(group, safe=""), *rest))


# -- why -------------------------------------------------------------------------------------------


_OUTCOMES = {
    "completed": "",
    "running": "It is going on.",
    "superseded": "Another one began before it was over.",
    "emptied": "It ended as the last member went.",
    "interrupted": "The node went down meanwhile.",
}


@app.command()
def why(
    group: GroupName,
    *,
    http: Http = HTTP,
    last: Annotated[int, typer.Option(min=1, help="How many rebalances to explain.")] = 5,
    json: Json = False,
) -> None:
    """Explain the last rebalances: the cause, who was waited for, what moved, and what it cost."""
    found = ask_http(http, _path_of(group))
    running = [found["rebalance"]] if found.get("rebalance") else []
    records = [*running, *found["rebalances"]][:last]
    if json:
        print_json(records)
        return
    for number, record in enumerate(records):
        if number:
            typer.echo()
        for line in _explain(record):
            typer.echo(line)
    if len(records) < last:
        _print_beginning(group, found["history"], is_first=not records)


def _print_beginning(group: str, history: Record, *, is_first: bool) -> None:
    """Say why there are no more rebalances to explain, unless there never were any."""
    if history["since_ms"] is None:
        if is_first:
            typer.echo(f"{group} has never rebalanced.")
        return
    since = time_text(history["since_ms"])
    if is_first:
        typer.echo(f"{group} has not rebalanced since {since}. {history['message']}")
    else:
        typer.echo(f"\nNothing is known of the time before {since}. {history['message']}")


def _explain(record: Record) -> Iterator[str]:
    """A few lines about one rebalance."""
    yield (
        f"{time_text(record['started_ms'])}  generation {record['generation']}: "
        f"{record['because']} ({record['detail']})."
    )
    for sentence in _sentences(record):
        yield f"  {sentence}"


def _sentences(record: Record) -> Iterator[str]:
    total_ms = record.get("total_ms")
    if total_ms is not None and record["prepare_ms"] is not None:
        phases = f"{_s(record['prepare_ms'])} until all had joined, {_s(record['complete_ms'])}"
        yield f"It took {_s(total_ms)}: {phases} until all had their assignments."
    if _OUTCOMES.get(record["outcome"]):
        yield _OUTCOMES[record["outcome"]]
    if record["awaited"]["count"]:
        waited = count_of(record["awaited"]["count"], "member")
        yield f"Waited for {waited}: {_names(record['awaited'])}."
    for late in record["late"]:
        yield f"{_late(late)}."
    if record["dropped"]["count"]:
        yield f"Dropped, as they did not join in time: {_names(record['dropped'])}."
    for verb, key in (("Came", "came"), ("Went", "went")):
        if record[key]["count"]:
            yield f"{verb}: {_names(record[key])}."
    yield _cost(record)
    if record["needs_rejoin"]:
        yield "Members were asked to join once more, to get what others had to give up first."


def _cost(record: Record) -> str:
    stopped = record["stopped_partition_seconds"]
    moved, revoked = count_of(record["moved"], "partition"), record["revoked"]
    cost = f"{moved} moved, {revoked} taken from their owners"
    return cost + ("." if stopped is None else f"; {stopped:.1f} partition-seconds stood still.")


def _late(late: Record) -> str:
    name = f"{late['member']} ({late['instance']})" if late["instance"] else late["member"]
    host = f" at {late['host'].lstrip('/')}" if late["host"] else ""
    end = "joined" if late["how"] == "joined" else f"did not join ({late['how']})"
    return f"{name}{host} {end} after {_s(late['after_ms'])}"


def _names(some: Record) -> str:
    left = some["count"] - len(some["names"])
    return ", ".join(some["names"]) + (f" and {left} more" if left else "")


def _s(milliseconds: int | None) -> str:
    return "?" if milliseconds is None else f"{milliseconds / 1000:.3g} s"


# -- watch -----------------------------------------------------------------------------------------


_STYLES = {"Stable": "green", "Empty": "dim"}

#: How many rebalances are explained below the members.
_EXPLAINED = 3


@app.command()
def watch(
    group: GroupName,
    *,
    http: Http = HTTP,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Watch a group live, until Ctrl-C."""
    import time

    from rich.console import Console
    from rich.live import Live

    path = _path_of(group)
    first = ask_http(http, path)
    with Live(_picture(first), console=Console(highlight=False), auto_refresh=False) as live:
        try:
            while True:
                live.update(_picture(ask_http(http, path)), refresh=True)
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _picture(found: Record) -> RenderableType:
    """A group as it is now."""
    from rich.console import Group
    from rich.text import Text

    state = found["state"]
    head = Text(f"{found['group']}  ", style="bold")
    head.append(state, style=_STYLES.get(state, "yellow"))
    head.append(f"  generation {found['generation']}  {found['protocol'] or 'no protocol yet'}")
    parts: list[RenderableType] = [head, _member_table(found["members"])]
    waiting = found["awaiting"]
    if waiting and waiting["members"]:
        parts.append(Text(f"waits for {', '.join(waiting['members'])}", style="yellow"))
    parts += (
        Text("\n".join(_explain(record)), style="dim")
        for record in found["rebalances"][:_EXPLAINED]
    )
    return Group(*parts)


def _member_table(members: list[Record]) -> Table:
    import time

    from rich.table import Table

    from coterie_client.reporting import brief

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("MEMBER", "HOST", "HEARD OF", "PARTITIONS"):
        table.add_column(heading, overflow="fold")
    now_ms = time.time() * 1000
    for member in sorted(members, key=lambda each: str(each["member"])):
        silent_s = max(0.0, (now_ms - member["last_seen_ms"]) / 1000)
        heard = "waits" if member["parked"] else f"{silent_s:.1f} s ago"
        owned = member["owned"]
        pairs = [(t, n) for t, numbers in (owned or {}).items() for n in numbers]
        shown = "?" if owned is None else brief(pairs) or "-"
        name = member["instance"] or member["member"]
        table.add_row(name, member["host"].lstrip("/"), heard, shown)
    return table


# -- rebalance -------------------------------------------------------------------------------------


@app.command()
def rebalance(group: GroupName, *, http: Http = HTTP) -> None:
    """Rebalance a group of static members now."""
    found = ask_http(http, _path_of(group, "rebalance"), post=True)
    typer.echo(f"{group} rebalances: {count_of(len(found['members']), 'member')} to join again.")
