"""Metadata: this node, and the topics with their partitions."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import MetadataRequest, MetadataRequestTopic
from coterie_protocol.schema import NIL_UUID
from tests.server.topics.room import CLUSTER, NODE, Room, changed, topic_id
from tests.support.requests import ADVERTISED

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


# -- the node ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_every_version_names_one_broker_at_the_advertised_address(version: int) -> None:
    request = named() if version else named("t")
    (broker,) = Room().ask(request, version).brokers
    told = (broker.node_id, broker.host, broker.port, broker.rack)
    assert told == (NODE, ADVERTISED.host, ADVERTISED.port, None)


@pytest.mark.parametrize("version", ALL)
def test_the_node_is_the_controller_of_the_cluster(version: int) -> None:
    reply = Room().ask(named("t"), version)
    assert reply.controller_id == (NODE if version >= 1 else -1)
    assert reply.cluster_id == (CLUSTER if version >= 2 else None)


@pytest.mark.parametrize("version", ALL)
def test_every_partition_is_led_and_held_by_this_node(version: int) -> None:
    reply = Room().with_topics(t=3).ask(named("t"), version)
    (topic,) = reply.topics
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    epoch = 0 if version >= 7 else -1
    assert {
        (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    } == {(0, NODE, epoch, (NODE,), (NODE,))}
    assert {p.offline_replicas for p in topic.partitions} == {()}


def test_each_topic_has_its_own_number_of_partitions() -> None:
    room = Room().with_topics(many=5, one=1, some=3)
    assert told(room.ask(ALL_TOPICS)) == [("many", 0, 5), ("one", 0, 1), ("some", 0, 3)]
    room.ensure("one", 7)
    assert told(room.ask(named("some", "one"))) == [("some", 0, 3), ("one", 0, 7)]


@pytest.mark.parametrize("version", ALL)
def test_topic_ids_from_version_10(version: int) -> None:
    (topic,) = Room().with_topics(t=1).ask(named("t"), version).topics
    assert topic.topic_id == (topic_id(1) if version >= 10 else NIL_UUID)


def test_topic_ids_survive_a_restart() -> None:
    room = Room().with_topics(a=1, b=2)
    before = room.ask(ALL_TOPICS)
    room.restart()
    assert room.ask(ALL_TOPICS) == before


# -- which topics ------------------------------------------------------------------------------


def test_an_empty_list_is_all_topics_in_version_0() -> None:
    room = Room().with_topics(a=1, b=2)
    assert told(room.ask(named(), 0)) == [("a", 0, 1), ("b", 0, 2)]


@pytest.mark.parametrize("version", ALL[1:])
def test_from_version_1_on_null_is_all_topics_and_empty_none(version: int) -> None:
    room = Room().with_topics(a=1, b=2)
    assert told(room.ask(ALL_TOPICS, version)) == [("a", 0, 1), ("b", 0, 2)]
    assert told(room.ask(named(), version)) == []


def test_name_asked_for_twice_is_told_once() -> None:
    assert told(Room().with_topics(a=1).ask(named("a", "a"))) == [("a", 0, 1)]


def test_internal_names_are_marked() -> None:
    room = Room(auto_create=False).with_topics(__consumer_offsets=1, a=1)
    reply = room.ask(named("__consumer_offsets", "__transaction_state", "a"))
    assert [topic.is_internal for topic in reply.topics] == [True, True, False]


# -- by id -------------------------------------------------------------------------------------


def test_version_12_finds_topics_by_id() -> None:
    reply = Room().with_topics(a=1, b=2).ask(by_id(2, 99, 2))
    assert told(reply) == [("b", 0, 2), (None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert [t.topic_id for t in reply.topics] == [topic_id(2), topic_id(99)]


def test_once_an_id_is_given_names_are_not_looked_at() -> None:
    room = Room().with_topics(a=1)
    topics = (
        MetadataRequestTopic(name="other", topic_id=topic_id(1)),
        MetadataRequestTopic(name="new"),
    )
    assert told(room.ask(MetadataRequest(topics=topics))) == [("a", 0, 1)]
    assert room.counts == {"a": 1}


def test_a_deleted_topics_id_is_unknown() -> None:
    room = Room().with_topics(a=1)
    room.catalogue.recover([])
    assert told(room.ask(by_id(1))) == [(None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]


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
    reply = Room().with_topics(a=1).ask(request, version)
    invalid = ErrorCode.INVALID_REQUEST
    assert told(reply) == [(topic.name or "", invalid, 0), ("a", invalid, 0)]
    assert reply.topics[0].topic_id == topic.topic_id
    assert (reply.brokers, reply.controller_id, reply.cluster_id) == ((), -1, None)


def test_nothing_next_to_an_id_is_passed_over() -> None:
    """Version 12 can say nothing at all in place of a topic; next to an id it does no harm."""
    topics = (
        MetadataRequestTopic(name=None),
        MetadataRequestTopic(name=None, topic_id=topic_id(1)),
    )
    reply = Room().with_topics(a=1).ask(MetadataRequest(topics=topics))
    assert told(reply) == [("a", 0, 1)]


def test_topic_without_name_and_id_fails_the_whole_request() -> None:
    """A request that names nothing at all is none."""
    assert told(Room().ask(named(None))) == [("", ErrorCode.INVALID_REQUEST, 0)]


# -- automatic creation ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_a_missing_topic_is_in_the_reply_that_made_it(version: int) -> None:
    room = Room(default_partitions=4)
    assert told(room.ask(named("new"), version)) == [("new", 0, 4)]
    assert room.changes == [changed("new", "created", 0, 4)]
    assert len(room.stored) == 1


def test_asking_again_finds_the_topic_that_was_made() -> None:
    room = Room()
    first, second = room.ask(named("new")), room.ask(named("new"))
    assert first == second
    assert len(room.changes) == 1


@pytest.mark.parametrize("version", ALL[4:])
def test_from_version_4_on_a_client_may_forbid_creation(version: int) -> None:
    room = Room()
    request = named("new", allow_auto_topic_creation=False)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(room.ask(request, version)) == [("new", unknown, 0)]
    assert room.counts == {}


@pytest.mark.parametrize("version", ALL)
def test_the_operator_may_forbid_creation(version: int) -> None:
    room = Room(auto_create=False)
    reply = room.ask(named("new", "bad!"), version)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert told(reply) == [("new", unknown, 0), ("bad!", invalid, 0)]
    assert {topic.topic_id for topic in reply.topics} == {NIL_UUID}
    assert room.counts == {}


@pytest.mark.parametrize("version", [0, 12])
def test_asking_for_all_topics_makes_none(version: int) -> None:
    room = Room()
    assert told(room.ask(ALL_TOPICS if version else named(), version)) == []
    assert room.changes == []


@pytest.mark.parametrize("name", ["bad!", "", ".", "..", "x" * 250, "ta.ken"])
def test_impossible_names_are_told_and_not_made(name: str) -> None:
    room = Room().with_topics(ta_ken=1)
    assert told(room.ask(named(name))) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
    assert room.changes == []


def test_the_controllers_log_is_not_made() -> None:
    """The name of the controllers' log stays unknown, as it does in Kafka."""
    room = Room()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(room.ask(named("__cluster_metadata"))) == [("__cluster_metadata", unknown, 0)]
    assert room.changes == []


