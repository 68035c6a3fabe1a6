"""How the pipeline's time falls with the workers of a Spark cluster, all on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.support.measure import Effort, Figure
from bench.support.report import Column, Report, Row
from bench.support.synthetic_journals import make_journals
from coterie_pipeline.batch import run as run_batch
from coterie_pipeline.java import NoJavaError
from coterie_pipeline.session import spark_session
from coterie_pipeline.warehouse import MAKING
from tests.live.daemon import HOST
from tests.pipeline.cluster import Cluster

__all__ = ["run"]

_EVENTS: Final = 2_000_000
_WORKERS: Final = (1, 2, 4)
_QUICK_EVENTS: Final = 2_000
_QUICK_WORKERS: Final = (1, 2)
#: Of a worker, and of what it runs.
_MEMORY: Final = "2g"

_SETTINGS: Final = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.memory": "1g",
}

_COLUMNS: Final = (
    Column("workers", "workers"),
    Column("start", "starts"),
    Column("read", "reads"),
    Column("tables", "makes tables"),
    Column("rate", "lines/s"),
    Column("gain", "÷ 1 worker"),
)


def run(effort: Effort) -> Report:
    """Make the same tables with more and more workers."""
    events, counts = (_QUICK_EVENTS, _QUICK_WORKERS) if effort.quick else (_EVENTS, _WORKERS)
    folder = Path(tempfile.mkdtemp(prefix="coterie-bench-"))
    try:
        make_journals(folder / "journal", events)
        taken = {count: _with_workers(folder, count) for count in counts}
    except NoJavaError as error:
        return Report("Cluster", _COLUMNS, (), (f"Left out: {error}",))
    finally:
        shutil.rmtree(folder)
    alone_s = sum(taken[1][1:])
    rows = [
        Row(
            "",
            (
                f"{count}",
                *(_figure(each, "s") for each in seconds),
                _figure(events / sum(seconds[1:]), "/s"),
                _figure(alone_s / sum(seconds[1:]), "x"),
            ),
        )
        for count, seconds in taken.items()
    ]
    notes = (
        f"{events:,} lines as in the suite `pipeline`, on workers of one core each.",
        f"They and the driver share {len(os.sched_getaffinity(0))} processors of one machine.",
        "Gains and lines a second do not count the start of Spark. One run each.",
    )
    return Report("Cluster", _COLUMNS, tuple(rows), notes)


def _figure(value: float, unit: str) -> Figure:
    return Figure(value, value, value, unit)


def _with_workers(folder: Path, count: int) -> list[float]:
    """The seconds in which Spark starts, reads, and makes the tables."""
    place = folder / f"workers-{count}"
    place.mkdir()
    with (
        Cluster(place, count, _MEMORY) as cluster,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        measure = partial(_measure, folder / "journal", place / "out")
        return pool.submit(measure, cluster.master).result()


def _measure(journal: Path, out: Path, master: str) -> list[float]:
    moments = [time.perf_counter()]
    spark = spark_session(master, _SETTINGS, memory=_MEMORY)
    spark.range(1).count()
    moments.append(time.perf_counter())
    stages: dict[str, float] = {}

    def tell(stage: str) -> None:
        stages[stage] = time.perf_counter()

    run_batch(spark, [str(journal)], str(out), on_stage=tell)
    moments += [stages[MAKING], time.perf_counter()]
    spark.stop()
    return [after - before for before, after in pairwise(moments)]
