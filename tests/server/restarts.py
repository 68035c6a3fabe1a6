"""A node that starts with a journal, and is asked what a group did before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    Line,
    write_line,
)
from coterie_protocol.journal_text import segment_name
from coterie_server.backfill import Backfill
from coterie_server.history import Beginning, History
from coterie_server.journal import list_segments, read_journal
from coterie_server.journal.backwards import ReadLimits
from tests.support.journal_events import completed, phase, phase_joined, started

__all__ = [
    "OWNED",
    "RECOVERED",
    "STARTED_MS",
    "known",
    "recovered",
    "restarted",
    "round_of",
    "uninterrupted",
    "write",
]

STARTED_MS = 900_000
OWNED = {"m": {"t": (0, 1)}}


def recovered(generation: int, state: str = "Stable") -> GroupRecovered:
    """The group is read back, with its member."""
    return GroupRecovered(
        group="g", state=state, generation=generation, members=("m",), assigned=OWNED
    )


RECOVERED = recovered(2)


def round_of(ts: int, generation: int, from_state: str = "Stable") -> list[tuple[int, Event]]:
    """A rebalance that takes two seconds and stops two partitions."""
    return [
        (ts, started(generation=generation - 1, from_state=from_state, detail=f"d{generation}")),
        (ts + 500, phase_joined(phase("m", after_ms=0), generation=generation, took_ms=500)),
        (ts + 2_000, completed(assigned=OWNED, generation=generation)),
    ]


def write(folder: Path, events: Iterable[tuple[int, Event]], node: str = "1", seq: int = 1) -> Path:
    """A file of a journal."""
    lines = [
        write_line(Line(ts, node, number, event)) + "\n"
        for number, (ts, event) in enumerate(events, start=seq)
    ]
    path = folder / segment_name(node, seq)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def restarted(
    folder: Path | None,
    live: Sequence[tuple[int, Event]] = (),
    *,
    generation: int | None = None,
    kept: int = 20,
    limits: ReadLimits | None = None,
    has_all: bool = True,
) -> tuple[History, Beginning]:
    """The history of the group `g` on a node that started with that journal.

    The group is in the latest generation that was told, or in another one that is given.
    """
    now = generation or latest_generation(folder, live)

    async def ask() -> tuple[History, Beginning]:
        history = History(kept)
        segments = None if folder is None else list_segments(folder)
        backfill = Backfill(history, segments, STARTED_MS, limits, has_all=has_all)
        for ts, event in live:
            history.observe(ts, event)
        beginning = await backfill.look_up("g", now)
        assert await backfill.look_up("g", now) == beginning
        await backfill.close()
        return history, beginning

    return asyncio.run(ask())


def latest_generation(folder: Path | None, live: Sequence[tuple[int, Event]]) -> int:
    """The latest generation that events of a life or files of a journal tell."""
    read = [] if folder is None else read_journal(folder)
    events = [event for _, event in live] + [it.event for it in read if isinstance(it, Line)]
    return max((getattr(event, "generation", 1) for event in events), default=1)


def known(history: History) -> list[int]:
    """The generations of the rebalances, latest first."""
    return [each.generation for each in history.last("g")]


def uninterrupted(*parts: Iterable[tuple[int, Event]], kept: int = 20) -> History:
    """The history of a node that saw all of that itself."""
    history = History(kept)
    for part in parts:
        for ts, event in part:
            history.observe(ts, event)
    return history
