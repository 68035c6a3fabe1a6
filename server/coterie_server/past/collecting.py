"""How much of a group's lines is read back, for a time that is asked about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    JournalError,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
    read_values,
)
from coterie_protocol.replay import ClockSteps, GroupLines, Source, clocks_of
from coterie_protocol.replay.clock_steps import Step, step_of
from coterie_protocol.replay.order import Placed
from coterie_server.journal.backwards import OF_ALL, FoundLine
from coterie_server.past.marks import Missing

__all__ = ["KINDS", "Collected", "collect"]

#: The kinds of lines about a group that say who owned what, and why.
KINDS: Final[Collection[type[Event]]] = (
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)

#: How many rebalances before a time are read for it: who owns what is told anew at the end of each,
#: and what an owner may have held on to is over when it has joined again.
_REBALANCES_BEFORE: Final = 3

_LOST: Final = "Lines of the journal are missing here, or can't be read."


@final
class _Lines(GroupLines):
    """Lines that are read with pauses, for others to have their turns."""

    def __init__(self, breathe: Callable[[], None]) -> None:
        super().__init__()
        self._breathe = breathe

    def __iter__(self) -> Iterator[Placed]:
        for line in super().__iter__():
            self._breathe()
            yield line


@dataclass(slots=True)
class Collected:
    """A group's lines, as far back as they matter."""

    lines: GroupLines
    #: Is called often while they are worked on, for others to have their turns.
    breathe: Callable[[], None]
    #: When each topic was deleted, the earliest first.
    deleted_ms: dict[str, list[int]] = field(default_factory=dict)
    #: By node, how its clock was set.
    clocks: Mapping[str, ClockSteps] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    #: Whether there are older lines that do not matter.
    has_enough: bool = False
    #: The date of the oldest line about the group; None if there is none.
    first_ms: int | None = None


def collect(found: Iterable[FoundLine], since_ms: int, breathe: Callable[[], None]) -> Collected:
    """Take lines, the newest first, until what was the case at a time is told."""
    collected, before = Collected(_Lines(breathe), breathe), 0
    sources: dict[tuple[str, int], Source] = {}
    steps: list[Step] = []
    for line in found:
        breathe()
        if not line.kind:
            _note_missing(collected, line)
            continue
        try:
            values = read_values(line.text)
        except JournalError:
            at_ms = since_ms if line.date_ms is None else line.date_ms
            collected.missing.append(Missing(at_ms, at_ms, "lines_lost", _LOST))
            continue
        ts = values["ts"]
        if line.kind in OF_ALL:
            _note_of_all(collected, steps, values)
            continue
        source = Source(values["node"], values["seq"], ts, values, len(line.text))
        sources.setdefault((source.node, source.seq), source)
        collected.first_ms = at_ms = ts if line.at_ms is None else line.at_ms
        if at_ms < since_ms:
            # One that another one cut short tells nothing: it has no end.
            before += line.kind == RebalanceCompleted.kind
            if before > _REBALANCES_BEFORE and line.kind == RebalanceStarted.kind:
                collected.has_enough = True
                break
    for key in sorted(sources):
        collected.lines.add(sources.pop(key))
    collected.clocks = clocks_of(steps)
    for dates in collected.deleted_ms.values():
        dates.sort()
    return collected


def _note_of_all(collected: Collected, steps: list[Step], values: Mapping[str, Any]) -> None:
    """Take in what matters for all groups."""
    if (step := step_of(values)) is not None:
        steps.append(step)
    elif values["change"] == "deleted":  # of a topic
        collected.deleted_ms.setdefault(values["topic"], []).append(values["ts"])


def _note_missing(collected: Collected, line: FoundLine) -> None:
    dates = [each for each in (line.since_ms, line.until_ms) if each is not None]
    if dates:
        collected.missing.append(Missing(dates[0], dates[-1], "lines_lost", _LOST))
