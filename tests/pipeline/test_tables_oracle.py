"""The oracle's tables equal the server's own history, on simulated runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_protocol.journal import Line
from coterie_server.history import History, RebalanceRecord
from coterie_server.journal import verify
from coterie_testing.replay import cost_of
from tests.pipeline.oracle.tables import oracle_tables
from tests.pipeline.scenarios.runs import PROFILES
from tests.support.journals import simulated, write_journal
from tests.support.profiles import mostly_slow

_FOR_EVER: Final = 1_000_000


def test_a_written_journal_is_whole(tmp_path: Path) -> None:
    write_journal(simulated(3, "hostile"), tmp_path, lines_each=20, packed_each=10**6)
    report = verify(tmp_path)
    assert report.is_whole
    assert report.lines == len(simulated(3, "hostile"))


@pytest.mark.parametrize(
    "profile",
    [pytest.param(each, marks=[] if each == "brief" else [pytest.mark.slow]) for each in PROFILES],
)
def test_the_oracle_and_the_history_agree(profile: str, tmp_path: Path) -> None:
    lines = [line for seed in range(12) for line in simulated(seed, profile)]
    write_journal(lines, tmp_path)
    rows = oracle_tables(tmp_path)["rebalances"]
    found = [_of_table(row) for row in rows if row["outcome"] != "running"]
    kept = _history(lines)
    assert len(kept) > 25
    assert sorted(found, key=repr) == sorted(map(_of_history, kept), key=repr)


def _history(lines: Iterable[Line]) -> list[RebalanceRecord]:
    """What the nodes know, each of its own groups and by its own clock."""
    kept: list[RebalanceRecord] = []
    histories: dict[str, History] = {}
    for line in lines:
        if line.node not in histories:
            histories[line.node] = History(_FOR_EVER, _FOR_EVER)
            histories[line.node].listen(kept.append)
        histories[line.node].observe(line.ts, line.event)
    return kept


def _of_table(row: dict[str, Any]) -> tuple[Any, ...]:
    times = (row["group"], row["started_ms"], row["ended_ms"])
    counts = (row["moved"] or 0, row["revoked"] or 0, len(row["came"]), len(row["went"]))
    return (*times, row["outcome"], row["cause"], *counts)


def _of_history(rebalance: RebalanceRecord) -> tuple[Any, ...]:
    times = (rebalance.group, rebalance.started_ms, rebalance.ended_ms)
    counts = (rebalance.moved, rebalance.revoked, rebalance.came.count, rebalance.went.count)
    return (*times, rebalance.outcome.value, rebalance.cause, *counts)


@pytest.mark.slow
def test_the_oracle_and_the_history_agree_on_costs(tmp_path: Path) -> None:
    runs = [simulated(seed, PROFILES[seed % 4]) for seed in range(60)]
    lines = [line for run in runs for line in run]
    write_journal(lines, tmp_path)
    found = {
        (row["group"], row["started_ms"], row["ended_ms"]): _costs(row)
        for row in oracle_tables(tmp_path)["rebalances"]
        if row["outcome"] != "running"
    }
    kept = _history(lines)
    assert len(kept) > 100
    assert sum(each.silent_partition_ms or 0 for each in kept) > 100_000
    assert found == {
        (each.group, each.started_ms, each.ended_ms): (
            each.stopped_partition_ms, each.silent_partition_ms,
        )
        for each in kept
    }  # fmt: skip


def _costs(row: dict[str, Any]) -> tuple[int | None, int | None]:
    return row["stopped_partition_ms"], row["silent_partition_ms"]


@pytest.mark.parametrize("seed", mostly_slow(range(4)))
def test_what_if_counts_what_the_tables_do(seed: int, tmp_path: Path) -> None:
    # What rebalances cost, and all silences, whether a rebalance paid for them or not.
    lines = simulated(seed, PROFILES[seed % 4])
    write_journal(lines, tmp_path)
    made = oracle_tables(tmp_path)
    silent_ms = sum(row["most_ms"] for row in made["ownership_faults"] if row["fault"] == "silence")
    stopped_ms = sum(row["stopped_partition_ms"] or 0 for row in made["rebalances"])
    groups = {line.event.group for line in lines if line.event.group}
    counted = [cost_of(lines, group).stopped_s for group in groups]
    assert sum(each or 0 for each in counted) == pytest.approx((silent_ms + stopped_ms) / 1000)
