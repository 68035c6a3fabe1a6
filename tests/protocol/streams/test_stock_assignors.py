"""Stock assignors read their own user data and take no notice of a block behind it."""

from __future__ import annotations

import uuid

from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from coterie_protocol.consumer import (
    StickyData,
    Subscription,
    TopicPartitions,
    decode_sticky_data,
    encode_sticky_data,
    encode_subscription,
)
from coterie_protocol.streams import (
    SubscriptionInfo,
    TaskId,
    encode_subscription_info,
    join_user_data,
)

BLOCK = encode_subscription_info(
    SubscriptionInfo(process_id=uuid.UUID(int=7), task_offset_sums={TaskId(0, 1, "orders"): 5})
)
STICKY = StickyData(
    previous_assignment=(TopicPartitions(topic="orders", partitions=(1, 4)),), generation=9
)
JOINED = join_user_data(encode_sticky_data(STICKY), BLOCK)


def test_coteries_sticky_assignor_reads_its_data() -> None:
    assert decode_sticky_data(JOINED) == STICKY


def test_aiokafkas_sticky_assignor_reads_its_data() -> None:
    said = ConsumerProtocolMemberMetadata(3, ["orders"], JOINED)
    read = StickyPartitionAssignor.parse_member_metadata(said)
    assert {tuple(partition) for partition in read.partitions} == {("orders", 1), ("orders", 4)}
    assert read.generation == 9


def test_kafka_python_reads_a_subscription_with_a_block() -> None:
    """Of its assignors, those that work with stock members do not look into user data."""
    subscription = Subscription(topics=("orders",), user_data=JOINED, generation_id=9)
    read = ConsumerProtocolSubscription.decode(encode_subscription(subscription))
    assert (list(read.topics), read.user_data, read.generation_id) == (["orders"], JOINED, 9)
