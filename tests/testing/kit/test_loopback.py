"""The coordinator on a loopback port, as a user's test uses it with any client."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from coterie_client import Group, Partition
from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined
from coterie_testing.kit import LoopbackCoordinator

Make = Callable[..., LoopbackCoordinator]


def consumer(coordinator: LoopbackCoordinator) -> Consumer:
    """A client that blocks, and is not even written in Python."""
    client = Consumer(
        {
            "bootstrap.servers": coordinator.bootstrap,
            "group.id": "shop",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
        }
    )
    client.subscribe(["orders"])
    return client


def poll_until(client: Consumer, done: Callable[[], bool]) -> None:
    """Poll until something is so."""
    deadline_s = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline_s
        client.poll(0.1)


def test_blocking_client_joins(coterie_coordinator: Make) -> None:
    """It is in the test's own process, and needs no loop of the test's."""
    coordinator = coterie_coordinator({"orders": 3})
    client = consumer(coordinator)
    try:
        poll_until(client, lambda: len(client.assignment()) == 3)
        assert coordinator.state("shop") == "Stable"
        assert coordinator.generation("shop") == 1
        assert len(coordinator.members("shop")) == 1
        assert any(isinstance(event, MemberJoined) for event in coordinator.events)
    finally:
        client.close()
    assert coordinator.state("shop") in ("Empty", "Dead")


def test_restart_keeps_the_group(coterie_coordinator: Make) -> None:
    """On the same port, in the same generation."""
    coordinator = coterie_coordinator({"orders": 3})
    client = consumer(coordinator)
    try:
        poll_until(client, lambda: len(client.assignment()) == 3)
        members, bootstrap = coordinator.members("shop"), coordinator.bootstrap
        coordinator.restart()
        assert coordinator.bootstrap == bootstrap
        assert coordinator.members("shop") == members
    finally:
        client.close()


def test_topics_are_made_on_demand(coterie_coordinator: Make) -> None:
    """By the test, at any time."""
    coordinator = coterie_coordinator(auto_create_topics_enable=False)
    coordinator.create_topic("orders", 2)
    client = consumer(coordinator)
    try:
        poll_until(client, lambda: len(client.assignment()) == 2)
    finally:
        client.close()


@pytest.mark.asyncio
async def test_fault_befalls_a_client(coterie_coordinator: Make) -> None:
    """As often as the test says."""
    coordinator = coterie_coordinator({"orders": 1})
    fault = coordinator.faults.refuse(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, api=ApiKey.JOIN_GROUP, times=2
    )
    late = coordinator.faults.delay(0.01, api=ApiKey.SYNC_GROUP)
    async with Group(coordinator.bootstrap, "shop", topics=["orders"]) as group:

        async def work(partition: Partition) -> None:
            await partition.commit(1)
            group.stop()

        await group.run(work)
    assert fault.hits == 2
    assert late.hits >= 1


def test_stopped_coordinator_is_named(coterie_coordinator: Make) -> None:
    """Not by a time-out."""
    coordinator = coterie_coordinator()
    coordinator.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        coordinator.members("shop")
