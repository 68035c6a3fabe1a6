"""The nodes that share a store, as clients are told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from coterie_server.address import Address
from coterie_server.serving.cluster import CATALOGUE_SHARD, Cluster, Directory, NodeNote
from coterie_server.storage import Fence, Lease, NodeEntry, Survey

LEASE_S: Final = 3.0
MINE: Final = Address("one", 1)


@dataclass(frozen=True)
class Asked:
    """A request that came in by the first node's only listener."""

    advertised: Address = MINE


class Seen:
    """A node that looks at the store."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cluster = Cluster("node-1", LEASE_S, lambda: self.now_s)
        self.directory = Directory(self.cluster, 1, {"": MINE})

    def look(self, now_s: float, leases: Sequence[Lease] = (), **nodes: bool) -> None:
        """See nodes, each with whether its lease is valid."""
        self.now_s = now_s
        entries = (
            NodeEntry(
                f"node-{name[1:]}",
                NodeNote(int(name[1:]), {"": Address(name, 1)}).to_bytes(),
                1_000 if is_valid else 0,
            )
            for name, is_valid in nodes.items()
        )
        self.cluster.look(Survey(tuple(entries), tuple(leases)), ())

    def sends(self, shard: int) -> int | None:
        """The node to which clients are sent for a shard."""
        found = self.directory.coordinator(shard, Asked())
        return None if found is None else found.node_id

    @property
    def told(self) -> list[int]:
        """The nodes that clients are told of."""
        return [node_id for node_id, _ in self.directory.reached_by(Asked())]


def test_all_nodes_are_told_when_all_leases_have_run_out_at_once() -> None:
    """Or the first one to renew its lease would be all that a client knows of for minutes."""
    seen = Seen()
    seen.look(0.0, n1=True, n2=True, n3=True)
    seen.look(1.0, n1=True, n2=False, n3=False)
    assert seen.told == [1, 2, 3]
    assert seen.cluster.others == []  # they have no shards, and are not asked
    seen.look(2.0, n1=True, n2=True, n3=False)
    assert seen.told == [1, 2, 3]


def test_node_that_stays_away_is_told_no_more() -> None:
    seen = Seen()
    seen.look(0.0, n2=True)
    seen.look(LEASE_S, n2=False)
    assert seen.told == [1, 2]
    seen.look(LEASE_S + 0.1, n2=False)
    assert seen.told == [1]


def test_no_client_is_sent_to_a_node_that_was_seen_long_ago() -> None:
    """A node that is cut off from the store does not see who dies."""
    seen = Seen()
    owners = {1: "node-1", 2: "node-2", CATALOGUE_SHARD: "node-2"}
    leases = [Lease(shard, Fence(0, 1), owner, 1_000, "") for shard, owner in owners.items()]
    seen.look(0.0, leases, n1=True, n2=True)
    seen.cluster.gained(1)
    assert (seen.sends(1), seen.sends(2)) == (1, 2)
    seen.now_s = LEASE_S
    assert (seen.sends(2), seen.directory.controller_id) == (2, 2)
    seen.now_s += 0.1
    assert (seen.sends(1), seen.sends(2)) == (1, None)
    assert seen.directory.controller_id == -1
    seen.look(seen.now_s, leases, n1=True, n2=True)
    assert seen.sends(2) == 2


def test_node_that_has_stopped_is_told_no_more_at_once() -> None:
    seen = Seen()
    seen.look(0.0, n2=True, n3=True)
    seen.look(0.1, n3=True)
    assert seen.told == [1, 3]


def test_node_that_was_dead_before_is_not_told() -> None:
    seen = Seen()
    seen.look(0.0, n2=False)
    assert seen.told == [1]


def test_node_that_renews_nothing_is_gone_though_the_clock_of_the_store_was_set_back() -> None:
    """Its entry is valid until that has caught up, and its shards would be left to it so long."""
    seen = Seen()
    note = NodeNote(2, {"": Address("n2", 1)}).to_bytes()

    def look(until: str) -> list[int]:
        seen.cluster.look(Survey((NodeEntry("node-2", note, 60_000, until),), ()), ())
        return [other.node_id for other in seen.cluster.others]

    assert look("12:00:05") == [2]
    seen.now_s = LEASE_S
    assert look("11:00:05") == [2]
    seen.now_s = 2 * LEASE_S
    assert look("11:00:05") == [2]
    seen.now_s += 0.1
    assert look("11:00:05") == []
    assert look("11:00:06") == [2]


def test_node_with_longer_leases_is_there_though_it_renews_seldom() -> None:
    """As while the setting is changed on one node after another."""
    seen = Seen()
    note = NodeNote(2, {"": Address("n2", 1)}, lease_ms=30_000).to_bytes()
    entry = NodeEntry("node-2", note, 20_000, "12:00:30")
    seen.cluster.look(Survey((entry,), ()), ())
    seen.now_s = 30.0
    seen.cluster.look(Survey((entry,), (THEIRS,)), ())
    assert (seen.told, seen.sends(1)) == ([1, 2], 2)
    seen.now_s += 0.1
    seen.cluster.look(Survey((entry,), (THEIRS,)), ())
    assert seen.sends(1) is None


#: A lease of the second node.
THEIRS: Final = Lease(1, Fence(1, 1), "node-2", 1_000)


@pytest.mark.parametrize(
    ("nodes", "is_listed"),
    [({"n2": True}, True), ({"n2": False}, False), ({}, False)],
    ids=["there", "dead", "stopping"],
)
def test_shard_is_listed_by_a_node_that_clients_are_told_of(
    nodes: dict[str, bool], *, is_listed: bool
) -> None:
    seen = Seen()
    seen.look(0.0, leases=(THEIRS,), **nodes)
    assert seen.cluster.is_listed(1) is is_listed
    assert not seen.cluster.is_listed(2)


def test_shard_that_was_given_away_just_now_may_be_listed_by_nobody() -> None:
    """Its new owner may have been asked a moment before it had the shard."""
    seen = Seen()
    seen.cluster.gained(1)
    seen.now_s = 5.0
    seen.cluster.lost(1)
    seen.look(5.1, leases=(THEIRS,), n2=True)
    assert not seen.cluster.is_listed(1)
    seen.now_s = 6.0
    assert seen.cluster.is_listed(1)
