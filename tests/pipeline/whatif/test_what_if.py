"""What-if in Spark gives what the same replays give without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.steps.parsing import parse
from coterie_pipeline.whatif import Bounds, Plan, answers, what_if
from coterie_pipeline.whatif.distribution import histories
from coterie_pipeline.whatif.replays import Task, replay_task, summarize

pytestmark = pytest.mark.slow

Flapping = Callable[[str, int], list[str]]

PLAN = Plan.parse(
    ["session.timeout.ms=20000", "assignor=range"], groups=["one", "two", "gone"], seeds=2
)
SETTING = "session.timeout.ms=20000, assignor=range"


def bronze_of(spark: SparkSession, *journals: list[str]) -> DataFrame:
    raw = [
        (f"/j/journal-{n}.jsonl", text, None) for n, texts in enumerate(journals) for text in texts
    ]
    return parse(spark.createDataFrame(raw, "segment STRING, value STRING, why STRING"))


def without_spark(group: str, texts: list[str], place: int) -> dict[str, Any]:
    # Commits are no part of what is replayed.
    about = [text for text in texts if json.loads(text)["kind"] != "offsets_committed"]
    runs = [
        replay_task(
            Task(
                group=group,
                place=place,
                setting={0: "in the journal", 1: "as it was", 2: SETTING}[place],
                overrides=dict(PLAN.settings[0]) if place == 2 else {},
                seed=seed,
                lines=[text for text in about if json.loads(text)["group"]],
                node_lines=[text for text in about if not json.loads(text)["group"]],
                left_out=0,
                steps_max=1_000_000,
            )
        )
        for seed in range(PLAN.seeds if place else 1)
    ]
    return summarize(runs)


@pytest.mark.slow
def test_rows_are_those_of_replays_without_spark(spark: SparkSession, flapping: Flapping) -> None:
    # In whatever order lines come, and though one of the journals is there twice.
    journals = {"one": flapping("one", 1), "two": flapping("two", 3)}
    bronze = bronze_of(spark, journals["two"][::-1], journals["one"], journals["one"])
    rows = [row.asDict() for row in what_if(spark, bronze, PLAN, pieces=3).collect()]
    found = {(row["group"], row["place"]): row for row in rows}
    assert found.keys() == {(group, place) for group in PLAN.groups for place in range(3)}
    for group, texts in journals.items():
        for place in range(3):
            assert found[group, place] == without_spark(group, texts, place)
    assert found["gone", 1]["why"] == "no line in this time is about the group"
    assert [found["two", place]["rebalances"] for place in range(3)] == [11.0, 11.0, 2.0]
    two = next(answer for answer in answers(rows) if answer.group == "two")
    assert two.sentences[0].startswith(f"With {SETTING}: 2 rebalances instead of 11")


@pytest.fixture
def bounded(spark: SparkSession, flapping: Flapping) -> dict[str, dict[str, Any]]:
    """The history of a group within different bounds."""
    bronze = bronze_of(spark, flapping("one", 2)).localCheckpoint()
    bounds = {
        "none": Bounds(),
        "last lines": Bounds(lines_max=10),
        "since": Bounds(since_ms=1_700_000_100_000),
        "until": Bounds(until_ms=1_700_000_060_000),
    }
    frames = [
        histories(spark, bronze, ["one"], each).withColumn("bounds", F.lit(name))
        for name, each in bounds.items()
    ]
    return {row["bounds"]: row.asDict() for row in reduce(DataFrame.unionByName, frames).collect()}


def test_bounds_choose_lines_and_count_the_rest(bounded: dict[str, dict[str, Any]]) -> None:
    every = bounded["none"]["lines"]
    at = [json.loads(text)["ts"] for text in every]
    assert bounded["none"]["left_out"] == 0
    assert bounded["last lines"]["lines"] == every[-10:]
    assert bounded["since"]["lines"] == [
        text for text, ts in zip(every, at, strict=True) if ts >= 1_700_000_100_000
    ]
    assert bounded["until"]["lines"] == [
        text for text, ts in zip(every, at, strict=True) if ts < 1_700_000_060_000
    ]
    for row in bounded.values():
        assert len(row["lines"]) + row["left_out"] == len(every)
