"""Numbers, times and the journal's codes as text for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from coterie_pipeline.report.model import Some

__all__ = [
    "NONE",
    "cause",
    "clock",
    "clock_ms",
    "count",
    "cut",
    "date",
    "day",
    "duration",
    "ended",
    "gone",
    "moment",
    "number",
    "percent",
    "seconds",
    "short_cause",
    "short_name",
    "short_names",
    "some",
]

#: As in `docs/journal.md`: why rebalances begin.
_CAUSES: Final[Mapping[str, str]] = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "member_removed": "an administrator removed a member",
    "session_expired": "a member's session expired",
    "registration_expired": "a static member stayed away for too long",
    "probing": "the leader looked whether copies have caught up",
    "warm": "a member's copies have caught up",
    "load": "loads were out of balance",
    "join_expired": "a new member gave up joining",
    "sync_expired": "a member never asked for its assignment",
    "subscription_changed": "a member changed its subscription",
    "revocation_follow_up": "partitions given up had to be handed out",
    "leader_rejoined": "the leader joined again",
    "static_replaced": "a static member came back changed",
    "replaced": "a new process took a static member's place",
    "static_expansion": "static members came",
    "topic_changed": "a topic changed",
    "admin": "an administrator asked for it",
    "drain": "a member was drained, or its drain was lifted",
    "pin": "partitions were pinned, kept from a member, or set free",
    "freeze": "the group was frozen, or its freeze ended",
    "over_capacity": "the group had too many members",
    "assigned_twice": "one assignment gave it to both",
    "claimed_twice": "both claimed it",
    "taken_while_held": "given away before it was let go",
}

_SHORT_CAUSES: Final[Mapping[str, str]] = {
    "admin": "asked for",
    "drain": "a drain",
    "pin": "a pin",
    "freeze": "a freeze",
    "revocation_follow_up": "follow-up",
    "static_expansion": "static members came",
}

#: How an interval of ownership ended.
_ENDED: Final[Mapping[str, str]] = {
    "let_go": "let go of it",
    "taken": "it was taken away",
    "replaced": "a new process took its place",
    "emptied": "the group was emptied",
    "deleted": "the group was deleted",
    "lost": "the journal does not tell how it ended",
    "open": "goes on at the end of the journal",
}

#: How a member left its group.
_GONE: Final[Mapping[str, str]] = {
    "left": "left by itself",
    "removed": "was removed by an administrator",
    "session_expired": "was silent for too long",
    "registration_expired": "was away for too long",
    "join_expired": "gave up joining",
    "rebalance_expired": "did not join a rebalance in time",
    "sync_expired": "never asked for its assignment",
    "turned_away": "was turned away: the group was full",
    "replaced": "was replaced by a new process",
    "emptied": "went as the group was emptied",
    "deleted": "went as the group was deleted",
    "lost": "ended in a way the journal does not tell",
    "open": "still a member at the end of the journal",
    "joined": "joined",
    "away": "stayed away and kept its place",
    "unclaimed": "never claimed its member id",
}

#: What is appended to names to make member ids: a UUID, or as much of one.
_UUID: Final = re.compile(r"^(.*?)-?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{12,32})$")

#: How many digits of UUIDs are shown, if fewer would be the same.
_DIGITS: Final = (4, 6, 8, 12)

_SHORT_MAX: Final = 26

#: Not those of the locale: a report is in English, and the same wherever it is made.
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)

#: Shown in a table where there is no value.
NONE: Final = "\N{EN DASH}"


def cause(code: str) -> str:
    """The cause of a rebalance or an overlap; an unknown code as it is."""
    return _CAUSES.get(code) or _GONE.get(code) or code.replace("_", " ") or "not known"


def short_cause(code: str) -> str:
    """The same in a word or two."""
    return _SHORT_CAUSES.get(code, code.replace("_", " ")) or "not known"


def ended(code: str) -> str:
    """How an interval of ownership ended."""
    return _ENDED.get(code) or f"the member {gone(code)}"


def gone(code: str) -> str:
    """How a membership ended."""
    return _GONE.get(code, code.replace("_", " "))


def moment(at_ms: int) -> datetime:
    """A time in a journal, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def clock(at_ms: int) -> str:
    """A time of day, to the second."""
    return f"{moment(at_ms):%H:%M:%S}"


def clock_ms(at_ms: int) -> str:
    """A time of day, to the millisecond."""
    return f"{clock(at_ms)}.{at_ms % 1000:03d}"


def day(at_ms: int) -> str:
    """A day without its year."""
    at = moment(at_ms)
    return f"{at.day} {_MONTHS[at.month - 1]}"


def date(at_ms: int) -> str:
    """A day."""
    return f"{day(at_ms)} {moment(at_ms).year}"


def duration(length_ms: int | None) -> str:
    """How long something took, in two units at most."""
    if length_ms is None:
        return "?"
    if length_ms < 1_000:
        return f"{length_ms} ms"
    if length_ms < 60_000:
        return f"{length_ms / 1000:.3g} s"
    whole_s = length_ms // 1000
    for large, small, names in ((86_400, 3_600, "d h"), (3_600, 60, "h min"), (60, 1, "min s")):
        if whole_s >= large:
            units = names.split()
            rest = whole_s % large // small
            return f"{whole_s // large} {units[0]}" + (f" {rest} {units[1]}" if rest else "")
    raise AssertionError(length_ms)


def seconds(length_ms: int | None) -> str:
    """A figure in seconds, without its unit; only zero is shown as zero."""
    if length_ms is None:
        return "?"
    digits = 3 if length_ms < 100 else 1
    return f"{length_ms / 1000:,.{digits}f}" if length_ms else "0"


def number(value: int) -> str:
    """A number with its thousands apart."""
    return f"{value:,}"


def percent(share: float | None) -> str:
    """A share in per cent; only a whole is shown as 100 %."""
    if share is None:
        return NONE
    for digits in (1, 2, 3, 4):
        written = f"{share * 100:.{digits}f}"
        if share >= 1 or float(written) < 100:
            return f"{written} %"
    return "just below 100 %"


def count(value: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def cut(value: str, most: int = 200) -> str:
    """Text, cut to a length."""
    return value if len(value) <= most else f"{value[: most - 1]}…"


def short_name(name: str, digits: int = 4) -> str:
    """A member's name, with a UUID at its end cut to so many digits."""
    found = _UUID.match(name)
    if found:
        head, tail = found.groups()
        tail = tail[:digits]
        name = f"{head}-{tail}…" if head else f"{tail}…"
    return name if len(name) <= _SHORT_MAX else f"{name[:14]}…{name[-10:]}"


def short_names(names: Sequence[str]) -> Mapping[str, str]:
    """Names cut short, by no more than leaves them different."""
    for digits in _DIGITS:
        found = {name: short_name(name, digits) for name in names}
        if len(set(found.values())) == len(found):
            return found
    return {name: cut(name) for name in names}


def some(members: Some) -> str:
    """The names of some members."""
    left = members.count - len(members.names)
    named = ", ".join(short_name(name) for name in members.names)
    return f"{named} and {left:,} more" if left and named else named or f"{left:,}"
