"""On a cluster of two workers, one of which dies: the same tables as in one process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from coterie_pipeline.tables import TABLES
from tests.live.daemon import HOST, coterie, environment, eventually
from tests.pipeline.cluster import Cluster
from tests.support.journals import simulated, write_journal

pytestmark = pytest.mark.spark_slow

_SEEDS: Final = range(500, 530)
_CONF: Final = (
    *("--conf", "spark.sql.shuffle.partitions=4"),
    *("--conf", f"spark.driver.host={HOST}"),
    *("--conf", f"spark.driver.bindAddress={HOST}"),
    *("--conf", "spark.executor.memory=512m"),
    # Enough that the death of a worker finds the work spread over both.
    *("--conf", "spark.executor.cores=1"),
)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journals of many simulated coordinators."""
    folder = tmp_path_factory.mktemp("journal")
    write_journal((line for seed in _SEEDS for line in simulated(seed)), folder)
    return folder


def pipeline(journal: Path, out: Path, master: str) -> list[str]:
    """The command that makes the tables."""
    command = [coterie(), "pipeline", "run", str(journal), "-o", str(out), "--master", master]
    return [*command, *_CONF, "--json"]


def tables(out: Path) -> dict[str, list[Any]]:
    """All rows of all tables, in an order of their own."""
    number = json.loads((out / "latest.json").read_text())["number"]
    return {
        table.name: sorted(
            duckdb.execute(f"FROM '{out}/tables/{number:06}/{table.name}/*.parquet'").fetchall(),
            key=repr,
        )
        for table in TABLES
    }


@pytest.fixture(scope="module")
def expected(journal: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The tables as one process makes them."""
    out = tmp_path_factory.mktemp("local") / "out"
    subprocess.run(
        pipeline(journal, out, "local[2]"), check=True, env=environment(), stdout=subprocess.DEVNULL
    )
    found = tables(out)
    assert all(found[name] for name in ("rebalances", "ownership", "commits", "group_health"))
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two workers."""
    with Cluster(tmp_path, workers=2) as cluster:
        yield cluster


def test_cluster_makes_the_same_tables(
    cluster: Cluster, journal: Path, expected: dict[str, list[Any]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    subprocess.run(
        pipeline(journal, out, cluster.master),
        check=True,
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    assert tables(out) == expected


def test_death_of_a_worker_changes_nothing(
    cluster: Cluster, journal: Path, expected: dict[str, list[Any]], tmp_path: Path
) -> None:
    # It is killed with its executor once all lines are stored, and groups are replayed.
    out = tmp_path / "out"
    with subprocess.Popen(
        pipeline(journal, out, cluster.master), env=environment(), stdout=subprocess.DEVNULL
    ) as run:
        eventually((out / "events" / "piece=run-000001").exists, "tables are made", 300)
        cluster.kill_worker()
        assert run.wait(timeout=600) == 0
    assert cluster.state()["aliveworkers"] <= 2
    assert tables(out) == expected
