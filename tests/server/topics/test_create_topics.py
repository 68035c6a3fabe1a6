"""CreateTopics: what is made, what is refused, and in which order it is checked."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from coterie_protocol.schema import NIL_UUID
from tests.server.topics.harness import (
    NODE,
    CatalogueHarness,
    changed,
    new_topic,
    replicas,
    topic_id,
)

INVALID_TOPIC = ErrorCode.INVALID_TOPIC_EXCEPTION
ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
TOO_MANY = "Excessively large number of partitions per request."


def codes(results: list[Any]) -> list[tuple[str, int]]:
    """Name and error of each result."""
    return [(result.name, result.error_code) for result in results]


def refusal(harness: CatalogueHarness, topic: CreatableTopic) -> tuple[int, str | None]:
    """Ask for one topic that is to be refused; answer error and text."""
    before = harness.counts
    (result,) = harness.create(topic)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (NIL_UUID, -1, -1)
    assert (harness.counts, result.configs) == (before, ())
    return result.error_code, result.error_message


# -- success -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
def test_a_topic_is_made_in_every_version(version: int) -> None:
    harness = CatalogueHarness()
    request = CreateTopicsRequest(topics=(new_topic("orders", 3, 1),))
    (result,) = harness.ask(request, version).topics
    assert (result.name, result.error_code) == ("orders", 0)
    shape = (3, 1) if version >= 5 else (-1, -1)
    assert (result.num_partitions, result.replication_factor) == shape
    assert result.topic_id == (topic_id(1) if version >= 7 else NIL_UUID)
    assert result.error_message == (None if version >= 1 else "")
    assert harness.changes == [changed("orders", "created", 0, 3)]


def test_minus_one_takes_the_defaults() -> None:
    harness = CatalogueHarness(default_partitions=6)
    (result,) = harness.create(new_topic("orders"))
    assert (result.num_partitions, result.replication_factor) == (6, 1)
    assert harness.counts == {"orders": 6}


def test_assignments_give_the_number_of_partitions_in_any_order() -> None:
    harness = CatalogueHarness()
    parts = (replicas(1, NODE), replicas(0, NODE), replicas(2, NODE))
    (result,) = harness.create(new_topic("orders", assignments=parts))
    assert (result.num_partitions, harness.counts) == (3, {"orders": 3})


def test_settings_of_kafkas_topics_are_accepted() -> None:
    harness = CatalogueHarness()
    settings: dict[str, str | None] = {"retention.ms": "1000", "cleanup.policy": "compact"}
    (result,) = harness.create(new_topic("orders", 1, 1, configs=settings))
    assert (result.error_code, result.configs) == (0, ())


def test_one_refused_topic_does_not_keep_the_others_from_being_made() -> None:
    harness = CatalogueHarness()
    results = harness.create(new_topic("a", 1), new_topic("bad!", 1), new_topic("c", 2))
    assert codes(results) == [("a", 0), ("bad!", INVALID_TOPIC), ("c", 0)]
    assert harness.counts == {"a": 1, "c": 2}


def test_a_request_for_no_topics_has_no_results() -> None:
    assert CatalogueHarness().create() == []


# -- validate only -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 8))
def test_a_dry_run_is_answered_like_a_creation_and_changes_nothing(version: int) -> None:
    harness = CatalogueHarness()
    request = CreateTopicsRequest(topics=(new_topic("a", 2),), validate_only=True)
    (result,) = harness.ask(request, version).topics
    assert result.error_code == 0
    assert result.num_partitions == (2 if version >= 5 else -1)
    assert (harness.counts, harness.stored, harness.changes) == ({}, {}, [])


def test_the_id_of_a_dry_run_is_never_a_topics() -> None:
    harness = CatalogueHarness()
    (dry,) = harness.create(new_topic("a", 1), validate_only=True)
    (wet,) = harness.create(new_topic("a", 1))
    assert (dry.topic_id, wet.topic_id) == (topic_id(1), topic_id(2))


def test_a_dry_run_refuses_what_a_creation_would() -> None:
    harness = CatalogueHarness().with_topics(old=1)
    topics = (new_topic("old"), new_topic("bad!"), new_topic("c", 0), new_topic("d", 1, 2))
    dry, wet = harness.create(*topics, validate_only=True), harness.create(*topics)
    assert dry == wet


# -- duplicates --------------------------------------------------------------------------------


def test_a_name_that_comes_twice_is_refused_once_behind_the_others() -> None:
    harness = CatalogueHarness()
    results = harness.create(new_topic("twice", 1), new_topic("a", 1), new_topic("twice", 2))
    assert codes(results) == [("a", 0), ("twice", ErrorCode.INVALID_REQUEST)]
    assert results[1].error_message == "Duplicate topic name."
    assert harness.counts == {"a": 1}


def test_the_controllers_log_is_refused() -> None:
    results = CatalogueHarness().create(new_topic("__cluster_metadata", 1), new_topic("a", 1))
    assert codes(results) == [("a", 0), ("__cluster_metadata", ErrorCode.INVALID_REQUEST)]
    text = "Creation of internal topic __cluster_metadata is prohibited."
    assert results[1].error_message == text


def test_the_controllers_log_named_twice_is_a_duplicate() -> None:
    name = "__cluster_metadata"
    (result,) = CatalogueHarness().create(new_topic(name), new_topic(name))
    assert result.error_message == "Duplicate topic name."


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_request_for_more_than_10_000_partitions_fails_whole(validate_only: bool) -> None:  # noqa: FBT001  # a parameter of the test
    harness = CatalogueHarness()
    names = ["a", "b", "bad!", "twice", "twice"]
    topics = (new_topic(n, 5_000 if n in {"a", "b"} else 1) for n in names)
    results = harness.create(*topics, validate_only=validate_only)
    assert codes(results) == [(name, ErrorCode.POLICY_VIOLATION) for name in names]
    assert {result.error_message for result in results} == {TOO_MANY}
    assert harness.counts == {}


def test_a_request_for_10_000_partitions_passes() -> None:
    harness = CatalogueHarness()
    topics = [new_topic("a", 5_000), new_topic("b", 4_999), new_topic("c"), new_topic("d", -500)]
    results = harness.create(*topics, new_topic("twice", 9_000), new_topic("twice", 9_000))
    assert codes(results)[:4] == [("a", 0), ("b", 0), ("c", 0), ("d", ErrorCode.INVALID_PARTITIONS)]


def test_assigned_partitions_count_towards_a_requests_limit() -> None:
    parts = tuple(replicas(index, NODE) for index in range(10_001))
    code, text = refusal(CatalogueHarness(), new_topic("a", assignments=parts))
    assert (code, text) == (ErrorCode.POLICY_VIOLATION, TOO_MANY)


def test_a_topic_with_more_partitions_than_the_setting_allows_is_refused() -> None:
    harness = CatalogueHarness(max_partitions=100)
    results = harness.create(new_topic("a", 100), new_topic("b", 101), new_topic("c", 100))
    assert codes(results) == [("a", 0), ("b", ErrorCode.POLICY_VIOLATION), ("c", 0)]
    assert results[1].error_message == "topic.max.partitions is 100, and it would have 101."


def test_where_both_limits_are_passed_the_operators_setting_is_told() -> None:
    harness = CatalogueHarness(max_partitions=100)
    results = harness.create(new_topic("a", 20_000), new_topic("b", 1))
    assert [result.error_message for result in results] == [
        "topic.max.partitions is 100, and it would have 20000.",
        TOO_MANY,
    ]


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("!" * 250, f"the length of '{'!' * 250}' is longer than the max allowed length 249"),
        *((name, f"'{name}' {ILLEGAL}") for name in ("a b", "ä", "a\n", "a/b", "٣", "a\0")),
    ],
)
def test_impossible_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    expected = (INVALID_TOPIC, f"Topic name is invalid: {reason}")
    assert refusal(CatalogueHarness(), new_topic(name, 1)) == expected


@pytest.mark.parametrize("version", range(8))
@pytest.mark.parametrize("letter", ["x", "漢", "\U0001f600"])
def test_refusals_that_quote_the_longest_texts_fit_their_answers(letter: str, version: int) -> None:
    """Whatever a client calls its topic and settings, the refusal can be sent."""
    longest = letter * (32_767 // len(letter.encode()))
    topics = (new_topic(longest, 1, 1), new_topic("a", 1, 1, configs={longest: None}))
    reply = CatalogueHarness().ask(CreateTopicsRequest(topics=topics), version)
    assert codes(reply.topics) == [(longest, INVALID_TOPIC), ("a", ErrorCode.INVALID_CONFIG)]


@pytest.mark.parametrize("name", ["a", "...", "A-Z_0.9", "x" * 249, "-", "__consumer_offsets"])
def test_odd_names_that_kafka_takes_are_taken(name: str) -> None:
    (result,) = CatalogueHarness().create(new_topic(name, 1))
    assert result.error_code == 0


def test_a_name_is_given_once() -> None:
    expected = (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists.")
    assert refusal(CatalogueHarness().with_topics(old=1), new_topic("old", 1)) == expected


@pytest.mark.parametrize(("old", "new"), [("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_a_name_that_differs_in_dots_and_underscores_alone_is_refused(old: str, new: str) -> None:
    expected = (INVALID_TOPIC, f"Topic '{new}' collides with existing topic: {old}")
    assert refusal(CatalogueHarness().with_topics(**{old: 1}), new_topic(new, 1)) == expected


def test_lookalikes_in_one_request() -> None:
    """As in Kafka, names are compared with those that exist, so two new ones pass together."""
    harness = CatalogueHarness()
    assert codes(harness.create(new_topic("a.b", 1), new_topic("a_b", 1))) == [
        ("a.b", 0),
        ("a_b", 0),
    ]
    # And either of them is found to exist, not to collide with the other.
    code, _ = refusal(harness, new_topic("a.b", 1))
    assert code == ErrorCode.TOPIC_ALREADY_EXISTS


# -- settings ----------------------------------------------------------------------------------


def test_settings_without_a_value_are_named_before_unknown_ones() -> None:
    settings = {"what": "1", "k": None, "retention.ms": None}
    expected = (
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: k,retention.ms",
    )
    assert refusal(CatalogueHarness(), new_topic("a", 1, configs=settings)) == expected


def test_an_unknown_setting_is_refused() -> None:
    """A setting that Kafka's topics don't have is a mistake, most likely a typing error."""
    settings: dict[str, str | None] = {"retention.ms": "1", "retention.mss": "1"}
    expected = (ErrorCode.INVALID_CONFIG, "Unknown topic config name: retention.mss")
    assert refusal(CatalogueHarness(), new_topic("a", 1, configs=settings)) == expected


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0, -2])
def test_a_topic_needs_a_replica(factor: int) -> None:
    expected = (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    )
    assert refusal(CatalogueHarness(), new_topic("a", 1, factor)) == expected


@pytest.mark.parametrize("partitions", [0, -2])
def test_a_topic_needs_a_partition(partitions: int) -> None:
    expected = (
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    )
    assert refusal(CatalogueHarness(), new_topic("a", partitions)) == expected


def test_one_node_can_not_hold_two_replicas() -> None:
    code, text = refusal(CatalogueHarness(), new_topic("a", 1, 2))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text is not None
    assert text.endswith("factor of 2 cannot be reached because only 1 broker(s) are registered.")


# -- assignments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        (
            (replicas(0, NODE), replicas(0)),
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            (replicas(0, NODE), replicas(1)),
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            (replicas(0, 99),),
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        (
            (replicas(0, NODE, NODE),),
            "The manual partition assignment includes the broker 7 more than once.",
        ),
        (
            (replicas(0, NODE), replicas(2, NODE)),
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            (replicas(-1, NODE), replicas(0, NODE)),
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            (replicas(5, 99),),
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
    ],
)
def test_bad_assignments_are_refused(
    assignments: tuple[CreatableReplicaAssignment, ...], text: str
) -> None:
    assert refusal(CatalogueHarness(), new_topic("a", assignments=assignments)) == (
        ASSIGNMENT,
        text,
    )


@pytest.mark.parametrize(
    ("partitions", "factor", "what"),
    [(-1, 1, "replication factor"), (1, -1, "numPartitions"), (1, 1, "replication factor")],
)
def test_assignments_exclude_numbers_of_partitions_and_replicas(
    partitions: int, factor: int, what: str
) -> None:
    topic = new_topic("a", partitions, factor, (replicas(0, 99),))
    text = f"A manual partition assignment was specified, but {what} was not set to -1."
    assert refusal(CatalogueHarness(), topic) == (ErrorCode.INVALID_REQUEST, text)


# -- order -------------------------------------------------------------------------------------


def test_the_checks_have_kafkas_order() -> None:
    harness = CatalogueHarness(max_partitions=1).with_topics(exists=1, loo_kalike=1)
    nulls: dict[str, str | None] = {"what": None}
    unknown: dict[str, str | None] = {"what": "1"}
    topics = [
        new_topic("exists", -5, 0, configs=nulls),
        new_topic("loo.kalike", -5, 0, configs=nulls),
        new_topic("bad!", -5, 0, configs=nulls),
        new_topic("null", -5, 0, configs=nulls),
        new_topic("unknown", -5, 0, configs=unknown),
        new_topic("factor", -5, 0),
        new_topic("number", -5, 2),
        new_topic("nodes", 2, 2),
        new_topic("size", 2, 1),
    ]
    assert [code for _, code in codes(harness.create(*topics))] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        INVALID_TOPIC,
        INVALID_TOPIC,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.POLICY_VIOLATION,
    ]
