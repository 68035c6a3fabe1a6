"""Replaying a group's lines: where its rebalances begin and end, and who holds what.

Both go line by line, with a few dicts for what is the case at the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.pipeline.oracle.reading import Placed

__all__ = ["Interval", "Replay", "Span", "spans"]

_Partition = tuple[str, int]

#: How a membership ends although the member may be alive.
_FORCED = frozenset(
    (
        "removed",
        "rebalance_expired",
        "sync_expired",
        "join_expired",
        "turned_away",
        "session_expired",
        "registration_expired",
    )
)


# -- rebalances -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Span:
    """One rebalance: the places of its lines."""

    rebalance: int
    began_pos: int
    started_pos: int | None = None
    joined_pos: int | None = None
    completed_pos: int | None = None
    #: Of the line that ended it, whatever that was.
    ended_pos: int | None = None
    outcome: str = "running"


def spans(lines: Iterable[Placed]) -> list[Span]:
    """The rebalances of a group."""
    found: list[Span] = []
    running: Span | None = None
    before = ""
    for line in lines:
        kind = line.kind
        if kind == "group_recovered" and line["state"] in (
            "PreparingRebalance",
            "CompletingRebalance",
        ):
            continue
        if _begins(kind, before):
            if running is not None:
                running.ended_pos, running.outcome = line.pos, "superseded"
            running = Span(len(found) + 1, line.pos)
            found.append(running)
        if running is not None:
            _note(running, line)
            if running.ended_pos is not None:
                running = None
        if kind in _OF_REBALANCES:
            before = kind
    return found


_OF_REBALANCES = (
    "rebalance_started",
    "phase_joined",
    "rebalance_completed",
    "group_emptied",
    "group_recovered",
)


def _begins(kind: str, before: str) -> bool:
    if kind == "rebalance_started":
        return True
    if kind == "phase_joined":
        return before != "rebalance_started"
    return kind == "rebalance_completed" and before not in ("rebalance_started", "phase_joined")


def _note(span: Span, line: Placed) -> None:
    match line.kind:
        case "rebalance_started":
            span.started_pos = line.pos
        case "phase_joined":
            span.joined_pos = line.pos
        case "rebalance_completed":
            span.completed_pos = line.pos
            span.ended_pos, span.outcome = line.pos, "completed"
        case "group_emptied":
            span.ended_pos, span.outcome = line.pos, "emptied"
        case "group_recovered":
            span.ended_pos, span.outcome = line.pos, "interrupted"


# -- who holds what -------------------------------------------------------------------------------


@dataclass(slots=True)
class Interval:
    """A time in which a holder has a partition."""

    topic: str
    partition: int
    holder: str
    member: str
    from_ms: int
    began_pos: int
    began: str
    generation: int | None
    last_generation: int | None
    to_ms: int | None = None
    ended_pos: int | None = None
    ended: str = "open"
    released_ms: int | None = None
    #: When it was last given, or claimed if it was not given.
    given_ms: int | None = None


@dataclass(slots=True)
class _Moment:
    """When something is said, and in which place and generation."""

    at: int
    pos: int
    generation: int | None


@dataclass(slots=True)
class Replay:
    """A group's lines one after the other, and the intervals that they tell of."""

    #: Whose name a member id stands for.
    instances: Mapping[str, str]
    intervals: list[Interval] = field(default_factory=list)
    #: What each assignment gave whom: (pos, holder, topic, partition).
    given: list[tuple[int, str, str, int]] = field(default_factory=list)
    _held: dict[str, dict[_Partition, Interval]] = field(default_factory=dict)
    #: What was taken from whom who has said nothing since.
    _taken: dict[str, list[Interval]] = field(default_factory=dict)
    #: No phase that is not over yet began before.
    _since_ms: int = 0
    _fenced: dict[str, int] = field(default_factory=dict)
    #: The intervals of members that were replaced.
    _former: list[Interval] = field(default_factory=list)

    def run(self, lines: Iterable[Placed], horizon_ms: int) -> None:
        """Replay all lines; what is open at the horizon goes on."""
        for line in lines:
            handle = getattr(self, f"_{line.kind}", None)
            if handle is not None:
                handle(line, _Moment(line.at, line.pos, line["generation"]))
        for interval in self._former:
            fenced_ms = self._fenced.get(interval.member, 0)
            interval.released_ms = max(interval.to_ms or 0, fenced_ms)
        for interval in self.intervals:
            if interval.to_ms is None:
                interval.to_ms = interval.released_ms = horizon_ms
            if interval.released_ms is None:
                # Taken from a member that was never heard of again.
                interval.released_ms = max(interval.to_ms, horizon_ms)

    def _holder(self, member: str) -> str:
        return self.instances.get(member, member)

    # -- lines ---------------------------------------------------------------------------------

    def _rebalance_started(self, line: Placed, moment: _Moment) -> None:
        self._since_ms = moment.at
        if line["from_state"] == "Empty":
            self._close_all("lost", moment)

    def _phase_joined(self, line: Placed, moment: _Moment) -> None:
        # What it took is counted anew after a restart in the midst of it, and so are the members.
        start_ms = max(moment.at - line["took_ms"], self._since_ms)
        for phase in line["members"]:
            after_ms = phase["joined_after_ms"]
            if after_ms is None:
                continue
            said = _Moment(min(start_ms + after_ms, moment.at), moment.pos, moment.generation)
            self._claim(phase["member"], _set(phase.get("owned")), said)

    def _rebalance_completed(self, line: Placed, moment: _Moment) -> None:
        self._snapshot(line["assigned"], moment, "assigned", "taken")

    def _group_recovered(self, line: Placed, moment: _Moment) -> None:
        self._snapshot(line["assigned"], moment, "recovered", "lost")

    def _member_gone(self, line: Placed, moment: _Moment) -> None:
        how = line["how"]
        released_ms = moment.at
        if how in _FORCED:
            released_ms += max(0, line["session_timeout_ms"] - line["silent_ms"])
        holder = self._holder(line["member"])
        for interval in list(self._held.get(holder, {}).values()):
            self._close(interval, how, moment, released_ms)
        self._heard_of(holder, moment)

    def _member_replaced(self, line: Placed, moment: _Moment) -> None:
        for interval in list(self._held.get(line["instance"], {}).values()):
            self._close(interval, "replaced", moment)
            self._former.append(interval)
            self._take_over(line["member"], interval, moment)

    def _member_fenced(self, line: Placed, moment: _Moment) -> None:
        self._fenced[line["member"]] = moment.at

    def _group_emptied(self, _line: Placed, moment: _Moment) -> None:
        self._since_ms = moment.at
        self._close_all("emptied", moment)
        self._all_heard_of(moment)

    def _group_deleted(self, _line: Placed, moment: _Moment) -> None:
        self._close_all("deleted", moment)
        self._all_heard_of(moment)

    # -- statements ----------------------------------------------------------------------------

    def _claim(self, member: str, owned: set[_Partition], moment: _Moment) -> None:
        """A member says what it has."""
        holder = self._holder(member)
        held = self._held.setdefault(holder, {})
        for partition in [each for each in held if each not in owned]:
            self._close(held[partition], "let_go", moment)
        for partition in sorted(owned.difference(held)):
            interval = self._still_had(holder, partition)
            if interval is None:
                self._open(member, partition, moment, "claimed")
            else:
                interval.to_ms, interval.ended_pos, interval.ended = None, None, "open"
                held[partition] = interval
        self._heard_of(holder, moment)

    def _snapshot(
        self,
        assigned: Mapping[str, Mapping[str, list[int]]] | None,
        moment: _Moment,
        began: str,
        ended: str,
    ) -> None:
        """What all members have from now on."""
        self._since_ms = moment.at
        if assigned is None:
            self._close_all("lost", moment)
            return
        given = {self._holder(member): (member, _set(each)) for member, each in assigned.items()}
        for holder in list(self._held):
            how = ended if holder in given else "lost"
            kept = given[holder][1] if holder in given else set()
            for partition, interval in list(self._held[holder].items()):
                if partition not in kept:
                    self._close(interval, how, moment)
        for holder, (member, partitions) in given.items():
            for partition in sorted(partitions):
                self.given.append((moment.pos, holder, *partition))
                held = self._held.get(holder, {})
                if partition in held:
                    held[partition].last_generation = moment.generation
                    held[partition].given_ms = moment.at
                else:
                    self._open(member, partition, moment, began)

    def _still_had(self, holder: str, partition: _Partition) -> Interval | None:
        """What was taken from it, and what it had not let go of."""
        taken = self._taken.get(holder, [])
        for interval in reversed(taken):
            if (interval.topic, interval.partition) == partition:
                taken.remove(interval)
                return interval
        return None

    # -- intervals -----------------------------------------------------------------------------

    def _open(self, member: str, partition: _Partition, moment: _Moment, began: str) -> Interval:
        holder = self._holder(member)
        generation = moment.generation
        interval = Interval(
            *partition, holder, member, moment.at, moment.pos, began, generation, generation
        )
        interval.given_ms = moment.at
        self._held.setdefault(holder, {})[partition] = interval
        self.intervals.append(interval)
        return interval

    def _take_over(self, member: str, former: Interval, moment: _Moment) -> None:
        """It was not given again."""
        partition = (former.topic, former.partition)
        interval = self._open(member, partition, moment, "replaced")
        interval.generation, interval.given_ms = former.generation, former.given_ms
        interval.last_generation = former.last_generation

    def _close(
        self, interval: Interval, how: str, moment: _Moment, released_ms: int | None = None
    ) -> None:
        partition = (interval.topic, interval.partition)
        del self._held[interval.holder][partition]
        interval.to_ms, interval.ended_pos, interval.ended = moment.at, moment.pos, how
        if how == "taken":
            self._taken.setdefault(interval.holder, []).append(interval)
        else:
            interval.released_ms = moment.at if released_ms is None else released_ms

    def _close_all(self, how: str, moment: _Moment) -> None:
        for held in self._held.values():
            for interval in list(held.values()):
                self._close(interval, how, moment)

    def _heard_of(self, holder: str, moment: _Moment) -> None:
        """By now at the latest it knows what was taken from it."""
        for interval in self._taken.pop(holder, []):
            interval.released_ms = max(interval.to_ms or 0, moment.at)

    def _all_heard_of(self, moment: _Moment) -> None:
        for holder in list(self._taken):
            self._heard_of(holder, moment)


def _set(owned: Mapping[str, list[int]] | None) -> set[_Partition]:
    return set(_each(owned or {}))


def _each(owned: Mapping[str, Any]) -> Iterator[_Partition]:
    for topic, numbers in owned.items():
        for number in numbers:
            yield topic, number
