"""What is remembered of nodes, and for how long."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from coterie_client.backoff import Backoff
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_client.wire.connection import Connection
from coterie_client.wire.network import RECONNECT
from coterie_client.wire.node import Node
from coterie_client.wire.nodes import _REMEMBERED_MAX, Nodes
from coterie_protocol.messages import Coordinator, FindCoordinatorResponse
from tests.client.wire.doubles import metadata_of

SEED = NodeAddress("seed", 1)


class Open:
    """A connection that is there."""

    closed = False


def make() -> Nodes:
    """Nodes of a cluster of which one was named by the user."""
    return Nodes(
        (SEED,), lambda address: Node(address, Backoff(RECONNECT, lambda: 0.5)), lambda: 0.0
    )


def worker(port: int) -> NodeAddress:
    """A node within a worker, whose port is another one after each restart."""
    return NodeAddress("worker", port)


def remembered(nodes: Nodes) -> int:
    return len(nodes.slots()) // len(Lane)


def meet(nodes: Nodes, ports: range) -> None:
    """Hear of workers one after the other, of which only the last two are there."""
    for port in ports:
        nodes.learn(metadata_of(worker(port), worker(port + 1)))
        assert nodes[worker(port)].address == worker(port)


def test_nodes_that_have_gone_are_forgotten_in_the_end() -> None:
    nodes = make()
    meet(nodes, range(1, 10 * _REMEMBERED_MAX))
    assert remembered(nodes) <= _REMEMBERED_MAX
    assert nodes.id_of(worker(1)) is None
    assert nodes.id_of(worker(10 * _REMEMBERED_MAX - 1)) == 0


def test_coordinators_that_have_gone_are_forgotten_as_well() -> None:
    nodes = make()
    nodes.learn(metadata_of(SEED))
    for port in range(1, 3 * _REMEMBERED_MAX):
        found = Coordinator(key="g", node_id=7, host="worker", port=port, error_message=None)
        nodes.learn(FindCoordinatorResponse(coordinators=(found,)))
    assert remembered(nodes) <= _REMEMBERED_MAX
    assert nodes.id_of(worker(3 * _REMEMBERED_MAX - 1)) == 7


def test_a_few_are_remembered_though_no_answer_names_them_any_more() -> None:
    nodes = make()
    meet(nodes, range(1, 100))
    nodes[worker(1)].is_slow = True
    meet(nodes, range(200, 300))
    assert nodes[worker(1)].is_slow


@pytest.mark.parametrize("what", ["connection", "attempt"])
def test_one_that_is_in_use_is_not_forgotten(what: str) -> None:
    nodes = make()
    nodes.learn(metadata_of(worker(1)))
    used, seed = nodes[worker(1)], nodes[SEED]
    slot = used.slots[Lane.GROUP]
    if what == "connection":
        slot.connection = cast(Connection, Open())
    else:
        slot.attempt = cast("asyncio.Task[Connection]", object())
    meet(nodes, range(2, 2 * _REMEMBERED_MAX))
    assert nodes[worker(1)] is used
    assert nodes[SEED] is seed


def test_one_that_was_forgotten_while_it_was_to_be_asked_is_remembered_again() -> None:
    """Or nobody would close its connection."""
    nodes = make()
    nodes.learn(metadata_of(worker(1)))
    chosen = nodes[worker(1)]
    meet(nodes, range(2, 2 * _REMEMBERED_MAX))
    assert nodes.use(chosen) is chosen
    assert nodes[worker(1)] is chosen
