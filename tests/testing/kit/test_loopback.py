"""The coordinator on a loopback port, as a user's test uses it with any client."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from coterie_client import Group, Partition
from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberJoined
from coterie_server.server import Server, ServerError
from coterie_server.topics import TopicRefusal
from coterie_testing.kit import LoopbackCoordinator, loopback

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


def test_blocking_client_joins_in_the_same_process(coterie_coordinator: Make) -> None:
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


def test_restart_keeps_port_and_generation(coterie_coordinator: Make) -> None:
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


def test_topic_is_created_while_it_runs(coterie_coordinator: Make) -> None:
    coordinator = coterie_coordinator(auto_create_topics_enable=False)
    coordinator.create_topic("orders", 2)
    client = consumer(coordinator)
    try:
        poll_until(client, lambda: len(client.assignment()) == 2)
    finally:
        client.close()


@pytest.mark.asyncio
async def test_fault_hits_as_often_as_ordered(coterie_coordinator: Make) -> None:
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


def test_stopped_coordinator_is_an_error_at_once(coterie_coordinator: Make) -> None:
    coordinator = coterie_coordinator()
    coordinator.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        coordinator.members("shop")


def threads() -> set[str]:
    """The names of the threads that run."""
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("topics", "what"),
    [
        ({"orders shard": 3}, "Topic name is invalid"),
        ({"": 1}, "Topic name is invalid"),
        ({"orders": 0}, "can't have 0 partitions"),
        ({"orders": 10**9}, "can't have 1000000000 partitions"),
        ({"orders": "3"}, "names with their numbers of partitions"),
    ],
)
def test_mistake_in_a_topic_is_raised_and_leaves_no_thread(
    coterie_coordinator: Make, topics: dict[str, int], what: str
) -> None:
    with pytest.raises((TopicRefusal, TypeError), match=what):
        coterie_coordinator(topics)
    assert "coterie coordinator" not in threads()


def test_start_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    async def never(_: object) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.set()

    monkeypatch.setattr(Server, "start", never)
    monkeypatch.setattr(loopback, "_TIMEOUT_S", 0.2)
    with pytest.raises(TimeoutError, match="did not answer for"):
        LoopbackCoordinator(folder=tmp_path).start()
    assert closed.is_set()
    assert "coterie coordinator" not in threads()


def test_coordinator_that_could_not_start_again_leaves_no_thread(tmp_path: Path) -> None:
    with LoopbackCoordinator(folder=tmp_path) as coordinator:
        coordinator.stop()
        host, port = coordinator.bootstrap.split(":")
        with socket.create_server((host, int(port))):
            with pytest.raises(ServerError, match=re.escape(coordinator.bootstrap)):
                coordinator.start()
            assert "coterie coordinator" not in threads()
        coordinator.start()
        assert coordinator.members("shop") == ()
    assert "coterie coordinator" not in threads()


def test_running_coordinator_can_not_be_started(coterie_coordinator: Make) -> None:
    coordinator = coterie_coordinator()
    with pytest.raises(RuntimeError, match="runs already; stop it first"):
        coordinator.start()
    assert coordinator.members("shop") == ()


def test_closed_coordinator_can_be_started_again(tmp_path: Path) -> None:
    coordinator = LoopbackCoordinator({"orders": 1}, folder=tmp_path)
    for _ in range(2):
        with coordinator:
            assert coordinator.members("shop") == ()
        with pytest.raises(RuntimeError, match="stopped"):
            coordinator.members("shop")
    coordinator.close()
