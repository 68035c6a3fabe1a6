"""Metadata: this node, and the topics with their partitions."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import MetadataRequest, MetadataRequestTopic
from coterie_protocol.schema import NIL_UUID
from coterie_server.only_told import only_told
from coterie_server.turns import AT_ONCE, Unfinished
from tests.server.topics.harness import CLUSTER, NODE, CatalogueHarness, changed, topic_id
from tests.support.requests import ADVERTISED, Asked
from tests.support.uncollected import uncollected

ALL = range(13)
NOT_ASKED = -(2**31)
ALL_TOPICS = MetadataRequest(topics=None)


def named(*names: str | None, **more: Any) -> MetadataRequest:
    """A request for topics by name."""
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=n) for n in names), **more)


def by_id(*numbers: int, **more: Any) -> MetadataRequest:
    """A request for topics by id."""
    topics = (MetadataRequestTopic(name=None, topic_id=topic_id(n)) for n in numbers)
    return MetadataRequest(topics=tuple(topics), **more)


def told(reply: Any) -> list[tuple[str | None, int, int]]:
    """Name, error and number of partitions of each topic in a reply."""
    return [(t.name, t.error_code, len(t.partitions)) for t in reply.topics]


def test_a_long_answer_that_is_dropped_is_gone_at_once() -> None:
    """In a cycle it would stay until all of the memory is looked at, with all others like it."""
    harness = CatalogueHarness()
    asked = Asked(named(*(f"t{number}" for number in range(AT_ONCE * 2))), 12)
    with uncollected():
        outcome = harness.catalogue.handle(asked, harness.now_ms)
        ((_, answer),) = outcome.replies
        assert isinstance(answer, Unfinished)
        left = weakref.ref(answer.making)
        del outcome, answer
        assert left() is None


# -- the node ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_every_version_names_one_broker_at_the_advertised_address(version: int) -> None:
    request = named() if version else named("t")
    (broker,) = CatalogueHarness().ask(request, version).brokers
    told = (broker.node_id, broker.host, broker.port, broker.rack)
    assert told == (NODE, ADVERTISED.host, ADVERTISED.port, None)


@pytest.mark.parametrize("version", ALL)
def test_the_node_is_the_controller_of_the_cluster(version: int) -> None:
    reply = CatalogueHarness().ask(named("t"), version)
    assert reply.controller_id == (NODE if version >= 1 else -1)
    assert reply.cluster_id == (CLUSTER if version >= 2 else None)


@pytest.mark.parametrize("version", ALL)
def test_every_partition_is_led_and_held_by_this_node(version: int) -> None:
    reply = CatalogueHarness().with_topics(t=3).ask(named("t"), version)
    (topic,) = reply.topics
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    epoch = 0 if version >= 7 else -1
    assert {
        (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    } == {(0, NODE, epoch, (NODE,), (NODE,))}
    assert {p.offline_replicas for p in topic.partitions} == {()}


def test_each_topic_has_its_own_number_of_partitions() -> None:
    harness = CatalogueHarness().with_topics(many=5, one=1, some=3)
    assert told(harness.ask(ALL_TOPICS)) == [("many", 0, 5), ("one", 0, 1), ("some", 0, 3)]
    harness.ensure("one", 7)
    assert told(harness.ask(named("some", "one"))) == [("some", 0, 3), ("one", 0, 7)]


@pytest.mark.parametrize("version", ALL)
def test_topic_ids_from_version_10(version: int) -> None:
    (topic,) = CatalogueHarness().with_topics(t=1).ask(named("t"), version).topics
    assert topic.topic_id == (topic_id(1) if version >= 10 else NIL_UUID)


def test_topic_ids_survive_a_restart() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2)
    before = harness.ask(ALL_TOPICS)
    harness.restart()
    assert harness.ask(ALL_TOPICS) == before


# -- which topics ------------------------------------------------------------------------------


def test_an_empty_list_is_all_topics_in_version_0() -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2)
    assert told(harness.ask(named(), 0)) == [("a", 0, 1), ("b", 0, 2)]


@pytest.mark.parametrize("version", ALL[1:])
def test_from_version_1_on_null_is_all_topics_and_empty_none(version: int) -> None:
    harness = CatalogueHarness().with_topics(a=1, b=2)
    assert told(harness.ask(ALL_TOPICS, version)) == [("a", 0, 1), ("b", 0, 2)]
    assert told(harness.ask(named(), version)) == []


def test_name_asked_for_twice_is_told_once() -> None:
    assert told(CatalogueHarness().with_topics(a=1).ask(named("a", "a"))) == [("a", 0, 1)]


def test_internal_names_are_marked() -> None:
    harness = CatalogueHarness(auto_create=False).with_topics(__consumer_offsets=1, a=1)
    reply = harness.ask(named("__consumer_offsets", "__transaction_state", "a"))
    assert [topic.is_internal for topic in reply.topics] == [True, True, False]


# -- by id -------------------------------------------------------------------------------------


def test_version_12_finds_topics_by_id() -> None:
    reply = CatalogueHarness().with_topics(a=1, b=2).ask(by_id(2, 99, 2))
    assert told(reply) == [("b", 0, 2), (None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert [t.topic_id for t in reply.topics] == [topic_id(2), topic_id(99)]


def test_once_an_id_is_given_names_are_not_looked_at() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    topics = (
        MetadataRequestTopic(name="other", topic_id=topic_id(1)),
        MetadataRequestTopic(name="new"),
    )
    assert told(harness.ask(MetadataRequest(topics=topics))) == [("a", 0, 1)]
    assert harness.counts == {"a": 1}


def test_a_deleted_topics_id_is_unknown() -> None:
    harness = CatalogueHarness().with_topics(a=1)
    harness.catalogue.recover([])
    assert told(harness.ask(by_id(1))) == [(None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "topic",
    [
        MetadataRequestTopic(name=None, topic_id=topic_id(1)),
        MetadataRequestTopic(name="x", topic_id=topic_id(1)),
        MetadataRequestTopic(name=None),
    ],
    ids=["id", "both", "neither"],
)
def test_ids_before_version_12_fail_the_whole_request(
    version: int, topic: MetadataRequestTopic
) -> None:
    request = MetadataRequest(topics=(topic, MetadataRequestTopic(name="a")))
    reply = CatalogueHarness().with_topics(a=1).ask(request, version)
    invalid = ErrorCode.INVALID_REQUEST
    assert told(reply) == [(topic.name or "", invalid, 0), ("a", invalid, 0)]
    assert reply.topics[0].topic_id == topic.topic_id
    assert (reply.brokers, reply.controller_id, reply.cluster_id) == ((), -1, None)


def test_empty_topic_next_to_an_id_is_ignored() -> None:
    """In version 12, a topic may have neither name nor id."""
    topics = (
        MetadataRequestTopic(name=None),
        MetadataRequestTopic(name=None, topic_id=topic_id(1)),
    )
    reply = CatalogueHarness().with_topics(a=1).ask(MetadataRequest(topics=topics))
    assert told(reply) == [("a", 0, 1)]


def test_topic_without_name_and_id_fails_the_whole_request() -> None:
    assert told(CatalogueHarness().ask(named(None))) == [("", ErrorCode.INVALID_REQUEST, 0)]


# -- automatic creation ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_a_missing_topic_is_in_the_reply_that_made_it(version: int) -> None:
    harness = CatalogueHarness(default_partitions=4)
    assert told(harness.ask(named("new"), version)) == [("new", 0, 4)]
    assert harness.changes == [changed("new", "created", 0, 4)]
    assert len(harness.stored) == 1


def test_asking_again_finds_the_topic_that_was_made() -> None:
    harness = CatalogueHarness()
    first, second = harness.ask(named("new")), harness.ask(named("new"))
    assert first == second
    assert len(harness.changes) == 1


@pytest.mark.parametrize("version", ALL[4:])
def test_from_version_4_on_a_client_may_forbid_creation(version: int) -> None:
    harness = CatalogueHarness()
    request = named("new", allow_auto_topic_creation=False)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(harness.ask(request, version)) == [("new", unknown, 0)]
    assert harness.counts == {}


@pytest.mark.parametrize("version", ALL)
def test_of_topics_that_are_only_to_be_told_of_none_is_made(version: int) -> None:
    harness = CatalogueHarness()
    topics = (only_told("gone"), MetadataRequestTopic(name="new"), only_told("bad name"))
    assert told(harness.send(MetadataRequest(topics=topics), version).message) == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ("new", 0, 1),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]
    assert harness.counts == {"new": 1}
    harness.ensure("gone", 3)
    assert told(harness.send(MetadataRequest(topics=topics[:1]), version).message) == [
        ("gone", 0, 3)
    ]


@pytest.mark.parametrize("version", ALL)
def test_the_operator_may_forbid_creation(version: int) -> None:
    harness = CatalogueHarness(auto_create=False)
    reply = harness.ask(named("new", "bad!"), version)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert told(reply) == [("new", unknown, 0), ("bad!", invalid, 0)]
    assert {topic.topic_id for topic in reply.topics} == {NIL_UUID}
    assert harness.counts == {}


@pytest.mark.parametrize("version", [0, 12])
def test_asking_for_all_topics_makes_none(version: int) -> None:
    harness = CatalogueHarness()
    assert told(harness.ask(ALL_TOPICS if version else named(), version)) == []
    assert harness.changes == []


@pytest.mark.parametrize("name", ["bad!", "", ".", "..", "x" * 250, "ta.ken"])
def test_impossible_names_are_told_and_not_made(name: str) -> None:
    harness = CatalogueHarness().with_topics(ta_ken=1)
    assert told(harness.ask(named(name))) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
    assert harness.changes == []


def test_the_controllers_log_is_not_made() -> None:
    """The name of the controllers' log stays unknown, as it does in Kafka."""
    harness = CatalogueHarness()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(harness.ask(named("__cluster_metadata"))) == [("__cluster_metadata", unknown, 0)]
    assert harness.changes == []


