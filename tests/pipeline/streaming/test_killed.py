"""A driver that is killed while journals grow: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline import batch
from coterie_pipeline.warehouse import Warehouse
from tests.pipeline.streaming.growing import Write, growth, lines_of_nodes, rows_of

pytestmark = pytest.mark.spark_slow

#: More than anything takes here, on a machine with much else to do.
PATIENCE_S = 300.0


def _written_s(path: Path) -> float:
    """When a path was written last; former tables may go while we look."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


class Driver:
    """A driver in a process of its own."""

    def __init__(self, journals: Path, out: Path, how: str) -> None:
        self._began_s = time.time()
        command = [sys.executable, "-m", "tests.pipeline.streaming.driver"]
        self._process = subprocess.Popen(
            [*command, str(journals), str(out), how], start_new_session=True
        )

    def wait(self) -> int:
        """How it ended."""
        return self._process.wait(PATIENCE_S)

    def wait_for(self, out: Path, pattern: str, meanwhile: Iterable[Write]) -> None:
        """Wait until it has written something of a name, and let the journal grow meanwhile."""
        writes = iter(meanwhile)
        until_s = time.monotonic() + PATIENCE_S
        while not any(_written_s(path) > self._began_s for path in out.glob(pattern)):
            assert self._process.poll() is None, "the driver ended"
            assert time.monotonic() < until_s, "it took too long"
            for write in itertools.islice(writes, 1):
                write.happen()
            time.sleep(0.1)
        for write in writes:
            write.happen()

    def interrupt(self) -> None:
        """Ask it to stop, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """`kill -9`, and Spark's JVM with it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)


@pytest.fixture
def start() -> Iterator[Callable[[Path, Path, str], Driver]]:
    """Start drivers, and leave none behind."""
    drivers: list[Driver] = []

    def start(journals: Path, out: Path, how: str) -> Driver:
        drivers.append(Driver(journals, out, how))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


def test_a_driver_that_is_killed_twice(
    spark: SparkSession, tmp_path: Path, start: Callable[[Path, Path, str], Driver]
) -> None:
    # Once in the middle of a micro-batch, once as tables are made; then it is as if it never was.
    # Nodes come late, files are rotated and end within lines, and a group goes over from one node
    # to another meanwhile.
    journals, out = tmp_path / "journals", tmp_path / "out"
    writes = growth(lines_of_nodes(), journals)
    third = len(writes) // 3
    first, second, last = writes[:third], writes[third : 2 * third], writes[2 * third :]
    first.pop(0).happen()

    driver = start(journals, out, "on")
    driver.wait_for(out, "events/piece=level0-0000000001", first)
    driver.kill()

    driver = start(journals, out, "on")
    # A slow machine may have had the time to make the first tables before.
    driver.wait_for(out, "tables/*/nodes", second)
    driver.kill()

    driver = start(journals, out, "on")
    driver.wait_for(out, "latest.json", last)
    driver.interrupt()
    assert driver.wait() == 0
    assert start(journals, out, "once").wait() == 0

    batch.run(spark, [str(journals)], str(tmp_path / "read"))
    expected = rows_of(Warehouse(spark, str(tmp_path / "read")))
    assert rows_of(Warehouse(spark, str(out))) == expected
    keys = [row["key"] for row in spark.read.parquet(str(out / "alerts")).select("key").collect()]
    assert len(keys) == len(set(keys)) > 0


def test_a_run_that_is_killed_twice(
    spark: SparkSession, tmp_path: Path, start: Callable[[Path, Path, str], Driver]
) -> None:
    # Once as it stores lines, once as it makes tables, each time with former tables in place.
    journals, out = tmp_path / "journals", tmp_path / "out"
    writes = growth(lines_of_nodes(), journals)
    third = len(writes) // 3
    first, second, last = writes[:third], writes[third : 2 * third], writes[2 * third :]
    for write in first:
        write.happen()
    assert start(journals, out, "run").wait() == 0
    former = (out / "latest.json").read_text()

    for write in second:
        write.happen()
    driver = start(journals, out, "run")
    driver.wait_for(out, "events/_run-000002", ())
    driver.kill()

    driver = start(journals, out, "run")
    driver.wait_for(out, "tables/000002/nodes", ())
    driver.kill()
    assert (out / "latest.json").read_text() == former

    for write in last:
        write.happen()
    assert start(journals, out, "run").wait() == 0
    batch.run(spark, [str(journals)], str(tmp_path / "read"))
    expected = rows_of(Warehouse(spark, str(tmp_path / "read")))
    assert rows_of(Warehouse(spark, str(out))) == expected
