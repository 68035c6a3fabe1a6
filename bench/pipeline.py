"""Journal lines per second: from files to all tables by Spark, and to four tables by DuckDB."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import duckdb

from bench.support.measure import Effort, Figure
from bench.support.report import Cell, Column, Report, Row
from bench.support.synthetic_journals import make_journals
from coterie_pipeline.batch import run as run_batch
from coterie_pipeline.java import NoJavaError, java_home
from coterie_pipeline.session import BRIEF_BYTES, class_archive, holds_at_most, spark_session
from coterie_pipeline.warehouse import MAKING

__all__ = ["run"]

_EVENTS: Final = (1_000, 100_000, 1_000_000, 10_000_000)
_QUICK_EVENTS: Final = (2_000,)
_SQL: Final = Path(__file__).parent / "support" / "duckdb_tables.sql"
_MEMORY: Final = "4g"

_COLUMNS: Final = (
    Column("events", "lines"),
    Column("megabytes", "MB"),
    Column("start", "Spark starts"),
    Column("read", "reads"),
    Column("tables", "makes tables"),
    Column("rate", "lines/s"),
    Column("duckdb", "DuckDB"),
    Column("duckdb_rate", "lines/s"),
    Column("over", "Spark\n÷ DuckDB"),
)

#: Seconds by step, and the number of rebalances.
Taken = dict[str, float]


def run(effort: Effort) -> Report:
    """Measure one size after the other, each engine in its own process."""
    sizes = _QUICK_EVENTS if effort.quick else _EVENTS
    try:
        is_prepared = class_archive(java_home()).exists()
        rows = tuple(_row(events) for events in sizes)
    except NoJavaError as error:
        return Report("Pipeline", _COLUMNS, (), (f"Left out: {error}",))
    processors = len(os.sched_getaffinity(0))
    notes = (
        "Synthetic journals of 3 nodes, 120 groups of 6 members with 24 partitions; 97 % commits.",
        f"Spark: all nine tables, on {processors} processors of this machine, {_MEMORY}.",
        "DuckDB: four of them, in plain SQL that ignores odd cases, on as many processors.",
        f"`coterie pipeline prepare` was {'' if is_prepared else 'not '}given before.",
        "The ratio does not count Spark's start. One run each.",
    )
    return Report("Pipeline", _COLUMNS, rows, notes)


def _row(events: int) -> Row:
    folder = Path(tempfile.mkdtemp(prefix="coterie-bench-"))
    try:
        size = make_journals(folder / "journal", events)
        by_duckdb = _apart(_duckdb, folder)
        by_spark = _apart(_spark, folder)
    finally:
        shutil.rmtree(folder)
    if by_spark["rebalances"] != by_duckdb["rebalances"]:
        raise AssertionError(f"Spark and DuckDB disagree: {by_spark} and {by_duckdb}")
    spark_s = by_spark["read"] + by_spark["tables"]
    cells: tuple[Cell, ...] = (
        f"{events:,}",
        _figure(size / 1e6, "MB"),
        *(_figure(by_spark[what], "s") for what in ("start", "read", "tables")),
        _figure(events / spark_s, "/s"),
        _figure(by_duckdb["tables"], "s"),
        _figure(events / by_duckdb["tables"], "/s"),
        _figure(spark_s / by_duckdb["tables"], "x"),
    )
    return Row("", cells)


def _figure(value: float, unit: str) -> Figure:
    return Figure(value, value, value, unit)


def _apart(measure: Callable[[Path], Taken], folder: Path) -> Taken:
    """Measure in a new process, so that memory and Spark end with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, folder).result()


def _spark(folder: Path) -> Taken:
    moments = [time.perf_counter()]
    # As the command does it.
    is_brief = holds_at_most([str(folder / "journal")], BRIEF_BYTES)
    spark = spark_session(memory=_MEMORY, is_brief=is_brief)
    spark.range(1).count()
    moments.append(time.perf_counter())
    stages: dict[str, float] = {}

    def tell(stage: str) -> None:
        stages[stage] = time.perf_counter()

    made = run_batch(spark, [str(folder / "journal")], str(folder / "out"), on_stage=tell).moment
    moments += [stages[MAKING], time.perf_counter()]
    spark.stop()
    started, read, tables = (after - before for before, after in pairwise(moments))
    return {"start": started, "read": read, "tables": tables, "rebalances": made.rows["rebalances"]}


def _duckdb(folder: Path) -> Taken:
    sql = _SQL.read_text(encoding="utf-8").replace("{journal}", str(folder / "journal"))
    began_s = time.perf_counter()
    with duckdb.connect(str(folder / "tables.duckdb")) as database:
        database.execute(sql)
        rebalances = database.execute("SELECT count(*) FROM rebalances").fetchall()[0][0]
    return {"tables": time.perf_counter() - began_s, "rebalances": rebalances}
