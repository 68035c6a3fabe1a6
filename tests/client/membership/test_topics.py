"""What a member knows of its topics: when it asks, what it believes, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie_assignors import Cluster, CooperativeStickyAssignor, MemberInfo, Partitions
from coterie_client.membership.events import RetryPlanned, TopicMissing, TopicsChanged
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_membership import Script

T0, T1 = ("t", 0), ("t", 1)


def at_work(**options: Any) -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t", **options).start()
    script.settle(T0, T1, generation=5)
    script.tell_topics()
    return script


def wait_for_question(script: Script) -> int:
    """Live until the topics are asked for; how long that took."""
    began_ms = script.now_ms
    while not script.awaits(MetadataRequest):
        script.sleep(100)
        script.answer_heartbeat()
    return script.now_ms - began_ms


def test_asks_for_what_it_wants() -> None:
    script = Script("t", "u").start()
    request = script.asks(MetadataRequest)
    assert [each.name for each in request.topics or ()] == ["t", "u"]
    assert request.allow_auto_topic_creation


def test_asks_without_creating() -> None:
    """With `allow_auto_create_topics=False`, asking for a topic does not create it."""
    script = Script("t", allow_auto_create_topics=False).start()
    assert not script.asks(MetadataRequest).allow_auto_topic_creation


def test_asks_again_when_it_is_old() -> None:
    script = at_work(metadata_max_age_ms=30_000)
    assert 29_900 <= wait_for_question(script) <= 30_100


def test_asks_in_every_rebalance() -> None:
    """Often it is a change of the topics that made the group rebalance."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    assert script.awaits(MetadataRequest)


def test_no_news() -> None:
    script = at_work()
    before = len(script.seen(TopicsChanged))
    wait_for_question(script)
    script.tell_topics()
    assert len(script.seen(TopicsChanged)) == before


def test_missing_topic() -> None:
    """It is looked for every few seconds, and reported once."""
    script = Script("t", "later").start()
    script.tell_topics(later=None)
    wait_for_question(script)
    script.tell_topics()
    assert [event.topic for event in script.seen(TopicMissing)] == ["later"]
    assert 4_900 <= wait_for_question(script) <= 5_100
    script.tell_topics()
    assert len(script.seen(TopicMissing)) == 1
    wait_for_question(script)
    script.tell_topics(later=2)
    assert script.seen(TopicsChanged)[-1].topics == {"later": 2}


def test_missing_again() -> None:
    script = Script("t", "x").start()
    for count in (None, None, 2, None, None):
        wait_for_question(script)
        script.tell_topics(x=count)
    assert len(script.seen(TopicMissing)) == 2


def test_question_fails() -> None:
    """It is asked again, after a delay that grows."""
    script = at_work()
    wait_for_question(script)
    delays = []
    for _ in range(3):
        script.fail(MetadataRequest)
        delays.append(script.seen(RetryPlanned)[-1].delay_ms)
        wait_for_question(script)
    assert delays == [100, 200, 400]
    assert script.told == script.told[:1]


def test_new_subscription_is_asked_for_at_once() -> None:
    script = Script("t").start()
    (old,) = script.awaited(MetadataRequest)
    script.subscribe("t", "u")
    assert [each.name for each in script.asks(MetadataRequest).topics or ()] == ["t", "u"]
    script.answer_ticket(old.ticket, MetadataResponse(brokers=(), controller_id=1, topics=()))
    assert script.awaits(MetadataRequest)


class RecordingAssignor(CooperativeStickyAssignor):
    """An assignor that remembers what it was told."""

    def __init__(self) -> None:
        self.cluster = Cluster({})

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Share out."""
        self.cluster = cluster
        return super().assign(cluster, members)


def test_racks() -> None:
    """Where the brokers tell their racks, assignors know where each partition's replicas are."""
    assignor = RecordingAssignor()
    script = Script("t", assignors=[assignor]).start()
    script.find()
    script.join(1, leads=True)
    racks = {1: "a", 2: "b", 3: None}
    replicas = {0: (1, 2), 1: (3,), 2: (2, 3)}
    brokers = tuple(
        MetadataResponseBroker(node_id=node, host="h", port=1, rack=rack)
        for node, rack in racks.items()
    )
    partitions = tuple(
        MetadataResponsePartition(
            partition_index=number, leader_id=1, replica_nodes=nodes, isr_nodes=nodes
        )
        for number, nodes in replicas.items()
    )
    topic = MetadataResponseTopic(name="t", partitions=partitions)
    script.answer(
        MetadataRequest, MetadataResponse(brokers=brokers, controller_id=1, topics=(topic,))
    )
    assert assignor.cluster.topics == {"t": 3}
    assert [set(each) for each in assignor.cluster.racks["t"]] == [{"a", "b"}, set(), {"b"}]


def test_leader_knows_more() -> None:
    """A member that is assigned a partition it has not heard of checks whether there is one."""
    script = Script("t").start()
    script.tell_topics(t=1)
    script.find()
    script.join(5)
    script.sync(T0, T1)
    script.beat()
    assert script.working.keys() == {T0, T1}
    script.tell_topics(t=2)
    assert script.working.keys() == {T0, T1}


def test_leader_knows_what_is_not_so() -> None:
    script = Script("t").start()
    script.tell_topics(t=1)
    script.find()
    script.join(5)
    script.sync(T0, T1)
    script.beat()
    script.tell_topics(t=1)
    wait_for_question(script)
    script.tell_topics()
    assert script.working.keys() == {T0}
