"""A history of a node whose clock was set is the one that the tables tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coterie_protocol.journal import ClockStepped, read_line
from coterie_server.archive import Journals
from coterie_server.backfill import Backfill
from coterie_server.history import History, RebalanceRecord, rebalance_json
from coterie_server.journal.backwards import list_segments
from coterie_server.past import Asked
from tests.pipeline.scenarios.ownership import clock_set
from tests.support.journal_builder import BEGINNING_MS, JournalBuilder

GROUP = "clock-set"

#: How long each rebalance took, and what it cost.
WANTED = [(0, 0), (2010, 3.82), (1020, 1.24), (510, 0.02)]


def figures(rows: Iterable[dict[str, Any]]) -> list[tuple[int, float]]:
    """The same of rebalances as pages show them, of which the latest is the first."""
    found = [(row["total_ms"], row["stopped_partition_seconds"]) for row in rows]
    return found[::-1]


def told(rebalances: Iterable[RebalanceRecord]) -> list[tuple[int, float]]:
    """The same of rebalances as a history has them."""
    return figures(map(rebalance_json, rebalances))


def test_a_running_node_knows_how_long_rebalances_took() -> None:
    history = History(20)
    for texts in clock_set().files.values():
        for text in texts:
            line = read_line(text)
            history.observe(line.ts, line.event)
    assert told(history.last(GROUP)) == WANTED


def read_back(folder: Path) -> History:
    """What a node knows after a restart."""
    history = History(20)

    async def read() -> None:
        started_ms = BEGINNING_MS + 200_000
        await Backfill(history, list_segments(folder), started_ms).look_up(GROUP, 4)

    asyncio.run(read())
    return history


def test_a_node_that_was_restarted_does_too(tmp_path: Path) -> None:
    clock_set().write(tmp_path)
    assert told(read_back(tmp_path).last(GROUP)) == WANTED


def test_what_another_process_of_the_machine_tells_of_its_clock_counts_once(tmp_path: Path) -> None:
    clock_set().write(tmp_path)
    other = JournalBuilder("other")
    other.line(61_500, ClockStepped(stepped_ms=60_000))
    other.line(100_000, ClockStepped(stepped_ms=-10_000))
    other.write(tmp_path)
    assert told(read_back(tmp_path).last(GROUP)) == WANTED


def test_journals_that_are_looked_at_afterwards_tell_it(tmp_path: Path) -> None:
    clock_set().write(tmp_path)
    found = Journals.read([tmp_path], lambda _: None)
    assert told(found.end(GROUP).rebalances) == WANTED
    until_ms = found.until_ms(GROUP)
    past = json.loads(found.past(Asked(GROUP, BEGINNING_MS - 1, until_ms)))
    found.close()
    assert figures(past["rebalances"]) == WANTED
