"""Two nodes on one store that are told to clients at the same address."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from coterie_server.address import Address
from coterie_server.config.settings import Settings
from coterie_server.own_place import start_in_own_place
from coterie_server.server import ListenerOptions, Server, ServerError, ServerOptions
from coterie_server.serving import NodeNote
from coterie_server.serving.cluster import Cluster
from coterie_server.serving.node_options import NodeOptions
from coterie_server.storage import NodeEntry, Survey
from tests.support.virtual_time import virtual_test

HERE = {"default": Address("one.example", 9092)}
LEASE_S = 3.0


def note(node_id: int, addresses: dict[str, Address], *, is_leaving: bool = False) -> bytes:
    return NodeNote(node_id, addresses, is_leaving=is_leaving).to_bytes()


class Listing:
    """A store that lists another node, which may have ended as the test begins."""

    def __init__(self, told: bytes, *, is_alive: bool, tells_renewals: bool = True) -> None:
        self._told = told
        self._is_alive = is_alive
        self._tells_renewals = tells_renewals

    async def survey(self) -> Survey:
        now_s = asyncio.get_running_loop().time()
        until_s = LEASE_S + (now_s if self._is_alive else 0)
        until = str(until_s) if self._tells_renewals else ""
        left_ms = round((until_s - now_s) * 1000)
        return Survey((NodeEntry("node-2", self._told, left_ms, until),), ())


class Starting:
    """A node that is to be started, and finds others when it is."""

    def __init__(self, others: tuple[NodeNote, ...] = ()) -> None:
        self.cluster = Cluster("node-1")
        self._others = others
        self.started_s: float | None = None

    async def start(self, topics: dict[str, int], _users: object) -> None:
        assert topics == {"t": 1}
        self.started_s = asyncio.get_running_loop().time()
        self.cluster.others = self._others


async def start(node: Starting, store: Listing, *, is_shared: bool = True) -> None:
    options = NodeOptions(
        1,
        HERE["default"],
        shards=1,
        lease_ms=3_000,
        addresses=HERE,
        look_every_ms=100 if is_shared else None,
    )
    await start_in_own_place(cast("Any", node), cast("Any", store), options, {"t": 1}, {})


@pytest.mark.parametrize("tells_renewals", [True, False])
@virtual_test
async def test_a_node_does_not_start_at_the_address_of_another_one(*, tells_renewals: bool) -> None:
    node = Starting()
    store = Listing(note(2, HERE), is_alive=True, tells_renewals=tells_renewals)
    with pytest.raises(ServerError, match=r"node 2, .* at one\.example:9092 as well.*of its own\."):
        await start(node, store)
    assert node.started_s is None


@pytest.mark.parametrize("tells_renewals", [True, False])
@virtual_test
async def test_a_node_that_has_ended_is_waited_for(*, tells_renewals: bool) -> None:
    node = Starting()
    await start(node, Listing(note(2, HERE), is_alive=False, tells_renewals=tells_renewals))
    assert node.started_s == pytest.approx(LEASE_S, abs=0.2)


@virtual_test
async def test_a_node_that_comes_at_the_same_time_is_noticed_as_well() -> None:
    apart = Listing(note(2, {"default": Address("two.example", 9092)}), is_alive=True)
    node = Starting((NodeNote(3, HERE),))
    with pytest.raises(ServerError, match="node 3"):
        await start(node, apart)


@pytest.mark.parametrize(
    "told",
    [
        note(2, {"default": Address("one.example", 9093)}),
        note(2, {"a": Address("two.example", 9092), "b": HERE["default"]}),
        note(2, HERE, is_leaving=True),
        b"of another version",
    ],
    ids=["another port", "inside another network", "about to stop", "unknown"],
)
@virtual_test
async def test_nodes_that_are_not_in_its_way_do_not_keep_a_node_from_starting(told: bytes) -> None:
    node = Starting()
    await start(node, Listing(told, is_alive=True))
    assert node.started_s == 0


@virtual_test
async def test_the_first_address_counts_whatever_it_is_called() -> None:
    store = Listing(note(2, {"inside": HERE["default"]}), is_alive=True)
    with pytest.raises(ServerError, match="node 2"):
        await start(Starting(), store)


@virtual_test
async def test_a_node_that_shares_its_store_with_nobody_looks_for_nobody() -> None:
    node = Starting((NodeNote(2, HERE),))
    await start(node, Listing(note(2, HERE), is_alive=True), is_shared=False)
    assert node.started_s == 0


def test_a_server_with_a_copied_address_says_so_and_leaves_the_other_alone(tmp_path: Path) -> None:
    def server(node_id: int) -> Server:
        reached = Address("groups.example", 9092)
        listener = ListenerOptions(Address("127.0.0.1", 0), advertise=reached)
        return Server(
            ServerOptions(
                settings=Settings(node_id=node_id),
                listeners=(listener,),
                store=f"sqlite:{tmp_path}/groups.db",
                http=None,
            )
        )

    async def both() -> None:
        async with server(1):
            with pytest.raises(ServerError, match=r"node 1, .* at groups\.example:9092 as well"):
                await server(2).start()
        async with server(2):
            pass

    asyncio.run(both())
