"""Short traces of runs, for people to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from coterie_client.membership import events as client
from coterie_protocol import journal

__all__ = ["Recorder", "partitions"]

_RANDOM: Final = re.compile(r"\b([wi]\d+)-([0-9a-f]{12})\b")


def partitions(pairs: Iterable[tuple[str, int]]) -> str:
    """Partitions in short: `jobs 0-2 5, more 1`."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(pairs):
        topics.setdefault(topic, []).append(number)
    return (
        ", ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in topics.items()) or "nothing"
    )


def _ranges(numbers: list[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return " ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def _flat(owned: Mapping[str, tuple[int, ...]] | None) -> str:
    return partitions((t, n) for t, numbers in (owned or {}).items() for n in numbers)


def _plus(event: client.AssignmentReceived) -> str:
    parts = [f"owns {event.owned}"]
    if event.added:
        parts.append(f"new: {partitions(event.added)}")
    if event.revoked:
        parts.append(f"to revoke: {partitions(event.revoked)}")
    if event.needs_rejoin:
        parts.append("NEEDS_REJOIN")
    return ", ".join(parts)


def _standbys(event: client.StandbysChanged) -> str:
    parts = []
    if event.warm_ups:
        parts.append(f"warms up {partitions(event.warm_ups)}")
    if event.standbys:
        parts.append(f"stands by for {partitions(event.standbys)}")
    return "; ".join(parts) or "stands by for nothing"


def _phase(event: journal.PhaseJoined) -> str:
    names = " ".join(f"{m.member}{'*' * (m.member == event.leader)}" for m in event.members)
    away = [m.member for m in event.members if m.joined_after_ms is None]
    return (
        f"generation {event.generation} by {event.protocol}: {names}"
        + (f"; away: {' '.join(away)}" if away else "")
        + (f"; dropped: {' '.join(event.dropped)}" if event.dropped else "")
    )


def _completed(event: journal.RebalanceCompleted) -> str:
    shares = "; ".join(f"{name}: {_flat(owned)}" for name, owned in (event.assigned or {}).items())
    return f"generation {event.generation} is assigned: {shares}"


def _about(event: journal.OperationStarted | journal.OperationEnded) -> str:
    if event.partitions:
        return f"{_flat(event.partitions)} to {event.instance or event.member}"
    return event.instance or event.member or "the group"


#: How events are told; those that are not here are not.
_TOLD: Final[dict[type[Any], Callable[[Any], str]]] = {
    client.JoinStarted: lambda e: f"joins, keeping {e.keeping}: {e.reason}",
    client.LeaderDecided: lambda e: (
        f"leads: assigns {e.partitions} partitions"
        + (f", withholds {e.withheld}" if e.withheld else "")
        + (f", has {e.warming_up} warm up" if e.warming_up else "")
        + (f", and {e.standbys} stand by" if e.standbys else "")
    ),
    client.StandbysChanged: _standbys,
    client.StandbysPromoted: lambda e: f"is promoted: {partitions(e.partitions)}, {e.lag} behind",
    client.WarmUpReady: lambda e: f"has caught up: {partitions(e.partitions)}, {e.lag} behind",
    client.AssignmentReceived: _plus,
    client.RevocationStarted: lambda e: f"finishes {partitions(e.partitions)}: {e.reason}",
    client.PartitionsReleased: lambda e: f"releases {partitions(e.partitions)}",
    client.CommitsUnconfirmed: lambda e: f"releases {partitions(e.partitions)}, in doubt",
    client.RevocationOverran: lambda e: f"is late, and no longer owns {partitions(e.partitions)}",
    client.PartitionsLost: lambda e: f"stops at once {partitions(e.partitions)}: {e.reason}",
    client.CoordinatorLost: lambda _: "lost the coordinator",
    client.Fenced: lambda e: f"is fenced: {e.instance_id} is {e.successor} now",
    client.GroupLeft: lambda e: "ends, and keeps its place" if e.stays else "has left",
    journal.GroupRecovered: lambda e: f"read back: {e.state}, generation {e.generation}",
    journal.MemberJoined: lambda e: f"{e.member} is new",
    journal.MemberReplaced: lambda e: f"{e.member} takes the place of {e.former_member}",
    journal.MemberFenced: lambda e: (
        f"{e.request} of {e.member} is refused: {e.holder} has its name"
    ),
    journal.MemberGone: lambda e: f"{e.member} is gone ({e.how}), had {_flat(e.owned)}",
    journal.RebalanceStarted: lambda e: (
        f"rebalance: {e.cause}, waits for {' '.join(e.awaited) or 'more'}"
    ),
    journal.PhaseJoined: _phase,
    journal.RebalanceCompleted: _completed,
    journal.GroupEmptied: lambda e: f"generation {e.generation} has no members",
    journal.OperationStarted: lambda e: f"{e.operation} of {_about(e)}",
    journal.OperationEnded: lambda e: f"{e.operation} of {_about(e)} ends ({e.how})",
    journal.TopicChanged: lambda e: f"{e.topic} {e.change}, {e.partitions} partitions",
    journal.OwnershipConflict: lambda e: f"{e.topic} {e.partition} is withheld from {e.given_to}",
}


class Recorder:
    """Writes down what happens in a while, in lines that are the same every time."""

    def __init__(self, now_s: Callable[[], float], since_s: float, until_s: float) -> None:
        self._now_s = now_s
        self._since_s = since_s
        self._until_s = until_s
        self._ids: dict[str, str] = {}
        self._lives: dict[str, int] = {}
        self.lines: list[str] = []

    def note(self, who: str, event: object) -> None:
        """Write down an event, if it is one that is told."""
        tell = _TOLD.get(type(event))
        if isinstance(event, str):
            text = event
        elif tell is not None:
            text = tell(event)
        else:
            return
        text = _RANDOM.sub(self._short, text)
        if self._since_s <= self._now_s() < self._until_s:
            self.lines.append(f"{self._now_s():8.3f}  {who:<11}  {text}".rstrip())

    def _short(self, found: re.Match[str]) -> str:
        """A member id without its random part; a second one of the same name gets a mark."""
        if found[0] not in self._ids:
            lives = self._lives[found[1]] = self._lives.get(found[1], 0) + 1
            self._ids[found[0]] = found[1] + "'" * (lives - 1)
        return self._ids[found[0]]
