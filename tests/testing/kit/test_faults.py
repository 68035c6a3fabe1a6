"""Which requests the faults that a test orders apply to."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie_client import Group, Partition
from coterie_client.admin import Admin
from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import GroupAuthorizationFailedError
from coterie_server.net import Exchange
from coterie_testing.kit import Cluster, Fault, Faults

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def cluster(coterie_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster with a topic."""
    return coterie_cluster({"orders": 2})


class Member:
    """A member that asks for its offsets, commits, and leaves when its program is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.group: Group | None = None
        self.program = cluster.start("a", self._live())

    async def _live(self) -> None:
        async with Group(self.cluster.bootstrap, "shop", topics=["orders"]) as self.group:
            await self.group.run(self._work)

    async def _work(self, partition: Partition) -> None:
        await partition.committed()
        await partition.commit(1)
        await asyncio.get_running_loop().create_future()


def asked_by_members(faults: Faults, group: str) -> list[Fault]:
    apis = (ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH)
    more = (ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
    return [faults.delay(0.01, api=api, group=group, times=1) for api in (*apis, *more)]


def test_fault_of_a_group_applies_to_each_kind_of_request_of_its_members(cluster: Cluster) -> None:
    others, ours = (asked_by_members(cluster.faults, name) for name in ("other", "shop"))
    member = Member(cluster)
    cluster.run(10)
    member.program.stop()
    cluster.run(10)
    assert {fault.api: fault.hits for fault in ours} == {fault.api: 1 for fault in ours}
    assert not any(fault.hits for fault in others)


def test_fault_of_a_group_applies_to_requests_about_several(cluster: Cluster) -> None:
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    apis = (ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.DELETE_GROUPS)
    faults = [cluster.faults.refuse(error, api=api, group="shop", times=1) for api in apis]

    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            for asking in (
                admin.groups.describe("shop"),
                admin.offsets.fetch("shop"),
                admin.groups.delete("shop"),
            ):
                with pytest.raises(GroupAuthorizationFailedError):
                    await asking

    cluster.call(ask())
    assert [fault.hits for fault in faults] == [1, 1, 1]


def test_fault_of_a_member_applies_to_its_leaving(cluster: Cluster) -> None:
    member = Member(cluster)
    cluster.run(10)
    assert member.group is not None
    mine = cluster.faults.drop(api=ApiKey.LEAVE_GROUP, member_id=member.group.member_id)
    member.program.stop()
    cluster.run(20)
    assert mine.hits > 0


def test_refusal_leaves_requests_alone_whose_answers_have_no_room_for_it(cluster: Cluster) -> None:
    fault = cluster.faults.refuse(LOADING, client_id="coterie", times=5)
    member = Member(cluster)
    cluster.run_until(lambda: fault.hits == 5)
    cluster.run(10)
    assert member.group is not None
    assert member.group.counters.wire.connections_opened == 2
    with pytest.raises(ValueError, match="Metadata has no room for an error"):
        cluster.faults.refuse(LOADING, api=ApiKey.METADATA)


def test_name_of_an_api_is_refused(cluster: Cluster) -> None:
    api: Any = "HEARTBEAT"
    with pytest.raises(ValueError, match="HEARTBEAT"):
        cluster.faults.drop(api=api)


@dataclass(eq=False)
class Coordinator:
    """Takes requests."""

    taken: list[Exchange] = field(default_factory=list)

    def handle(self, exchange: Exchange) -> None:
        self.taken.append(exchange)


def an_exchange() -> Any:
    """A heartbeat of a client."""
    exchange: Any = type("Exchange", (), {"request": type("Request", (), {})})
    exchange.request.api_key, exchange.request.client_id = ApiKey.HEARTBEAT, "a"
    exchange.request.message = None
    return exchange


async def turns() -> None:
    """Let the loop run what is due."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_delayed_request_is_gone_when_its_coordinator_ends_before() -> None:
    first, second = Coordinator(), Coordinator()
    up: Coordinator | None = None
    faults = Faults(lambda: 0.0, lambda: up)
    faults.delay(0)
    starting, late, last = (an_exchange() for _ in range(3))
    faults.gate(starting)
    up = first
    await turns()
    assert first.taken == [starting]
    faults.gate(late)
    up = second
    faults.gate(last)
    await turns()
    assert first.taken == [starting]
    assert second.taken == [last]


def test_no_fault_is_lost_that_is_ordered_while_requests_arrive() -> None:
    faults, is_over = Faults(lambda: 0.0, lambda: None), threading.Event()
    exchange = an_exchange()

    def let_requests_arrive() -> None:
        while not is_over.is_set():
            faults.gate(exchange)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=let_requests_arrive)
    thread.start()
    try:
        for _ in range(300):
            ordered = [faults.drop(client_id="b") for _ in range(5)]
            assert all(each in faults._faults for each in ordered)  # noqa: SLF001
            faults.lift_all()
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
