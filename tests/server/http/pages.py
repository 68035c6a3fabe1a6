"""A node for the tests of the HTTP pages, and how their answers are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from coterie_server.address import Address
from coterie_server.group import Group
from coterie_server.group.step import Step
from coterie_server.http import (
    NodeView,
)
from coterie_server.journal import JournalWriter
from coterie_server.net import Listener
from coterie_server.net.stats import NetStats
from coterie_server.serving import Cluster, GroupShard, NodeNote
from coterie_server.serving.group_listeners import GroupListeners
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.serving.node import Node as ServingNode
from tests.support.watched_world import WatchedWorld

__all__ = ["Browser", "Node", "read", "refusal", "view_of"]

Browser = TestClient[Any, Any]


class Node:
    """Stands for the node: a single coordinator, in virtual time."""

    parked_fetches = 0
    node_id = 1
    #: Since when it has its groups, if another node had them before.
    taken_over_ms: int | None = None
    #: Which life of their shard its groups have.
    fence_number = 1
    #: None of the shards, and none of other nodes.
    shards: tuple[GroupShard, ...] = ()

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world
        self.topics = world.topics
        self.trouble = ""
        self.listeners = GroupListeners()
        self.cluster = Cluster("node-1")
        #: Until when no other node can have its groups.
        self.trust = LeaseTrust()
        #: Lets those go on who wait until what was done is durable, and whether it is then.
        self.store_works, self.is_durable = asyncio.Event(), True
        self.store_works.set()
        #: What fails when the node is asked for a group or a rebalance.
        self.fault: Exception | None = None

    def group_shard(self, _group_id: str) -> Any:
        """It has all shards."""
        return SimpleNamespace(
            shard=0,
            is_owned=True,
            is_served=True,
            taken_over_ms=self.taken_over_ms,
            fence_number=self.fence_number,
            until_durable=self.until_durable,
        )

    async def until_durable(self) -> bool:
        """All is durable when the store says so."""
        await self.store_works.wait()
        return self.is_durable

    def note(self, *, is_settled: bool) -> bytes:
        """Say where it is."""
        return NodeNote(1, {"default": Address("h1", 9092)}, is_settled).to_bytes()

    def groups(self) -> list[Group]:
        """All groups."""
        return list(self.world.coordinator.groups.values())

    def group_names(self) -> list[str]:
        """Their names."""
        return list(self.world.coordinator.groups)

    def group(self, group_id: str) -> Group | None:
        """One of them."""
        if self.fault is not None:
            raise self.fault
        return self.world.coordinator.groups.get(group_id)

    def phase_deadline(self, group: Group) -> int | None:
        """When the group's phase ends."""
        deadlines = self.world.table.deadlines
        phases = (deadlines.at((kind, group.id, "")) for kind in ("join", "sync"))
        return next((at for at in phases if at is not None), None)

    def date_ms(self) -> int:
        """The date is the running time."""
        return self.world.now_ms

    def date_of(self, now_ms: int) -> int:
        """The date is the running time."""
        return now_ms

    async def operate(self, _group_id: str, operation: Callable[[Step], None]) -> None:
        """Do what an operator asks for."""
        if self.fault is not None:
            raise self.fault
        self.world.operate(operation)


class _Listener:
    """Stands for a listener without connections."""

    def stats(self) -> NetStats:
        """Nothing has happened."""
        return NetStats(0, 0, 0, 0, 0, 0, {}, {})


def view_of(node: Node | None, journal: JournalWriter | None = None) -> NodeView:
    """What the pages see of a node; without one, it is not ready."""
    view = NodeView(cast(Listener, _Listener()), journal)
    if node is not None:
        view.open(cast(ServingNode, node))
    return view


async def read(answer: ClientResponse, status: int = 200) -> dict[str, Any]:
    """The JSON of an answer that has the right status."""
    assert answer.status == status, await answer.text()
    assert answer.content_type == "application/json"
    values: dict[str, Any] = await answer.json()
    return values


async def refusal(answer: ClientResponse, status: int) -> str:
    """The name of an error, which has a sentence as well, and nothing else."""
    values = await read(answer, status)
    assert set(values) == {"error", "message"}
    assert values["message"].endswith(".")
    name: str = values["error"]
    return name
