"""Rebalances in words, from what a node tells of them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from coterie_cli.output import count_of, time_text

__all__ = ["Record", "explain", "known_since"]

#: What a node tells over HTTP about a group or one of its rebalances.
Record = Mapping[str, Any]

_OUTCOMES: Final = {
    "completed": "",
    "running": "It is going on.",
    "superseded": "Another one began before it was over.",
    "emptied": "It ended as the last member went.",
    "interrupted": "The node went down meanwhile.",
}


def explain(record: Record) -> Iterator[str]:
    """Explain one rebalance in a few lines."""
    yield (
        f"{time_text(record['started_ms'])}  generation {record['generation']}: "
        f"{record['because']} ({record['detail']})."
    )
    for sentence in _sentences(record):
        yield f"  {sentence}"


def known_since(group: str, history: Record, shown: Sequence[Record], *, wanted: int) -> str:
    """Say from when on all are known, if more are wanted or some of those shown are older."""
    since_ms, message = history["since_ms"], history["message"]
    if since_ms is None:
        return "" if shown else f"{group} has never rebalanced."
    since = time_text(since_ms)
    if not shown:
        return f"{group} has not rebalanced since {since}. {message}"
    if history["limit"] == "missing" and any(each["started_ms"] < since_ms for each in shown):
        return f"Not all is known of the time before {since}. {message}"
    return f"Nothing is known of the time before {since}. {message}" if len(shown) < wanted else ""


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
    if record.get("waiting_moves", {}).get("count"):
        yield f"Still to move: {_names(record['waiting_moves'])}."
    if record["needs_rejoin"]:
        yield "Members were asked to join once more, to get what others had to give up first."


def _cost(record: Record) -> str:
    stopped = record["stopped_partition_seconds"]
    moved, revoked = count_of(record["moved"], "partition"), record["revoked"]
    cost = f"{moved} moved, {revoked} taken from their owners"
    if stopped is None:
        return f"{cost}."
    # Nodes of earlier versions do not tell it.
    silent = record.get("silent_partition_seconds")
    before = f", after {silent:.1f} in which their owners were silent" if silent else ""
    return f"{cost}; {stopped:.1f} partition-seconds stood still{before}."


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
