"""Topics asked for at start, what others are told, and recovery."""

from __future__ import annotations

import pytest

from coterie_protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    HeartbeatRequest,
)
from coterie_server.topics import Gone, TopicRefusal, TopicRow
from tests.server.topics.harness import CatalogueHarness, changed, new_topic, topic_id
from tests.support.requests import Asked


def grow(name: str, count: int) -> CreatePartitionsRequest:
    """A request that a topic grow."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=(topic,), timeout_ms=0, validate_only=False)


def delete(*names: str) -> DeleteTopicsRequest:
    """A request that topics go; of version 5."""
    return DeleteTopicsRequest(topic_names=names, timeout_ms=0)


# -- ensure ------------------------------------------------------------------------------------


def test_ensure_makes_stores_and_tells_a_missing_topic() -> None:
    harness = CatalogueHarness()
    harness.ensure("orders", 4)
    row = TopicRow(
        name="orders",
        topic_id=topic_id(1),
        partitions=4,
        created_at_ms=1_000,
        changed_at_ms=1_000,
    )
    assert harness.answer.records == [row]
    assert harness.changes == [changed("orders", "created", 0, 4)]


def test_ensure_grows_a_topic_that_keeps_its_id_and_its_birthday() -> None:
    harness = CatalogueHarness().with_topics(orders=4)
    harness.now_ms += 500
    harness.ensure("orders", 6)
    row = TopicRow(
        name="orders",
        topic_id=topic_id(1),
        partitions=6,
        created_at_ms=1_000,
        changed_at_ms=1_500,
    )
    assert harness.answer.records == [row]
    assert harness.changes == [changed("orders", "grown", 4, 6)]


def test_ensure_leaves_a_topic_that_is_right() -> None:
    harness = CatalogueHarness().with_topics(orders=4)
    harness.ensure("orders", 4)
    assert (harness.answer.records, harness.changes) == ([], [])


@pytest.mark.parametrize(
    ("name", "partitions", "why", "sentence"),
    [
        ("orders", 3, "shrink", "Topic 'orders' has 4 partitions and can't shrink to 3"),
        ("orders", 0, "too_few", "Topic 'orders' can't have 0 partitions"),
        ("new", -1, "too_few", "Topic 'new' can't have -1 partitions"),
        ("orders", 101, "too_many", "topic.max.partitions is 100"),
        ("new", 101, "too_many", "topic.max.partitions is 100"),
        ("a b", 1, "invalid_name", "Topic name is invalid: 'a b' contains"),
        ("or.ders", 1, "invalid_name", "collides with existing topic: or_ders"),
        ("__cluster_metadata", 1, "invalid_name", "can't be called __cluster_metadata"),
    ],
)
def test_ensure_refuses_by_name_and_changes_nothing(
    name: str, partitions: int, why: str, sentence: str
) -> None:
    harness = CatalogueHarness(max_partitions=100).with_topics(orders=4, or_ders=1)
    with pytest.raises(TopicRefusal) as refusal:
        harness.ensure(name, partitions)
    assert refusal.value.name == why
    assert sentence in str(refusal.value)
    assert harness.counts == {"orders": 4, "or_ders": 1}


def test_ensure_may_exceed_what_one_request_may() -> None:
    """The operator's own topics are bounded by the setting, not by Kafka's limit for requests."""
    harness = CatalogueHarness(max_partitions=20_000)
    harness.ensure("orders", 20_000)
    assert harness.counts == {"orders": 20_000}


# -- what others see ---------------------------------------------------------------------------


def test_the_mapping_of_counts_shows_every_change_and_recovery() -> None:
    harness = CatalogueHarness()
    counts = harness.catalogue.counts
    seen = []
    harness.create(new_topic("orders", 2))
    seen.append(dict(counts))
    harness.ask(grow("orders", 5))
    seen.append(dict(counts))
    harness.ask(delete("orders"), 5)
    seen.append(dict(counts))
    row = TopicRow(name="back", topic_id=topic_id(9), partitions=1, created_at_ms=0)
    harness.catalogue.recover([row])
    seen.append(dict(counts))
    assert seen == [{"orders": 2}, {"orders": 5}, {}, {"back": 1}]
    assert harness.catalogue.counts is counts


def test_each_changed_topic_is_told_with_its_counts_before_and_after() -> None:
    harness = CatalogueHarness(default_partitions=3).with_topics(a=1, b=2)
    harness.create(new_topic("c", 1), new_topic("d"))
    harness.ask(grow("a", 5))
    harness.ask(delete("b", "c"), 5)
    assert harness.changes == [
        changed("c", "created", 0, 1),
        changed("d", "created", 0, 3),
        changed("a", "grown", 1, 5),
        changed("b", "deleted", 2, 0),
        changed("c", "deleted", 1, 0),
    ]


def test_a_deletion_leaves_a_record() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    harness.ask(delete("a"), 5)
    assert (harness.answer.records, harness.stored) == ([Gone("a")], {})


def test_topics_are_shown_by_name() -> None:
    harness = CatalogueHarness().with_topics(orders=4)
    assert harness.catalogue.topics["orders"].topic_id == topic_id(1)


# -- recovery ----------------------------------------------------------------------------------


def test_recovery_restores_topics_ids_counts_and_birthdays() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2, gone=3)
    harness.now_ms += 10
    harness.ask(grow("a", 7))
    harness.ask(delete("gone"), 5)
    before = dict(harness.catalogue.topics)
    harness.restart()
    assert dict(harness.catalogue.topics) == before
    assert harness.counts == {"a": 7, "b": 2}


def test_recovery_forgets_what_was_not_stored() -> None:
    harness = CatalogueHarness().with_topics(kept=1)
    stored = list(harness.catalogue.topics.values())
    harness.create(new_topic("lo.st", 1))
    harness.catalogue.recover(stored)
    assert harness.counts == {"kept": 1}
    (result,) = harness.create(new_topic("lo_st", 1))
    assert result.error_code == 0


def test_a_topic_made_anew_has_another_id() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    harness.ask(delete("a"), 5)
    (result,) = harness.create(new_topic("a", 1))
    assert result.topic_id == topic_id(2)


def test_a_request_that_is_not_about_topics_is_a_bug() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=0, member_id="m")
    with pytest.raises(KeyError):
        CatalogueHarness().catalogue.handle(Asked(request, 0), 0)
