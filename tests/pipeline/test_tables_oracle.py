"""Spark's tables equal the oracle's, and the server's own history, on journals of simulated runs.

Each seed is a group of its own with a node of its own, so that many of them make one journal.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from coterie_protocol.journal import Line
from coterie_server.history import History, Rebalance
from coterie_server.journal import verify
from tests.pipeline.oracle.tables import oracle_tables
from tests.support.journals import handed_over, simulated, write_journal
from tests.support.pipeline_tables import KEYS, Tables, Told, differences, spark_tables

_PROFILES: Final = ("brief", "swarm", "rough", "hostile")

#: How many runs are looked at: few each time, and as many as one likes if somebody asks for it.
_SEEDS: Final = range(int(os.environ.get("PIPELINE_SEEDS", "40")))

#: By how much the clock of every other node is behind, in turn.
_BEHIND_MS: Final = (0, 700, 20_000)

#: How many lines are lost, where lines are lost.
_LOST: Final = 0.04

_FOR_EVER: Final = 1_000_000


def _journal(seeds: Iterable[int]) -> Iterator[Line]:
    """Lines of a run for each seed.

    Of every third one, nodes take the group over from each other whose clocks disagree; of some,
    lines are lost here and there, or the beginning or the end is missing.
    """
    for seed in seeds:
        lines = list(simulated(seed, _PROFILES[seed % 4]))
        if seed % 3 == 2:
            nodes = (f"n{seed}a", f"n{seed}b")
            lines = handed_over(lines, nodes, {nodes[1]: _BEHIND_MS[seed // 3 % 3]})
        if seed % 5 == 1:
            chance = random.Random(seed)
            lines = [line for line in lines if chance.random() > _LOST]
        if seed % 5 == 4:
            lines = lines[len(lines) * (seed % 7) // 14 :]
        if seed % 7 == 6:
            lines = lines[: len(lines) * (seed % 5 + 1) // 6]
        yield from lines


def test_spark_and_the_oracle_agree(spark: SparkSession, tmp_path: Path) -> None:
    """Every row of every table, over all kinds of runs."""
    paths = write_journal(_journal(_SEEDS), tmp_path)
    _assert_same(spark_tables(spark, paths), oracle_tables(tmp_path))


def test_spark_and_the_oracle_agree_on_stories(makers: dict[str, Told]) -> None:
    """Every row of every table, over what simulated runs hardly ever come to."""
    _assert_same(makers["spark"].tables, makers["oracle"].tables)


def _assert_same(found: Tables, wanted: Tables) -> None:
    told = [text for name in KEYS for text in differences(name, found[name], wanted[name])]
    assert not told, "\n".join(("Spark has", *told))


def test_a_written_journal_is_whole(tmp_path: Path) -> None:
    """What these tests write is what a node writes: nothing is missing, torn or repeated."""
    write_journal(simulated(3, "hostile"), tmp_path, lines_each=20, packed_each=10**6)
    report = verify(tmp_path)
    assert report.is_whole
    assert report.lines == len(simulated(3, "hostile"))


@pytest.mark.parametrize("profile", _PROFILES)
def test_the_oracle_and_the_history_agree(profile: str, tmp_path: Path) -> None:
    """What the server keeps of its last rebalances is what its journal tells."""
    lines = [line for seed in range(12) for line in simulated(seed, profile)]
    write_journal(lines, tmp_path)
    tables = oracle_tables(tmp_path)
    told = [_of_table(row) for row in tables["rebalances"] if row["outcome"] != "running"]
    assert sorted(told) == sorted(_of_history(rebalance) for rebalance in _history(lines))


def _history(lines: Iterable[Line]) -> list[Rebalance]:
    kept: list[Rebalance] = []
    history = History(_FOR_EVER, _FOR_EVER)
    history.listen(kept.append)
    for line in lines:
        history.observe(line.ts, line.event)
    return kept


def _of_table(row: dict[str, Any]) -> tuple[Any, ...]:
    counts = (row["moved"] or 0, row["revoked"] or 0)
    return (row["group"], row["started_ms"], row["outcome"], row["cause"], *counts)


def _of_history(rebalance: Rebalance) -> tuple[Any, ...]:
    counts = (rebalance.moved, rebalance.revoked)
    times = (rebalance.group, rebalance.started_ms)
    return (*times, rebalance.outcome.value, rebalance.cause, *counts)


def test_the_oracle_and_the_history_agree_on_costs(tmp_path: Path) -> None:
    """To the millisecond."""
    runs = [simulated(seed, _PROFILES[seed % 4]) for seed in range(60)]
    lines = [line for run in runs for line in run]
    write_journal(lines, tmp_path)
    told = {
        (row["group"], row["ended_ms"]): row["stopped_partition_ms"]
        for row in oracle_tables(tmp_path)["rebalances"]
        if row["outcome"] != "running"
    }
    kept = _history(lines)
    assert len(kept) > 100
    assert told == {(each.group, each.ended_ms): each.stopped_partition_ms for each in kept}
