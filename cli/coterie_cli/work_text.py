"""What a member works on and keeps copies of, in one line for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie_cli.output import time_text

__all__ = ["absences", "brief", "clock_text", "moves", "work_text"]

#: How many copies that are being made a line names, with how far behind each is.
_NAMED_MAX = 5

_ByTopic = Mapping[str, Iterable[int]]


def work_text(member: Mapping[str, Any]) -> str:
    """Such as `jobs[0-3]; standby jobs[4]; warming up jobs-5 (1,234 behind)`."""
    if member["owned"] is None:
        return "?"
    return "; ".join(_parts(member)) or "-"


def _parts(member: Mapping[str, Any]) -> Iterator[str]:
    if owned := brief(member["owned"]):
        yield owned
    if standbys := brief(member.get("standbys") or {}):
        yield f"standby {standbys}"
    if warming := list(_warming(member)):
        left = len(warming) - _NAMED_MAX
        more = f" and {left} more" if left > 0 else ""
        yield f"warming up {', '.join(warming[:_NAMED_MAX])}{more}"


def _warming(member: Mapping[str, Any]) -> Iterator[str]:
    for topic, numbers in sorted((member.get("warming") or {}).items()):
        for number in sorted(numbers):
            yield f"{topic}-{number}{_behind(member, topic, number)}"


def moves(members: Iterable[Mapping[str, Any]]) -> str:
    """The partitions that are to go to others, such as `jobs-5 from w1 to w2 (7 behind)`."""
    found = list(members)
    owners = {
        (topic, number): member
        for member in found
        for topic, numbers in (member["owned"] or {}).items()
        for number in numbers
    }
    told = [
        f"{topic}-{number} from {_name(owners.get((topic, number)))} to {_name(member)}"
        + _behind(member, topic, number)
        for member in found
        for topic, numbers in sorted((member.get("targets") or {}).items())
        for number in sorted(numbers)
    ]
    left = len(told) - _NAMED_MAX
    return ", ".join(told[:_NAMED_MAX]) + (f" and {left} more" if left > 0 else "")


def _behind(member: Mapping[str, Any], topic: str, number: int) -> str:
    lag = ((member.get("lags") or {}).get(topic) or {}).get(str(number))
    return "" if lag is None else f" ({lag:,} behind)"


def _name(member: Mapping[str, Any] | None) -> str:
    return "no member" if member is None else str(member["instance"] or member["member"])


def brief(partitions: _ByTopic) -> str:
    """Partitions in short: `jobs[0-3,7]`."""
    from coterie_client import reporting

    return reporting.brief((topic, n) for topic, numbers in partitions.items() for n in numbers)


def clock_text(ms: int) -> str:
    """A time of the day."""
    return time_text(ms).rpartition(" ")[2]


def absences(members: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each member that is away."""
    for member in sorted(members, key=lambda each: str(each["instance"])):
        if member.get("away_since_ms") is None:
            continue
        waiting = brief(member["owned"] or {})
        yield (
            f"{member['instance']} is away since {time_text(member['away_since_ms'])}; its place "
            f"is kept until {time_text(member['away_until_ms'])}"
            + (f", and {waiting} with it." if waiting else ".")
        )
