"""kafka-python's KafkaAdminClient: groups, offsets and topics."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import MemberToRemove
from kafka.errors import GroupSubscribedToTopicError, NoError, NonEmptyGroupError

from tests.live.daemon import Daemon
from tests.live.group import ALL, TOPIC, LiveGroup
from tests.live.member import CONFLUENT, KAFKA_PYTHON


@pytest.fixture
def admin(daemon: Daemon) -> Iterator[KafkaAdminClient]:
    """Give an admin client."""
    client = KafkaAdminClient(bootstrap_servers=daemon.address)
    yield client
    client.close()


@pytest.fixture
def group() -> str:
    """Give a name that no other test uses."""
    return f"admin-{uuid.uuid4()}"


@pytest.fixture
def topic() -> str:
    """Give a name that no other test uses."""
    return f"topic-{uuid.uuid4()}"


def offset(number: int) -> OffsetAndMetadata:
    """An offset as the client takes and gives it."""
    return OffsetAndMetadata(number, "noted", -1)


# -- groups ------------------------------------------------------------------------------------


def test_group_is_listed_and_described(admin: KafkaAdminClient, live_group: LiveGroup) -> None:
    member = live_group.start(KAFKA_PYTHON, "described")
    live_group.settle(member)
    listed = {each["group_id"]: each for each in admin.list_groups(states_filter=["Stable"])}
    assert listed[live_group.group]["protocol_type"] == "consumer"
    described = admin.describe_groups([live_group.group])[live_group.group]
    assert (described["group_state"], described["error"]) == ("Stable", None)
    (shown,) = described["members"]
    assert (shown["client_id"], shown["client_host"]) == ("described", "/127.0.0.1")
    (assigned,) = shown["member_assignment"]["assigned_partitions"]
    assert assigned["topic"] == TOPIC
    assert set(assigned["partitions"]) == ALL


def test_filter_by_state_leaves_out_groups_in_other_states(
    admin: KafkaAdminClient, group: str
) -> None:
    admin.alter_group_offsets(group, {TopicPartition(TOPIC, 0): offset(1)})
    empty = {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}
    stable = {each["group_id"] for each in admin.list_groups(states_filter=["Stable"])}
    assert (group in empty, group in stable) == (True, False)


def test_group_with_members_is_not_deleted(admin: KafkaAdminClient, live_group: LiveGroup) -> None:
    member = live_group.start(KAFKA_PYTHON, "using")
    live_group.settle(member)
    assert admin.delete_groups([live_group.group]) == {
        live_group.group: NonEmptyGroupError.__name__
    }
    member.close()
    assert admin.delete_groups([live_group.group]) == {live_group.group: "OK"}
    assert live_group.group not in {each["group_id"] for each in admin.list_groups()}


def test_static_member_is_removed_by_its_instance_id(
    admin: KafkaAdminClient, live_group: LiveGroup
) -> None:
    staying = live_group.start(CONFLUENT, "staying", instance="staying")
    gone = live_group.start(
        CONFLUENT, "gone", instance="gone", session_ms=300_000, rebalance_ms=300_000
    )
    live_group.settle(staying, gone)
    gone.die()
    removed = admin.remove_group_members(
        live_group.group, [MemberToRemove(group_instance_id="gone")]
    )
    assert list(removed.values()) == [NoError]
    live_group.settle(staying)


# -- offsets -----------------------------------------------------------------------------------


def test_offsets_are_altered_and_listed(admin: KafkaAdminClient, group: str) -> None:
    offsets = {TopicPartition(TOPIC, partition): offset(10 + partition) for partition in ALL}
    assert set(admin.alter_group_offsets(group, offsets).values()) == {NoError}
    listed = admin.list_group_offsets([group])[group]
    assert {at: (each.offset, each.metadata) for at, each in listed.items()} == {
        at: (each.offset, "noted") for at, each in offsets.items()
    }


def test_offsets_are_deleted(admin: KafkaAdminClient, group: str) -> None:
    first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    admin.alter_group_offsets(group, {first: offset(1), second: offset(2)})
    assert admin.delete_group_offsets(group, [first]) == {first: NoError}
    assert set(admin.list_group_offsets([group])[group]) == {second}


def test_offsets_of_a_subscribed_topic_are_not_deleted(
    admin: KafkaAdminClient, live_group: LiveGroup
) -> None:
    member = live_group.start(CONFLUENT, "using")
    live_group.settle(member)
    member.commit({0: 1})
    partition = TopicPartition(TOPIC, 0)
    refused = admin.delete_group_offsets(live_group.group, [partition])
    assert refused == {partition: GroupSubscribedToTopicError}
    assert member.offsets("committed")[0] == 1


# -- topics ------------------------------------------------------------------------------------


def partitions_of(admin: KafkaAdminClient, topic: str) -> int:
    """How many partitions a topic has."""
    (described,) = admin.describe_topics([topic])
    return len(described["partitions"])


def test_topic_is_created_grown_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 3}}, wait_for_metadata=True)
    assert partitions_of(admin, topic) == 3
    admin.create_partitions({topic: 5})
    assert partitions_of(admin, topic) == 5
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_topic_keeps_its_id(admin: KafkaAdminClient, topic: str) -> None:
    created = admin.create_topics({topic: {"num_partitions": 1}})
    (told,) = created["topics"]
    (described,) = admin.describe_topics([topic])
    assert told["topic_id"] == described["topic_id"] != uuid.UUID(int=0)
