"""What-if replays per second: in a loop, and by Spark in one process and in two."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Final

import structlog
from pyspark.sql import DataFrame, SparkSession

from bench.support.measure import Effort, summary
from bench.support.report import Column, Report, Row
from coterie_pipeline.java import NoJavaError
from coterie_pipeline.session import spark_session
from coterie_pipeline.steps.parsing import parse
from coterie_pipeline.whatif import Bounds, Plan, what_if
from coterie_pipeline.whatif.replays import Task, replay_task
from coterie_protocol.journal import Line, write_line
from coterie_testing.kit import Cluster
from tests.support.flapping import GROUP, TOPICS, flap

__all__ = ["run"]

_COLUMNS: Final = (
    Column("how", "how"),
    Column("rate", "replays/s"),
    Column("steps", "steps/s"),
    Column("again", "÷ loop"),
)

#: Takes a plan and a scale; returns the seconds of each round, and the steps of one.
Measure = Callable[[Plan, "_Scale"], tuple[list[float], int]]


@dataclass(frozen=True, slots=True)
class _Scale:
    groups: int
    rounds: int
    grid: str


_FULL: Final = _Scale(groups=20, rounds=3, grid="session.timeout.ms=20000,45000")
_QUICK: Final = _Scale(groups=2, rounds=2, grid="session.timeout.ms=20000")
_SEEDS: Final = 2
_PAUSES: Final = 5

_COMMITTED: Final = "offsets_committed"


def run(effort: Effort) -> Report:
    """Measure the replays per second."""
    scale = _QUICK if effort.quick else _FULL
    plan = Plan.parse(grids=[scale.grid], seeds=_SEEDS)
    replays = scale.groups * (len(plan.settings) + 1) * _SEEDS
    try:
        taken = {how: _apart(measure, plan, scale) for how, measure in _MEASURES.items()}
    except NoJavaError as error:
        return Report("What-if", _COLUMNS, (), (f"Left out: {error}",))
    loop, steps = taken[_LOOP]
    rows = [
        Row(
            "",
            (
                how,
                summary([replays / s for s in seconds], unit="/s"),
                summary([steps / s for s in seconds], unit="/s"),
                summary([before / s for before, s in zip(loop, seconds, strict=True)]),
            ),
        )
        for how, (seconds, _) in taken.items()
    ]
    notes = (
        f"{scale.groups} groups of 3 members, one of which is away 5 times for some seconds;",
        f"with the recorded settings and {scale.grid}, {_SEEDS} seeds: {replays} replays a round.",
        f"{scale.rounds} rounds in real time, with Spark's own work but without its start.",
    )
    return Report("What-if", _COLUMNS, tuple(rows), notes)


def _apart(measure: Measure, plan: Plan, scale: _Scale) -> tuple[list[float], int]:
    """Measure in a new process, so that Spark ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_silence) as pool:
        return pool.submit(measure, plan, scale).result()


def _silence() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


# -- the history -------------------------------------------------------------------------------


def _history() -> list[Line]:
    with Cluster(TOPICS) as cluster:
        return [line for line in flap(cluster, _PAUSES, apart_s=110) if line.event.group]


def _texts(lines: Sequence[Line], group: str) -> list[str]:
    return [
        write_line(replace(line, node=group, event=replace(line.event, group=group)))
        for line in lines
    ]


# -- replaying it ------------------------------------------------------------------------------


def _outcomes(lines: Sequence[Line], plan: Plan) -> list[int]:
    """Replay one group's history with all settings; return the steps of each replay."""
    texts = [text for text in _texts(lines, GROUP) if json.loads(text)["kind"] != _COMMITTED]
    steps = []
    for place, overrides in enumerate(((), *plan.settings), 1):
        for seed in range(plan.seeds):
            row = replay_task(
                Task(
                    group=GROUP,
                    place=place,
                    setting="",
                    overrides=dict(overrides),
                    seed=seed,
                    lines=texts,
                    node_lines=[],
                    left_out=0,
                    steps_max=Bounds().steps_max,
                )
            )
            assert row["why"] is None, row["why"]
            steps.append(row["steps"])
    return steps


def _loop(plan: Plan, scale: _Scale) -> tuple[list[float], int]:
    """Return the seconds of each round, and the steps of one."""
    lines = _history()

    def loop() -> None:
        for _ in range(scale.groups):
            _outcomes(lines, plan)

    steps = sum(_outcomes(lines, plan)) * scale.groups
    return [_seconds(loop) for _ in range(scale.rounds)], steps


def _spread(processes: int, plan: Plan, scale: _Scale) -> tuple[list[float], int]:
    settings = {"spark.sql.shuffle.partitions": str(processes)}
    spark = spark_session(f"local[{processes}]", settings, memory="1g")
    bronze = _bronze(spark, _history(), scale).cache()
    steps = 0

    def spread() -> None:
        nonlocal steps
        # A new frame each time: the same one would reuse its shuffled data.
        rows = what_if(spark, bronze, plan).select("place", "failed", "steps").collect()
        assert len(rows) == scale.groups * (len(plan.settings) + 2), len(rows)
        assert not any(row["failed"] for row in rows)
        steps = sum(row["steps"] for row in rows)

    try:
        spread()  # starts the processes
        return [_seconds(spread) for _ in range(scale.rounds)], steps
    finally:
        spark.stop()


def _bronze(spark: SparkSession, lines: Sequence[Line], scale: _Scale) -> DataFrame:
    raw = [
        (f"journal-{number}.jsonl", text, None)
        for number in range(scale.groups)
        for text in _texts(lines, f"group-{number:02}")
    ]
    return parse(spark.createDataFrame(raw, "segment STRING, value STRING, why STRING"))


def _seconds(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


_LOOP: Final = "a loop, 1 process"
_MEASURES: Final[dict[str, Measure]] = {
    _LOOP: _loop,
    "Spark, 1 process": partial(_spread, 1),
    "Spark, 2 processes": partial(_spread, 2),
}
