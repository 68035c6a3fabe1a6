"""What stock clients make of an assignment that ends in NEEDS_REJOIN: they take no notice of it."""

from __future__ import annotations

import asyncio
import io
import time
from dataclasses import replace

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocol
from confluent_kafka import Consumer, KafkaError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.protocol.old.consumer_protocol import ConsumerProtocolMemberAssignment_v0

from coterie_protocol import ApiKey
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
)
from tests.support.scripted_coordinator import ScriptedCoordinator

TOPIC = "orders"
PARTITIONS = 6
# Not what any assignor would give to the only member of a group, which is all six.
ASSIGNED = {(TOPIC, 1), (TOPIC, 4)}

REJOIN = Assignment(
    assigned_partitions=(TopicPartitions(topic=TOPIC, partitions=(1, 4)),),
    error_code=NEEDS_REJOIN,
)
assignments = pytest.mark.parametrize(
    ("version", "assignment"),
    [
        pytest.param(version, replace(REJOIN, user_data=user_data), id=f"v{version}-{user_data!r}")
        for version in (1, 2, 3)
        for user_data in (None, b"", b"user data")
    ],
)


@assignments
def test_assignment_really_ends_in_needs_rejoin(version: int, assignment: Assignment) -> None:
    """So the tests below are about what they say."""
    written = encode_assignment(assignment, version)
    assert written.endswith(b"\0\1")
    assert decode_assignment(written).error_code == NEEDS_REJOIN


@assignments
def test_kafka_python_reads_the_partitions(version: int, assignment: Assignment) -> None:
    """With the schema that its consumer uses."""
    read = ConsumerProtocolAssignment.decode(encode_assignment(assignment, version))
    assert {tuple(partition) for partition in read.partitions()} == ASSIGNED
    assert read.user_data == assignment.user_data


@assignments
def test_older_kafka_python_reads_the_partitions(version: int, assignment: Assignment) -> None:
    """With the struct that its consumer used before, which is still in use."""
    stream = io.BytesIO(encode_assignment(assignment, version))
    read = ConsumerProtocolMemberAssignment_v0.decode(stream)
    assert {tuple(partition) for partition in read.partitions()} == ASSIGNED
    assert read.user_data == assignment.user_data


@assignments
def test_aiokafka_reads_the_partitions(version: int, assignment: Assignment) -> None:
    """With the struct that its consumer uses."""
    read = ConsumerProtocol.ASSIGNMENT.decode(encode_assignment(assignment, version))
    assert {tuple(partition) for partition in read.partitions()} == ASSIGNED
    assert read.user_data == assignment.user_data


# librdkafka has no decoder of its own to call, so it joins a group.

JOIN_SECONDS_MAX = 20
POLLS_AFTERWARDS = 5


def assignment_of_consumer(address: str, strategy: str) -> set[tuple[str, int]]:
    """Join, poll until there is an assignment and then some more, leave."""
    troubles: list[KafkaError] = []
    settings = {
        "bootstrap.servers": address,
        "group.id": "g",
        "partition.assignment.strategy": strategy,
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "error_cb": troubles.append,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([TOPIC])
        give_up_at = time.monotonic() + JOIN_SECONDS_MAX
        while not consumer.assignment() and time.monotonic() < give_up_at:
            assert consumer.poll(0.05) is None
        for _ in range(POLLS_AFTERWARDS):
            assert consumer.poll(0.05) is None
        assert troubles == []
        return {(partition.topic, partition.partition) for partition in consumer.assignment()}
    finally:
        consumer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("user_data", [None, b"user data"])
async def test_librdkafka_owns_and_fetches_the_partitions_without_rejoining(
    strategy: str, user_data: bytes | None
) -> None:
    written = encode_assignment(replace(REJOIN, user_data=user_data))
    async with ScriptedCoordinator(TOPIC, PARTITIONS, written) as coordinator:
        owned = await asyncio.to_thread(assignment_of_consumer, coordinator.address, strategy)
        assert owned == ASSIGNED
        assert coordinator.times_asked(ApiKey.JOIN_GROUP) == 1
        assert coordinator.times_asked(ApiKey.LEAVE_GROUP) == 1
        assert coordinator.times_asked(ApiKey.FETCH) >= 1
