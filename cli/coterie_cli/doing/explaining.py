"""Why a group rebalanced, in words; and having it rebalance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import typer

from coterie_cli.doing.connecting import ask_http
from coterie_cli.doing.output import count_of, print_json, say

__all__ = ["explained", "path_of", "rebalance", "why"]

Record = Mapping[str, Any]

_OUTCOMES = {
    "completed": "",
    "running": "It is going on.",
    "superseded": "Another one began before it was over.",
    "emptied": "It ended as the last member went.",
    "interrupted": "The node went down meanwhile.",
}


def path_of(group: str, *rest: str) -> str:
    """Where a group is asked for."""
    return "/".join(("/v1/groups", quote(group, safe=""), *rest))


def why(http: str, group: str, last: int, *, as_json: bool) -> None:
    """Explain the last rebalances."""
    found = ask_http(http, path_of(group))
    running = [found["rebalance"]] if found.get("rebalance") else []
    records = [*running, *found["rebalances"]][:last]
    if as_json:
        print_json(records)
        return
    if not records:
        say(f"{group} has not rebalanced since this node started.")
    for number, record in enumerate(records):
        if number:
            typer.echo()
        for line in explained(record):
            typer.echo(line)


def rebalance(http: str, group: str) -> None:
    """Have a group rebalance."""
    found = ask_http(http, path_of(group, "rebalance"), post=True)
    say(f"{group} rebalances: {count_of(len(found['members']), 'member')} to join again.")


def explained(record: Record) -> Iterator[str]:
    """What a rebalance was about, in a few lines."""
    at = datetime.fromtimestamp(record["started_ms"] / 1000, UTC).astimezone()
    yield (
        f"{at:%Y-%m-%d %H:%M:%S}  generation {record['generation']}: {record['because']}"
        f" ({record['detail']})."
    )
    for sentence in _sentences(record):
        yield f"  {sentence}"


def _sentences(record: Record) -> Iterator[str]:
    total_ms = record.get("total_ms")
    if total_ms is not None and record["prepare_ms"] is not None:
        phases = f"{_s(record['prepare_ms'])} until all had joined, {_s(record['complete_ms'])}"
        yield f"It took {_s(total_ms)}: {phases} until everybody knew what to do."
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