def test_a_request_for_more_than_10_000_new_partitions_makes_none() -> None:
    room = Room(default_partitions=5_000).with_topics(old=1)
    policy = ErrorCode.POLICY_VIOLATION
    reply = room.ask(named("a", "old", "b", "c", "bad!"))
    assert told(reply) == [
        ("a", policy, 0),
        ("old", 0, 1),
        ("b", policy, 0),
        ("c", policy, 0),
        ("bad!", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]
    assert told(room.ask(named("a", "b"))) == [("a", 0, 5_000), ("b", 0, 5_000)]


def test_a_default_beyond_the_limit_makes_no_topic() -> None:
    room = Room(default_partitions=11, max_partitions=10)
    assert told(room.ask(named("a"))) == [("a", ErrorCode.POLICY_VIOLATION, 0)]


# -- authorized operations ---------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL[8:])
def test_operations_on_topics_are_told_when_asked(version: int) -> None:
    room = Room(auto_create=False).with_topics(a=1)
    asked = room.ask(named("a", "no", include_topic_authorized_operations=True), version)
    assert [t.topic_authorized_operations for t in asked.topics] == [3576, 3576]
    not_asked = room.ask(named("a", "no"), version)
    assert [t.topic_authorized_operations for t in not_asked.topics] == [NOT_ASKED] * 2


def test_no_operations_on_an_unknown_id() -> None:
    """What is not known at all has no operations."""
    reply = Room().ask(by_id(99, include_topic_authorized_operations=True))
    assert [t.topic_authorized_operations for t in reply.topics] == [NOT_ASKED]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_operations_on_the_cluster_are_told_when_asked(version: int) -> None:
    room = Room()
    asked = room.ask(named(include_cluster_authorized_operations=True), version)
    not_asked = room.ask(named(), version)
    found = (asked.cluster_authorized_operations, not_asked.cluster_authorized_operations)
    assert found == (8096, NOT_ASKED)
