"""What-if in Spark gives what single replays give, however the work is divided."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from coterie_pipeline.steps.parsing import parse
from coterie_pipeline.whatif import Bounds, Plan, answers, what_if
from coterie_pipeline.whatif.playing import Task, played
from coterie_pipeline.whatif.summing import summed

Flapping = Callable[[str, int], list[str]]

PLAN = Plan.parse(["session.timeout.ms=20000"], ["assignor=range,cooperative-sticky"], seeds=2)


def bronze_of(spark: SparkSession, *journals: list[str]) -> DataFrame:
    """Lines as the pipeline keeps them."""
    raw = [(f"/j/journal-{n}.jsonl", text) for n, texts in enumerate(journals) for text in texts]
    return parse(spark.createDataFrame(raw, "segment STRING, value STRING"))


def rows_of(frame: DataFrame) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows by group and place."""
    rows = [row.asDict() for row in frame.collect()]
    return {(row["group"], row["place"]): row for row in rows}


def test_two_groups_under_two_settings(spark: SparkSession, flapping: Flapping) -> None:
    """The same rows as without Spark, and the history as it was beside them."""
    journals = {"one": flapping("one", 1), "two": flapping("two", 3)}
    bronze = bronze_of(spark, *journals.values(), journals["one"])
    rows = rows_of(what_if(spark, bronze, PLAN, pieces=3))
    assert rows.keys() == {(group, place) for group in journals for place in range(4)}
    wishes = {"session.timeout.ms": "20000", "assignor": "range"}
    setting = "session.timeout.ms=20000, assignor=range"
    # Commits are no part of what is replayed.
    about = [text for text in journals["two"] if json.loads(text)["kind"] != "offsets_committed"]
    alone = [
        played(
            Task(
                group="two",
                place=2,
                setting=setting,
                wishes=wishes,
                seed=seed,
                lines=[text for text in about if json.loads(text)["group"]],
                node_lines=[text for text in about if not json.loads(text)["group"]],
                left_out=0,
                steps_max=1_000_000,
            )
        )
        for seed in range(2)
    ]
    assert rows["two", 2] == summed(alone)
    assert [rows["two", place]["rebalances"] for place in range(4)] == [11.0, 11.0, 2.0, 2.0]
    assert [rows["two", place]["replays"] for place in range(4)] == [0, 2, 2, 2]
    first, second = answers(rows.values())
    assert (first.group, second.group) == ("one", "two")
    assert second.sentences[0].startswith(f"With {setting}: 2 rebalances instead of 11")


def test_divided_otherwise(spark: SparkSession, flapping: Flapping) -> None:
    """The result does not depend on it, nor on the order of the lines."""
    texts = flapping("one", 1)
    plan = Plan.parse(["static=true"], seeds=2)
    first = rows_of(what_if(spark, bronze_of(spark, texts), plan, pieces=1))
    second = rows_of(what_if(spark, bronze_of(spark, texts[::-1]), plan, pieces=5))
    assert first == second


def test_groups_that_fail_do_not_harm_others(spark: SparkSession, flapping: Flapping) -> None:
    """One is not there, one has nobody, one is too long; each says so in its row."""
    emptied = (
        '{"v":1,"ts":1700000000000,"node":"9","seq":1,"group":"empty","kind":"group_emptied",'
        '"generation":3}'
    )
    bronze = bronze_of(spark, flapping("short", 0), flapping("long", 3), [emptied])
    plan = Plan.parse(groups=["short", "long", "empty", "gone"], seeds=1)
    rows = rows_of(what_if(spark, bronze, plan, Bounds(steps_max=2_500), pieces=2))
    assert {group: rows[group, 1]["why"] for group in plan.groups} == {
        "short": None,
        "long": "a replay takes more than 2,500 steps",
        "empty": "nobody joined the group in this time",
        "gone": "no line in this time is about the group",
    }
    assert rows["long", 0]["rebalances"] == 11.0


@pytest.mark.parametrize(
    ("bounds", "rebalances", "left_out"),
    [
        (Bounds(), 8.0, 0),
        (Bounds(lines_max=10), None, None),
        (Bounds(since_ms=1_700_000_100_000), None, None),
        (Bounds(until_ms=1_700_000_060_000), 2.0, None),
    ],
)
def test_bounds(
    spark: SparkSession,
    flapping: Flapping,
    bounds: Bounds,
    rebalances: float | None,
    left_out: int | None,
) -> None:
    """Only so much of a history, and what is left out is counted."""
    texts = flapping("one", 2)
    frame = what_if(spark, bronze_of(spark, texts), Plan.parse(seeds=1), bounds, pieces=1)
    told = rows_of(frame)["one", 0]
    every = sum(
        json.loads(text)["kind"] not in ("offsets_committed", "topic_changed") for text in texts
    )
    assert told["lines"] + told["left_out"] == every
    assert told["left_out"] == left_out if left_out is not None else told["left_out"] > 0
    if rebalances is not None:
        assert told["rebalances"] == rebalances
    assert told["why"] is None
