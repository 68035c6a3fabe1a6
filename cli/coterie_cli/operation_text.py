"""What administrators have ordered of a group, in sentences for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie_cli.output import count_of, time_text
from coterie_cli.work_text import brief

__all__ = ["operation_sentences"]

_Operation = Mapping[str, Any]


def operation_sentences(operations: Iterable[_Operation]) -> Iterator[str]:
    """A sentence for each: who has to do what, since when, and who asked for it."""
    for each in operations:
        followed = "" if each["followed"] else " It is not followed: no member could lead by it."
        yield f"{_what(each)} since {time_text(each['since_ms'])}{_asked(each)}.{followed}"


def _what(each: _Operation) -> str:
    name = each["instance"] or each["member"]
    partitions = brief(each["partitions"] or {})
    match each["operation"]:
        case "drain":
            pace = f", {each['at_a_time']} at a time" if each["at_a_time"] else ""
            left = count_of(each["left"] or 0, "partition")
            return f"{name} is drained{pace if each['left'] else ''}, has {left} left,"
        case "pin":
            return f"{partitions} is pinned to {name}"
        case "keep-from":
            return f"{partitions} is kept from {name}"
        case "freeze":
            return f"It is frozen until {time_text(each['until_ms'])},"
        case other:
            return f"{other} of {name or 'the group'}"


def _asked(each: _Operation) -> str:
    by = f", by {each['by']}" if each["by"] else ""
    return by + (f": {each['reason'].rstrip('.')}" if each["reason"] else "")
