"""CreatePartitions: topics grow, and never shrink."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.server.topics.harness import NODE, CatalogueHarness, changed

INVALID = ErrorCode.INVALID_PARTITIONS
ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
TOO_MANY = "Excessively large number of partitions per request."


def growth(name: str, count: int, assignments: list[list[int]] | None = None) -> Any:
    """How a topic is to grow."""
    parts = None
    if assignments is not None:
        parts = tuple(CreatePartitionsAssignment(broker_ids=tuple(ids)) for ids in assignments)
    return CreatePartitionsTopic(name=name, count=count, assignments=parts)


def ask(
    harness: CatalogueHarness,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    validate_only: bool = False,
) -> list[tuple[str, int, str | None]]:
    """Ask; answer name, error and text of each result."""
    request = CreatePartitionsRequest(topics=topics, timeout_ms=0, validate_only=validate_only)
    results = harness.ask(request, version).results
    return [(r.name, r.error_code, r.error_message) for r in results]


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_in_every_version(version: int) -> None:
    harness = CatalogueHarness().with_topics(t=2)
    assert ask(harness, growth("t", 5), version=version) == [("t", 0, None)]
    assert harness.changes == [changed("t", "grown", 2, 5)]
    assert [row.partitions for row in harness.catalogue.topics.values()] == [5]
    harness.restart()
    assert harness.counts == {"t": 5}


def test_new_partitions_may_be_assigned_to_this_node() -> None:
    harness = CatalogueHarness().with_topics(t=2)
    assert ask(harness, growth("t", 4, [[NODE], [NODE]])) == [("t", 0, None)]
    assert harness.counts == {"t": 4}


@pytest.mark.parametrize("version", range(4))
def test_a_dry_run_is_answered_like_growth_and_changes_nothing(version: int) -> None:
    harness = CatalogueHarness().with_topics(t=2)
    found = ask(harness, growth("t", 5), growth("no", 1), version=version, validate_only=True)
    assert [code for _, code, _ in found] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (harness.counts, harness.changes, harness.answer.records) == ({"t": 2}, [], [])


def test_one_refused_topic_does_not_keep_the_others_from_growing() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=1)
    found = ask(harness, growth("a", 2), growth("no", 2), growth("b", 3))
    assert [code for _, code, _ in found] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert harness.counts == {"a": 2, "b": 3}


def test_a_name_that_comes_twice_does_not_grow_and_is_told_once_first() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=1)
    found = ask(harness, growth("b", 2), growth("a", 2), growth("a", 3))
    assert found == [("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."), ("b", 0, None)]
    assert harness.counts == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        (growth("no", 0, [[]]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (growth("t", 3, [[99]]), INVALID, "Topic already has 3 partition(s)."),
        (
            growth("t", 2, [[99]]),
            INVALID,
            "The topic t currently has 3 partition(s); 2 would not be an increase.",
        ),
        (
            growth("t", -4),
            INVALID,
            "The topic t currently has 3 partition(s); -4 would not be an increase.",
        ),
        (
            growth("t", 5, []),
            ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            growth("t", 4, [[99], [99]]),
            ASSIGNMENT,
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
        ),
        (
            growth("t", 5, [[NODE], []]),
            ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            growth("t", 4, [[NODE, NODE]]),
            ASSIGNMENT,
            "The manual partition assignment includes the broker 7 more than once.",
        ),
        (
            growth("t", 101, [[99]] * 98),
            ASSIGNMENT,
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        (
            growth("t", 101),
            ErrorCode.POLICY_VIOLATION,
            "topic.max.partitions is 100, and it would have 101.",
        ),
    ],
)
def test_the_first_thing_that_is_wrong_is_told(
    topic: CreatePartitionsTopic, code: int, text: str | None
) -> None:
    harness = CatalogueHarness(max_partitions=100).with_topics(t=3)
    assert ask(harness, topic) == [(topic.name, code, text)]
    assert harness.counts == {"t": 3}


def test_a_request_for_more_than_10_000_new_partitions_fails_whole() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=1)
    found = ask(harness, growth("a", 5_001), growth("b", 5_002), growth("no", 1))
    assert found == [(name, ErrorCode.POLICY_VIOLATION, TOO_MANY) for name in ("a", "b", "no")]
    assert harness.counts == {"a": 1, "b": 1}


def test_a_request_for_10_000_new_partitions_passes() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=4_000, c=3)
    found = ask(
        harness, growth("a", 5_001), growth("b", 9_000), growth("no", 9_000), growth("c", 1)
    )
    assert [code for _, code, _ in found] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, INVALID]


def test_where_both_limits_are_passed_the_operators_setting_is_told() -> None:
    harness = CatalogueHarness(max_partitions=100).with_topics(a=1)
    text = "topic.max.partitions is 100, and it would have 20000."
    assert ask(harness, growth("a", 20_000)) == [("a", ErrorCode.POLICY_VIOLATION, text)]
