"""Commits come in batches of any size, which change nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_pipeline.hourly.commits import Commits

_MOST = 2**63 - 1

#: The time of a commit, its member, and its offsets by partition of one of two topics.
Commit = tuple[int, str, dict[str, dict[str, int]]]

_OFFSETS = st.dictionaries(
    st.sampled_from("012"), st.integers(0, 5) | st.integers(-_MOST - 1, _MOST)
)
_COMMITS = st.lists(
    st.tuples(
        st.integers(0, 8_000_000),
        st.sampled_from(["a", "b", ""]),
        st.dictionaries(st.sampled_from("xy"), _OFFSETS),
    ),
    min_size=1,
    max_size=30,
).map(lambda commits: sorted(commits, key=lambda commit: commit[0]))


def rows_of(commits: list[Commit], size: int) -> list[dict[str, Any]]:
    """The rows, if so many commits come at once."""
    counting = Commits("g")
    rows: list[dict[str, Any]] = []
    for begin in range(0, len(commits), size):
        times, members, offsets = zip(*commits[begin : begin + size], strict=True)
        rows += counting.add(np.array(times), members, [json.dumps(each) for each in offsets])
    rows += counting.finish()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["hour_ms"]))


@given(commits=_COMMITS, size=st.integers(1, 7))
def test_batches_of_any_size_give_the_same_rows(commits: list[Commit], size: int) -> None:
    expected = rows_of(commits, len(commits))
    assert rows_of(commits, size) == expected
    assert all(-_MOST <= value <= _MOST for row in expected for value in numbers_in(row))


def numbers_in(row: dict[str, Any]) -> list[int]:
    """What has to fit into 64 bits; the offsets are as they came."""
    return [row[name] for name in ("advanced", "regressions", "deepest_regression", "commits")]


@pytest.mark.parametrize("topic", ["t", "a:{b", "}}", 'a"b', "\\", "é", "", ",", '":{'])
def test_topic_may_have_any_name(topic: str) -> None:
    commits: list[Commit] = [(at, "a", {topic: {"0": at, "12": 7}}) for at in range(3)]
    found = [(row["topic"], row["partition"], row["last_offset"]) for row in rows_of(commits, 3)]
    assert found == [(topic, 0, 2), (topic, 12, 7)]


@pytest.mark.parametrize("besides", ['{"t":{"1":1}}', '{"u":{"1":1}}'])
def test_of_a_partition_that_is_there_twice_the_last_offset_counts(besides: str) -> None:
    """Whatever else comes with it."""
    counting = Commits("g")
    rows = [*counting.add(np.array([1, 2]), ["a", "a"], ['{"t":{"0":5,"0":9}}', besides])]
    (row,) = [row for row in (*rows, *counting.finish()) if row["partition"] == 0]
    assert (row["commits"], row["first_offset"], row["last_offset"]) == (1, 9, 9)


def test_hour_sums_up_its_commits() -> None:
    hour_ms = 3_600_000
    commits: list[Commit] = [
        (0, "a", {"t": {"0": 10}}),
        (1_000, "a", {"t": {"0": 30}}),
        (2_000, "b", {"t": {"0": 25}}),
        (hour_ms, "", {"t": {"0": 40}}),
    ]
    first, second = rows_of(commits, 3)
    names = ("commits", "per_minute", "first_offset", "last_offset", "advanced", "regressions")
    assert [first[name] for name in names] == [3, 60.0, 10, 25, 20, 1]
    assert (first["deepest_regression"], first["members"], first["outside"]) == (5, 2, 0)
    # The step from the hour before counts.
    assert [second[name] for name in names] == [1, None, 40, 40, 15, 0]
    assert (second["members"], second["outside"]) == (0, 1)


def test_offsets_that_no_partition_has_add_up_to_the_most_that_fits() -> None:
    values = [-_MOST - 1, _MOST] * 3
    (row,) = rows_of([(at, "a", {"t": {"0": value}}) for at, value in enumerate(values)], 6)
    assert (row["advanced"], row["deepest_regression"]) == (_MOST, _MOST - 1)
