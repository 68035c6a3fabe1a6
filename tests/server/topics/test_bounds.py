"""`max.topics` and `max.partitions`: how much the catalogue holds at most."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from coterie_server.step import LimitHit
from coterie_server.topics import TopicRefusal
from tests.server.topics.harness import CatalogueHarness, new_topic

POLICY = ErrorCode.POLICY_VIOLATION
TOPICS_TEXT = "max.topics is 2, and there are 2 already."


def told(results: list[Any]) -> list[tuple[str, int, str | None]]:
    """Name, error and text of each result."""
    return [(r.name, r.error_code, r.error_message) for r in results]


def hits(harness: CatalogueHarness) -> list[LimitHit]:
    """The limits that were hit by the last request."""
    return list(harness.answer.limit_hits)


def grow(
    harness: CatalogueHarness, *wishes: tuple[str, int], validate_only: bool = False
) -> list[Any]:
    """Ask for more partitions; name, error and text of each result."""
    topics = tuple(CreatePartitionsTopic(name=n, count=c, assignments=None) for n, c in wishes)
    request = CreatePartitionsRequest(topics=topics, timeout_ms=0, validate_only=validate_only)
    return told(harness.ask(request).results)


def look(harness: CatalogueHarness, *names: str) -> list[tuple[str, int, int]]:
    """Ask for topics and allow that they are created; name, error and number of partitions."""
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    found = harness.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9).topics
    return [(t.name, t.error_code, len(t.partitions)) for t in found]


# -- max.topics --------------------------------------------------------------------------------


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_first_topics_of_a_request_get_the_places_that_are_left(*, validate_only: bool) -> None:
    harness = CatalogueHarness(max_topics=2).with_topics(a=1)
    results = harness.create(new_topic("b", 1), new_topic("c", 1), validate_only=validate_only)
    assert told(results) == [("b", 0, None), ("c", POLICY, TOPICS_TEXT)]
    assert harness.counts == ({"a": 1} if validate_only else {"a": 1, "b": 1})


def test_deleted_topics_make_room() -> None:
    harness = CatalogueHarness(max_topics=1).with_topics(a=1)
    harness.ask(DeleteTopicsRequest(topic_names=("a",), timeout_ms=0), 5)
    assert told(harness.create(new_topic("b", 1))) == [("b", 0, None)]


def test_a_topic_refused_for_another_reason_takes_no_place() -> None:
    harness = CatalogueHarness(max_topics=1)
    (bad, good) = told(harness.create(new_topic("no/name", 1), new_topic("b", 1)))
    assert bad[1] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert good == ("b", 0, None)


def test_automatic_creation_stops_at_the_limit_of_topics() -> None:
    harness = CatalogueHarness(max_topics=2).with_topics(a=3)
    assert look(harness, "b", "c", "a") == [("b", 0, 1), ("c", POLICY, 0), ("a", 0, 3)]
    assert harness.counts == {"a": 3, "b": 1}


def test_a_topic_that_grows_takes_no_place() -> None:
    harness = CatalogueHarness(max_topics=1).with_topics(a=1)
    assert grow(harness, ("a", 9)) == [("a", 0, None)]


# -- max.partitions ----------------------------------------------------------------------------


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_does_not_fit_leaves_room_for_a_smaller_one(*, validate_only: bool) -> None:
    harness = CatalogueHarness(max_partitions_in_all=10).with_topics(a=4)
    wishes = (new_topic("b", 5), new_topic("c", 2), new_topic("d", 1))
    text = "max.partitions is 10, and there would be 11."
    assert told(harness.create(*wishes, validate_only=validate_only)) == [
        ("b", 0, None),
        ("c", POLICY, text),
        ("d", 0, None),
    ]


@pytest.mark.parametrize("validate_only", [False, True])
def test_growth_counts_by_what_is_added(*, validate_only: bool) -> None:
    harness = CatalogueHarness(max_partitions_in_all=10).with_topics(a=4, b=4)
    text = "max.partitions is 10, and there would be 11."
    assert grow(harness, ("a", 5), ("b", 6), validate_only=validate_only) == [
        ("a", 0, None),
        ("b", POLICY, text),
    ]
    assert harness.counts == {"a": 4 if validate_only else 5, "b": 4}


def test_automatic_creation_stops_at_the_limit_of_partitions() -> None:
    harness = CatalogueHarness(max_partitions_in_all=5, default_partitions=2)
    assert look(harness, "a", "b", "c") == [("a", 0, 2), ("b", 0, 2), ("c", POLICY, 0)]


def test_limits_count_what_was_read_back() -> None:
    harness = CatalogueHarness(max_topics=2, max_partitions_in_all=10).with_topics(a=4)
    assert grow(harness, ("a", 9)) == [("a", 0, None)]
    harness.restart()
    assert [code for _, code, _ in told(harness.create(new_topic("b", 2)))] == [POLICY]
    assert [code for _, code, _ in told(harness.create(new_topic("b", 1), new_topic("c", 1)))] == [
        0,
        POLICY,
    ]


def test_lowered_limits_take_nothing_away() -> None:
    harness = CatalogueHarness(max_topics=0, max_partitions_in_all=0)
    harness.config = CatalogueHarness(max_topics=3, max_partitions_in_all=9).config
    harness.restart()
    harness.with_topics(a=4, b=5)
    harness.config = CatalogueHarness(max_topics=1, max_partitions_in_all=2).config
    harness.restart()
    assert harness.counts == {"a": 4, "b": 5}
    harness.ensure("a", 4)
    assert grow(harness, ("a", 5))[0][1] == POLICY


# -- who is told -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_topics": 1}, "max.topics is 1, and there are 1 already."),
        ({"max_partitions_in_all": 3}, "max.partitions is 3, and there would be 6."),
    ],
)
def test_a_topic_that_the_operator_asks_for_is_refused_in_a_sentence(
    settings: dict[str, int], sentence: str
) -> None:
    harness = CatalogueHarness(**settings).with_topics(a=1)
    with pytest.raises(TopicRefusal) as caught:
        harness.ensure("b", 5)
    assert caught.value.name == "too_many"
    assert str(caught.value) == f"Topic 'b' can't have 5 partitions: {sentence}"
    assert harness.counts == {"a": 1}


def test_the_limits_that_were_hit_are_noted() -> None:
    harness = CatalogueHarness(max_topics=2, max_partitions_in_all=5).with_topics(a=1)
    harness.create(new_topic("b", 5), new_topic("c", 1), new_topic("d", 1))
    assert hits(harness) == [
        LimitHit("max.partitions", 5, "topic b"),
        LimitHit("max.topics", 2, "topic d"),
    ]
    look(harness, "a")
    assert hits(harness) == []
    look(harness, "e")
    assert hits(harness) == [LimitHit("max.topics", 2, "topic e")]


def test_the_limit_of_a_single_topic_is_noted() -> None:
    harness = CatalogueHarness(max_partitions=3).with_topics(a=1)
    harness.create(new_topic("b", 4))
    assert hits(harness) == [LimitHit("topic.max.partitions", 3, "topic b")]
    grow(harness, ("a", 4))
    assert hits(harness) == [LimitHit("topic.max.partitions", 3, "topic a")]