def test_a_request_for_more_than_10_000_new_partitions_makes_none() -> None:
    harness = CatalogueHarness(default_partitions=5_000).with_topics(old=1)
    policy = ErrorCode.POLICY_VIOLATION
    reply = harness.ask(named("a", "old", "b", "c", "bad!"))
    assert told(reply) == [
        ("a", policy, 0),
        ("old", 0, 1),
        ("b", policy, 0),
        ("c", policy, 0),
        ("bad!", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]
    assert told(harness.ask(named("a", "b"))) == [("a", 0, 5_000), ("b", 0, 5_000)]


def test_a_default_beyond_the_limit_makes_no_topic() -> None:
    harness = CatalogueHarness(default_partitions=11, max_partitions=10)
    assert told(harness.ask(named("a"))) == [("a", ErrorCode.POLICY_VIOLATION, 0)]


# -- authorized operations ---------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL[8:])
def test_operations_on_topics_are_told_when_asked(version: int) -> None:
    harness = CatalogueHarness(auto_create=False).with_topics(a=1)
    asked = harness.ask(named("a", "no", include_topic_authorized_operations=True), version)
    assert [t.topic_authorized_operations for t in asked.topics] == [3576, 3576]
    not_asked = harness.ask(named("a", "no"), version)
    assert [t.topic_authorized_operations for t in not_asked.topics] == [NOT_ASKED] * 2


def test_no_operations_on_an_unknown_id() -> None:
    reply = CatalogueHarness().ask(by_id(99, include_topic_authorized_operations=True))
    assert [t.topic_authorized_operations for t in reply.topics] == [NOT_ASKED]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_operations_on_the_cluster_are_told_when_asked(version: int) -> None:
    harness = CatalogueHarness()
    asked = harness.ask(named(include_cluster_authorized_operations=True), version)
    not_asked = harness.ask(named(), version)
    found = (asked.cluster_authorized_operations, not_asked.cluster_authorized_operations)
    assert found == (8096, NOT_ASKED)
