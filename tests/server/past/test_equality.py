"""What is answered about the past is what the pipeline's tables say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from coterie_protocol.journal import Line, read_line
from tests.pipeline.scenarios import ownership
from tests.server.past.told import (
    NOW,
    Answer,
    Table,
    answered,
    numbers,
    owners_at,
    table_owners,
    tables,
)
from tests.support.journal_builder import BEGINNING_MS, JournalBuilder
from tests.support.journals import handed_over, simulated
from tests.support.profiles import by_profile

Lines = Sequence[Line]


def moments(found: Table, count: int, rng: random.Random) -> list[int]:
    """Moments at which something changed, and others, over all of a group's time."""
    rows = found.get("ownership", [])
    ends = sorted({row[name] for row in rows for name in ("from_ms", "to_ms")} - {NOW})
    if not ends:
        return []
    at_turns = rng.sample(ends, min(count, len(ends)))
    return [
        *at_turns,
        *(each - 1 for each in at_turns),
        *(rng.randint(ends[0], ends[-1]) for _ in range(count)),
        ends[-1] + 1,
    ]


def assert_equal(lines: Lines, group: str, since_ms: int = 0, count: int = 60) -> None:
    """The owners at many moments, the gaps and overlaps, and the rebalances."""
    found = tables(lines, group, NOW)
    answer = answered(lines, group, since_ms)
    for at_ms in moments(found, count, random.Random(group)):
        if at_ms >= since_ms:
            assert owners_at(answer, at_ms) == table_owners(found, at_ms), at_ms
    assert faults_told(answer, since_ms) == faults_in(found, since_ms)
    assert rebalances_told(answer) == [
        (
            row["started_ms"],
            row["ended_ms"],
            row["outcome"],
            row["cause"],
            row["stopped_partition_ms"],
        )
        for row in found.get("rebalances", ())
        if row["ended_ms"] is None or row["ended_ms"] >= since_ms
    ]


def rebalances_told(answer: Answer) -> list[Any]:
    return [
        (
            *(row[name] for name in ("started_ms", "ended_ms", "outcome", "cause")),
            milliseconds(row["stopped_partition_seconds"]),
        )
        for row in reversed(answer["rebalances"])
    ]


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def faults_told(answer: Answer, since_ms: int) -> list[Any]:
    return sorted(
        (
            span["kind"],
            span["topic"],
            number,
            span["from_ms"],
            span["until_ms"] or NOW,
            span["cause"],
        )
        for span in answer["spans"]
        for number in numbers(span["partitions"])
        if (span["until_ms"] or NOW) > since_ms
    )


def faults_in(found: Table, since_ms: int) -> list[Any]:
    told = []
    for row in found.get("ownership_faults", ()):
        sure_ms = row["from_ms"] + row["sure_ms"]
        parts = [(row["fault"], row["from_ms"], row["to_ms"])]
        if row["fault"] == "overlap":
            parts = [
                ("overlap", row["from_ms"], sure_ms),
                ("possible_overlap", sure_ms, row["to_ms"]),
            ]
        told += [
            (kind, row["topic"], row["partition"], since, until, row["cause"])
            for kind, since, until in parts
            if until > max(since, since_ms)
        ]
    return sorted(told)


def groups_of(lines: Lines) -> list[str]:
    return sorted({line.event.group for line in lines} - {""})


@pytest.mark.parametrize("seed", range(by_profile(quick=1, long=15)))
@pytest.mark.parametrize("profile", ["swarm", "hostile"])
def test_simulated_groups(seed: int, profile: str) -> None:
    lines = simulated(seed, profile)
    for group in groups_of(lines):
        assert_equal(lines, group)


@pytest.mark.parametrize("seed", range(by_profile(quick=2, long=10)))
def test_groups_that_went_from_node_to_node(seed: int) -> None:
    lines = handed_over(simulated(seed, "hostile"), ("x", "y", "z"), {"y": 700})
    for group in groups_of(lines):
        assert_equal(lines, group)


@pytest.mark.parametrize("seed", range(by_profile(quick=2, long=10)))
def test_the_last_part_of_a_group_s_time(seed: int) -> None:
    lines = simulated(seed, "hostile")
    for group in groups_of(lines):
        own = [line.ts for line in lines if line.event.group == group]
        assert_equal(lines, group, since_ms=own[len(own) * 3 // 4])


def test_gap_from_before_many_rebalances_that_were_cut_short() -> None:
    builder = JournalBuilder("cut-short")
    for at in (0, 1_000, 2_000, 3_000, 4_000):
        builder.founded(at, a=[0], b=[1])
    builder.started(5_000, "member_joined", ["a", "b"])
    builder.gone(5_100, "b")
    for at in range(6_000, 16_000, 1_000):
        builder.phase(at, 100, {"a": (50, [0])})
        builder.joined(at + 1, f"c{at}")
        builder.started(at + 1, "member_joined", ["a"], from_state="CompletingRebalance")
    lines = [read_line(text) for texts in builder.files.values() for text in texts]
    assert faults_in(tables(lines, "cut-short", NOW), BEGINNING_MS + 12_000)
    assert_equal(lines, "cut-short", since_ms=BEGINNING_MS + 12_000)


STORIES = [builder() for builder in ownership.scenario.scenarios]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.group)
def test_stories(story: Any) -> None:
    lines = [read_line(text) for texts in story.files.values() for text in texts]
    for group in groups_of(lines):
        assert_equal(lines, group)
