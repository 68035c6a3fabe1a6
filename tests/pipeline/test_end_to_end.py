"""A real daemon, real workers, deaths: the tables say what the workers saw."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.batch import run
from coterie_pipeline.report import write_report
from coterie_pipeline.warehouse import Warehouse
from tests.live.conftest import SETTINGS
from tests.live.daemon import Daemon
from tests.live.ownership import TaskRun
from tests.live.portable_group import PortableGroup

pytestmark = pytest.mark.slow

GROUP: Final = "life"
PARTITIONS: Final = 12
_SESSION_MS: Final = 6_000
#: A worker hears of its assignment after it was written down, and of its end before.
_LATER_MS: Final = 10_000
#: So short an interval may end before a worker on a busy machine has begun its task.
_TOO_SHORT_MS: Final = 1_000
#: How far two clocks of one machine, read one after the other, can be apart.
_CLOCK_MS: Final = 50


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the workers saw, and what the tables say."""

    #: By the workers' names, in the order of their beginnings, with times since 1970.
    runs: Mapping[str, list[TaskRun]]
    since_1970_s: float
    committed: Mapping[int, int]
    tables: Mapping[str, list[dict[str, Any]]]
    page: str

    def ms(self, at_s: float) -> float:
        """A moment of the workers' clock as the journal has it."""
        return (at_s + self.since_1970_s) * 1000


def _live(folder: Path, daemon: Daemon) -> tuple[dict[str, list[TaskRun]], dict[int, int]]:
    """One after the other: alone, three, one dies, the daemon dies, two leave."""
    with PortableGroup(daemon.address, GROUP, folder, PARTITIONS) as portable_group:
        first = portable_group.work("first")
        portable_group.settle(first)
        second, victim = (
            portable_group.work("second"),
            portable_group.work("victim", session_ms=_SESSION_MS),
        )
        portable_group.settle(first, second, victim)
        victim.die()
        generation = portable_group.calm(first, second).generation
        # What was not written yet would be lost with the daemon.
        completed = f'"kind":"rebalance_completed","generation":{generation},'
        portable_group.wait_for(
            lambda: completed in _written(daemon), "the last rebalance is written down"
        )
        daemon.restart(signal.SIGKILL)
        back_s = time.monotonic()
        everything = set(range(PARTITIONS))
        portable_group.wait_for(
            lambda: portable_group.acked_since(back_s) == everything, "commits after the crash"
        )
        second.stop()
        second.wait()
        # What it would have had no time to work on would be an interval without a task.
        portable_group.settle(first)
        first.stop()
        first.wait()
        return {
            worker.name: worker.runs for worker in (first, second, victim)
        }, portable_group.committed()


def _written(daemon: Daemon) -> str:
    return "".join(path.read_text() for path in _journal(daemon).iterdir())


def _journal(daemon: Daemon) -> Path:
    return daemon.data_dir / "journal"


@pytest.fixture(scope="module")
def evidence(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Let it happen, and make the tables of what the daemon wrote down."""
    folder = tmp_path_factory.mktemp("end-to-end")
    with Daemon(folder / "daemon", settings=SETTINGS) as daemon:
        runs, committed = _live(folder, daemon)
        journal = _journal(daemon)
    out = str(folder / "out")
    run(spark, [str(journal)], out)
    tables = Warehouse(spark, out).tables()
    write_report(tables, folder / "report.html")
    return Evidence(
        runs=runs,
        since_1970_s=time.time() - time.monotonic(),
        committed=committed,
        tables={
            name: [row.asDict(recursive=True) for row in table.collect()]
            for name, table in tables.items()
        },
        page=(folder / "report.html").read_text(encoding="utf-8"),
    )


def sessions(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """The memberships by the workers' names."""
    found = {row["client_id"]: row for row in evidence.tables["member_sessions"]}
    assert set(found) == set(evidence.runs)
    return found


def intervals(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    """What a worker owned, in the order of its beginnings."""
    member = sessions(evidence)[name]["member"]
    owned = [row for row in evidence.tables["ownership"] if row["member"] == member]
    return sorted(owned, key=lambda row: (row["partition"], row["from_ms"]))


@pytest.mark.parametrize("name", ["first", "second", "victim"])
def test_intervals_are_the_tasks_that_ran(evidence: Evidence, name: str) -> None:
    # Each task of a worker has its interval, and did not run outside of it.
    owned = intervals(evidence, name)
    for task in evidence.runs[name]:
        began_ms = evidence.ms(task.began_s)
        row = next(
            row
            for row in owned
            if row["partition"] == task.partition
            and row["from_ms"] - _CLOCK_MS <= began_ms <= row["released_ms"] + _CLOCK_MS
        )
        owned.remove(row)
        assert began_ms - row["from_ms"] <= _LATER_MS
        if not math.isinf(task.ended_s):
            assert evidence.ms(task.ended_s) <= row["released_ms"] + _CLOCK_MS
    # On a busy machine, another rebalance may take a partition away before its task begins.
    assert all(row["to_ms"] - row["from_ms"] <= _TOO_SHORT_MS for row in owned)


def test_tables_have_no_overlap(evidence: Evidence) -> None:
    # No overlap, certain or possible, and the workers saw none either.
    faults = evidence.tables["ownership_faults"]
    assert [row for row in faults if row["fault"] == "overlap"] == []


def test_memberships_ended_as_they_did(evidence: Evidence) -> None:
    found = sessions(evidence)
    assert {name: row["ended"] for name, row in found.items()} == {
        "first": "left",
        "second": "left",
        "victim": "session_expired",
    }
    assert found["victim"]["silent_ms"] >= _SESSION_MS


def test_causes_are_what_was_done(evidence: Evidence) -> None:
    # Workers came, died and left, which began rebalances; the crash of the daemon began none.
    causes = {row["root_cause"] for row in evidence.tables["rebalances"]}
    assert causes == {"member_joined", "session_expired", "member_left"}
    (node,) = evidence.tables["nodes"]
    assert (node["starts"], node["crashes"], node["missing"]) == (2, 1, 0)


def test_standstill_is_no_more_than_the_workers_saw(evidence: Evidence) -> None:
    pauses_ms = 0.0
    tasks = [task for runs in evidence.runs.values() for task in runs]
    for partition in range(PARTITIONS):
        mine = sorted(
            (task for task in tasks if task.partition == partition), key=lambda task: task.began_s
        )
        for before, after in pairwise(mine):
            ended_s = before.ended_s
            if math.isinf(ended_s):  # it was killed, and acknowledged something last
                ended_s = max((at_s for at_s, _ in before.acks), default=before.began_s)
            pauses_ms += (after.began_s - ended_s) * 1000
    stopped_ms = sum(row["stopped_partition_ms"] for row in evidence.tables["rebalances"])
    assert 0 < stopped_ms <= pauses_ms + PARTITIONS * _CLOCK_MS


def test_last_commits_are_those_that_are_stored(evidence: Evidence) -> None:
    last = {row["partition"]: (row["last_ms"], row["last_offset"]) for row in sorted(
        evidence.tables["commits"], key=lambda row: row["last_ms"]
    )}  # fmt: skip
    assert {partition: offset for partition, (_, offset) in last.items()} == dict(
        evidence.committed
    )
    assert sum(row["regressions"] for row in evidence.tables["commits"]) == 0


def test_page_shows_the_group(evidence: Evidence) -> None:
    # The report of these tables names the group and all who worked in it.
    assert GROUP in evidence.page
    for row in sessions(evidence).values():
        assert row["member"] in evidence.page
