"""One interval of ownership: when it began and ended, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Cut", "Given", "Held", "Interval", "Stop", "pieces"]

#: The position, the time and the generation of an assignment.
Given = tuple[int, int, int | None]

Interval = dict[str, Any]

#: Ends of a membership that its process may not know of yet.
_FORCED: Final = (
    "removed",
    "rebalance_expired",
    "sync_expired",
    "join_expired",
    "turned_away",
    "session_expired",
    "registration_expired",
)


@dataclass(frozen=True, slots=True)
class Stop:
    """The line that ended an interval."""

    pos: int
    at: int
    kind: str
    #: The number of the rebalance that the line belongs to or comes after.
    rebalance: int
    is_closing: bool = False
    #: Of a member that is gone.
    how: str | None = None
    silent_ms: int | None = None
    session_ms: int | None = None
    #: Since when a holder was not heard of that was given up for that.
    quiet_since_ms: int | None = None

    @property
    def ended(self) -> str:
        """How the interval ended."""
        if self.kind in _OF_GROUP:
            return _OF_GROUP[self.kind]
        if self.is_closing:
            return "lost"
        return _OF_HOLDER.get(self.kind) or self.how or "lost"


_OF_GROUP: Final = {"group_emptied": "emptied", "group_deleted": "deleted"}
_OF_HOLDER: Final = {
    "group_recovered": "lost", "rebalance_completed": "taken", "phase_joined": "let_go",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cut:
    """A static member came back under a new id."""

    pos: int
    at: int
    rebalance: int
    member: str
    former_member: str
    #: When its former process was last refused; that shows that it was still there.
    refused_ms: int | None
    #: Since when its former process was not heard of.
    quiet_since_ms: int


@dataclass(slots=True)
class Held:
    """A partition that a holder has."""

    topic: str
    partition: int
    holder: str
    member: str
    instance: str | None
    from_pos: int
    from_ms: int
    from_rebalance: int
    #: Of the line in which it began.
    kind: str
    generation: int | None
    given: Given | None = None
    #: When it was last given to anyone, for one that is only claimed; None if that is not known.
    given_before_ms: int | None = None
    has_held_on: bool = False
    #: Where static members came back, each with the last assignment before.
    cuts: list[tuple[Cut, Given | None]] = field(default_factory=list)

    def give(self, given: Given | None) -> None:
        """An assignment names it once more."""
        if given is not None:
            self.given = given

    def cut(self, cut: Cut) -> None:
        """Its owner goes on under another member id."""
        if self.instance is not None:
            self.cuts.append((cut, self.given))


def pieces(
    held: Held, stop: Stop | None, heard_ms: int | None, horizon_ms: int
) -> Iterator[Interval]:
    """The intervals of what a holder had: one, and one more for each time that it came back.

    `stop` is what ended it; None if it goes on at the horizon.  `heard_ms` says when the holder
    must have known that the partition was taken from it.
    """
    whole = _whole(held, stop, heard_ms, horizon_ms)
    cuts = [each for each in held.cuts if stop is None or each[0].pos < stop.pos]
    before: Cut | None = None
    for after, given in cuts:
        piece = _since(whole, before)
        piece["member"] = after.former_member
        piece["to_ms"] = max(after.at, held.from_ms)
        piece["released_ms"] = max(after.at, after.refused_ms or 0, held.from_ms)
        piece |= {"to_pos": after.pos, "to_rebalance": after.rebalance, "ended": "replaced"}
        piece["quiet_since_ms"] = after.quiet_since_ms
        generation = None if given is None else given[2]
        piece["last_generation"] = held.generation if generation is None else generation
        yield piece
        before = after
    yield _since(whole, before)


def _since(whole: Interval, before: Cut | None) -> Interval:
    """The part of an interval after a cut."""
    piece = dict(whole)
    if before is not None:
        piece |= {"from_pos": before.pos, "from_rebalance": before.rebalance, "began": "replaced"}
        from_ms = piece["from_ms"] = max(before.at, whole["from_ms"])
        # What ends it may be dated back to when a member joined, before the cut.
        piece |= {name: max(whole[name], from_ms) for name in ("to_ms", "released_ms")}
        piece["member"] = before.member
    return piece


def _whole(held: Held, stop: Stop | None, heard_ms: int | None, horizon_ms: int) -> Interval:
    to_ms = max(horizon_ms if stop is None else stop.at, held.from_ms)
    began = {"phase_joined": "claimed", "group_recovered": "recovered"}.get(held.kind, "assigned")
    last_generation = None if held.given is None else held.given[2]
    given_ms = held.given_before_ms if held.given is None else held.given[1]
    return {
        "topic": held.topic,
        "partition": held.partition,
        "holder": held.holder,
        "member": held.member,
        "instance": held.instance,
        "from_ms": held.from_ms,
        "to_ms": to_ms,
        "released_ms": _released_ms(stop, to_ms, heard_ms, horizon_ms),
        "generation": held.generation,
        "last_generation": held.generation if last_generation is None else last_generation,
        "began": began,
        "ended": "open" if stop is None else stop.ended,
        "from_pos": held.from_pos,
        "to_pos": None if stop is None else stop.pos,
        "from_rebalance": held.from_rebalance,
        "to_rebalance": None if stop is None else stop.rebalance,
        "has_held_on": held.has_held_on,
        "given_ms": held.from_ms if given_ms is None else given_ms,
        "quiet_since_ms": None if stop is None else stop.quiet_since_ms,
    }


def _released_ms(stop: Stop | None, to_ms: int, heard_ms: int | None, horizon_ms: int) -> int:
    """Until when the owner may have worked if it keeps to the rules."""
    if stop is None:
        return to_ms
    if stop.ended == "taken":
        return max(to_ms, horizon_ms if heard_ms is None else heard_ms)
    if stop.ended in _FORCED and stop.silent_ms is not None and stop.session_ms is not None:
        return max(to_ms, to_ms - stop.silent_ms + stop.session_ms)
    return to_ms
