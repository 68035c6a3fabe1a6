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
def test_node_is_told_where_it_is_advertised(version: int) -> None:
    """Every version names one broker, at the advertised address, without a rack."""
    request = named() if version else named("t")
    (broker,) = Room().ask(request, version).brokers
    told = (broker.node_id, broker.host, broker.port, broker.rack)
    assert told == (NODE, ADVERTISED.host, ADVERTISED.port, None)


@pytest.mark.parametrize("version", ALL)
def test_controller_and_cluster(version: int) -> None:
    """The node is the controller, from version 1 on, of the cluster, from version 2 on."""
    reply = Room().ask(named("t"), version)
    assert reply.controller_id == (NODE if version >= 1 else -1)
    assert reply.cluster_id == (CLUSTER if version >= 2 else None)


@pytest.mark.parametrize("version", ALL)
def test_node_leads_every_partition(version: int) -> None:
    """Every partition is led and held by this node alone, in epoch 0."""
    reply = Room().with_topics(t=3).ask(named("t"), version)
    (topic,) = reply.topics
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    epoch = 0 if version >= 7 else -1
    assert {
        (p.error_code, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    } == {(0, NODE, epoch, (NODE,), (NODE,))}
    assert {p.offline_replicas for p in topic.partitions} == {()}


def test_topics_of_all_sizes_in_one_reply() -> None:
    """Each topic has its own number of partitions, whatever was told before."""
    room = Room().with_topics(many=5, one=1, some=3)
    assert told(room.ask(ALL_TOPICS)) == [("many", 0, 5), ("one", 0, 1), ("some", 0, 3)]
    room.ensure("one", 7)
    assert told(room.ask(named("some", "one"))) == [("some", 0, 3), ("one", 0, 7)]


@pytest.mark.parametrize("version", ALL)
def test_topic_ids_from_version_10(version: int) -> None:
    """Topics have ids in the versions that have room for them."""
    (topic,) = Room().with_topics(t=1).ask(named("t"), version).topics
    assert topic.topic_id == (topic_id(1) if version >= 10 else NIL_UUID)


def test_topic_ids_survive_a_restart() -> None:
    """A client sees the same ids after the node was restarted."""
    room = Room().with_topics(a=1, b=2)
    before = room.ask(ALL_TOPICS)
    room.restart()
    assert room.ask(ALL_TOPICS) == before


# -- which topics ------------------------------------------------------------------------------


def test_empty_list_is_all_in_version_0() -> None:
    """Version 0 knows no null."""
    room = Room().with_topics(a=1, b=2)
    assert told(room.ask(named(), 0)) == [("a", 0, 1), ("b", 0, 2)]


@pytest.mark.parametrize("version", ALL[1:])
def test_null_is_all_and_empty_is_none(version: int) -> None:
    """From version 1 on null asks for all topics and an empty list for none."""
    room = Room().with_topics(a=1, b=2)
    assert told(room.ask(ALL_TOPICS, version)) == [("a", 0, 1), ("b", 0, 2)]
    assert told(room.ask(named(), version)) == []


def test_name_asked_for_twice_is_told_once() -> None:
    """Names are a set."""
    assert told(Room().with_topics(a=1).ask(named("a", "a"))) == [("a", 0, 1)]


def test_internal_names_are_marked() -> None:
    """The names that Kafka keeps for itself are marked, there or not."""
    room = Room(auto_create=False).with_topics(__consumer_offsets=1, a=1)
    reply = room.ask(named("__consumer_offsets", "__transaction_state", "a"))
    assert [topic.is_internal for topic in reply.topics] == [True, True, False]


# -- by id -------------------------------------------------------------------------------------


def test_topic_by_id() -> None:
    """Version 12 finds topics by id; an unknown one comes back as error 100 without a name."""
    reply = Room().with_topics(a=1, b=2).ask(by_id(2, 99, 2))
    assert told(reply) == [("b", 0, 2), (None, ErrorCode.UNKNOWN_TOPIC_ID, 0)]
    assert [t.topic_id for t in reply.topics] == [topic_id(2), topic_id(99)]


def test_id_beats_names() -> None:
    """Once an id is given, names are not looked at, not even to create their topics."""
    room = Room().with_topics(a=1)
    topics = (
        MetadataRequestTopic(name="other", topic_id=topic_id(1)),
        MetadataRequestTopic(name="new"),
    )
    assert told(room.ask(MetadataRequest(topics=topics))) == [("a", 0, 1)]
    assert room.counts == {"a": 1}


def test_deleted_topics_id_is_unknown() -> None:
    """An id does not outlive its topic."""
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
    """Versions 10 and 11 have the field but not the feature: all topics 42, no broker."""
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
def test_missing_topic_is_made_at_once(version: int) -> None:
    """A topic that somebody asks for is there in the very reply, stored and told to others."""
    room = Room(default_partitions=4)
    assert told(room.ask(named("new"), version)) == [("new", 0, 4)]
    assert room.changes == [changed("new", "created", 0, 4)]
    assert len(room.stored) == 1


def test_topic_is_made_once() -> None:
    """Asking again finds what the first request made."""
    room = Room()
    first, second = room.ask(named("new")), room.ask(named("new"))
    assert first == second
    assert len(room.changes) == 1


@pytest.mark.parametrize("version", ALL[4:])
def test_client_may_forbid_creation(version: int) -> None:
    """From version 4 on the client has a say."""
    room = Room()
    request = named("new", allow_auto_topic_creation=False)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(room.ask(request, version)) == [("new", unknown, 0)]
    assert room.counts == {}


@pytest.mark.parametrize("version", ALL)
def test_operator_may_forbid_creation(version: int) -> None:
    """With the setting off nothing is made, whatever the client says."""
    room = Room(auto_create=False)
    reply = room.ask(named("new", "bad!"), version)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert told(reply) == [("new", unknown, 0), ("bad!", invalid, 0)]
    assert {topic.topic_id for topic in reply.topics} == {NIL_UUID}
    assert room.counts == {}


@pytest.mark.parametrize("version", [0, 12])
def test_asking_for_all_topics_makes_none(version: int) -> None:
    """A client that asks for everything has no topic in mind."""
    room = Room()
    assert told(room.ask(ALL_TOPICS if version else named(), version)) == []
    assert room.changes == []


@pytest.mark.parametrize("name", ["bad!", "", ".", "..", "x" * 250, "ta.ken"])
def test_impossible_names_are_not_made(name: str) -> None:
    """Names that can't be, or that look like another one, are told as such."""
    room = Room().with_topics(ta_ken=1)
    assert told(room.ask(named(name))) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, 0)]
    assert room.changes == []


def test_the_controllers_log_is_not_made() -> None:
    """The name of the controllers' log stays unknown, as it does in Kafka."""
    room = Room()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(room.ask(named("__cluster_metadata"))) == [("__cluster_metadata", unknown, 0)]
    assert room.changes == []


def test_request_for_too_many_new_topics_makes_none() -> None:
    """A request makes 10,000 partitions at most, or none; topics that are there are told."""
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


def test_default_beyond_the_limit_makes_nothing() -> None:
    """A default larger than a topic may be makes no topic."""
    room = Room(default_partitions=11, max_partitions=10)
    assert told(room.ask(named("a"))) == [("a", ErrorCode.POLICY_VIOLATION, 0)]


# -- authorized operations ---------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL[8:])
def test_topic_operations_when_asked(version: int) -> None:
    """Every topic with a name, there or not, says what may be done with it."""
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
def test_cluster_operations_when_asked(version: int) -> None:
    """Versions 8 to 10 say what may be done with the cluster."""
    room = Room()
    asked = room.ask(named(include_cluster_authorized_operations=True), version)
    not_asked = room.ask(named(), version)
    found = (asked.cluster_authorized_operations, not_asked.cluster_authorized_operations)
    assert found == (8096, NOT_ASKED)
