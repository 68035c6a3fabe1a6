"""What an answer about the past says, and what the rows of the tables do, in the same form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coterie_protocol.journal import Line, TopicChanged, read_values, write_line
from coterie_protocol.replay import GroupLines, Source, replay_group
from coterie_server.journal.backwards import FoundLine
from coterie_server.past import KINDS, Asked, PastLimit, collect, past_json

__all__ = ["NOW", "Answer", "Table", "answered", "numbers", "owners_at", "table_owners", "tables"]

Answer = Mapping[str, Any]
Table = Mapping[str, list[dict[str, Any]]]

#: Later than all that is ever journalled here.
NOW: Final = 4_000_000_000_000

_KINDS: Final = {each.kind for each in KINDS} | {TopicChanged.kind}


def numbers(text: str) -> set[int]:
    """Ranges as numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def lines_of(lines: Iterable[Line], group: str) -> list[Line]:
    """The lines about a group, or about topics, that say who owned what."""
    return [line for line in lines if line.event.kind in _KINDS and line.event.group in ("", group)]


def tables(lines: Iterable[Line], group: str, horizon_ms: int) -> Table:
    """The rows that the pipeline's tables have of a group."""
    sources, deleted = [], dict[str, list[int]]()
    for line in lines_of(lines, group):
        if isinstance(line.event, TopicChanged):
            if line.event.change == "deleted":
                deleted.setdefault(line.event.topic, []).append(line.ts)
            continue
        values = read_values(write_line(line))
        sources.append(Source(line.node, line.seq, line.ts, values))
    sources.sort(key=lambda each: (each.node, each.seq))
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in replay_group(group, GroupLines(sources), deleted, horizon_ms):
        found.setdefault(name, []).append(row)
    return found


def answered(
    lines: Iterable[Line], group: str, since_ms: int = 0, until_ms: int = NOW
) -> dict[str, Any]:
    """What is answered about a group's past, where a journal has these lines."""
    newest_first = sorted(lines_of(lines, group), key=lambda line: (-line.ts, -line.seq))
    found = (FoundLine(line.event.kind, write_line(line)) for line in newest_first)
    collected = collect(found, since_ms, lambda: None)
    asked = Asked(group, since_ms, until_ms)
    values: dict[str, Any] = json.loads(past_json(asked, collected, (0, PastLimit.JOURNAL)))
    return values


Owners = dict[tuple[str, int], set[str]]


def owners_at(answer: Answer, at_ms: int) -> Owners:
    """Who owned what at a moment, by an answer."""
    owners: Owners = {}
    for period in answer["generations"]:
        if period["from_ms"] <= at_ms and (period["until_ms"] or NOW) > at_ms:
            for member in period["members"]:
                for topic, text in member["owned"].items():
                    for number in numbers(text):
                        owners.setdefault((topic, number), set()).add(member["member"])
    for span in spans_at(answer["spans"], at_ms):
        if span["kind"] == "gap":
            for number in numbers(span["partitions"]):
                owners.pop((span["topic"], number), None)
    return owners


def spans_at(spans: Sequence[Answer], at_ms: int) -> list[Answer]:
    """The gaps and overlaps at a moment."""
    return [
        span for span in spans if span["from_ms"] <= at_ms and (span["until_ms"] or NOW) > at_ms
    ]


def table_owners(found: Table, at_ms: int) -> Owners:
    """Who owned what at a moment, by the table of ownership."""
    owners: Owners = {}
    for row in found.get("ownership", ()):
        if row["from_ms"] <= at_ms < row["to_ms"]:
            owners.setdefault((row["topic"], row["partition"]), set()).add(row["member"])
    return owners
