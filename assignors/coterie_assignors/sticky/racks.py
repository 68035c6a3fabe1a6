"""Racks (KIP-881): as many partitions as possible near their members, without loss of balance.

A partition is local to a member if one of its replicas is in the member's rack.  Partitions of a
pool with replicas in the same racks form a `RackGroup`, within which they are interchangeable.  How
many of each group each member gets is a minimum-cost flow: from the groups to the members, and on
to the loads that balance allows.  A partition that is not local costs more than all moves together,
a move costs one, and a partition that stays costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coterie_assignors.base import Cluster, MemberInfo
from coterie_assignors.ownership import UNOWNED
from coterie_assignors.sticky.min_cost_flow import Network
from coterie_assignors.sticky.pools import Pool, loads_of
from coterie_protocol.consumer import flatten

__all__ = ["RackGroup", "set_rack_quotas"]

#: The edges visited in all before the rest is assigned regardless of cost: some seconds.
EDGE_VISITS_MAX: Final = 20_000_000


@dataclass(slots=True)
class RackGroup:
    """Partitions of one pool with replicas in the same racks."""

    #: The index of the pool.
    pool: int
    racks: frozenset[str]
    #: The partitions' positions in the pool.
    numbers: list[int] = field(default_factory=list)
    #: How many of them each member owned, and is to get.
    owned: Counter[int] = field(default_factory=Counter)
    quota: Counter[int] = field(default_factory=Counter)
    #: Whether they stay with their owners, local or not, as long as balance allows.
    is_pinned: bool = False

    def is_local(self, rack: str | None) -> bool:
        """Whether a replica is in this rack; to a member that tells none, all are local."""
        return self.is_pinned or rack is None or rack in self.racks


def set_rack_quotas(
    order: Sequence[MemberInfo], pools: Sequence[Pool], cluster: Cluster
) -> list[RackGroup]:
    """Divide the pools into rack groups with quotas, once the pools' quotas are set.

    The result is empty where racks make no difference.
    """
    # As in Kafka, an empty rack is none.
    racks = [member.rack or None for member in order]
    if not cluster.racks or len(set(racks)) < 2:
        return []
    if not any(_racks_matter(pool, racks, cluster) for pool in pools):
        return []
    refused = {pair for member in order if member.refused for pair in flatten(member.refused)}
    is_settled = all(pool.quota == pool.owned for pool in pools)
    groups = [
        group
        for index, pool in enumerate(pools)
        for group in _rack_groups(index, pool, racks, cluster, refused)
    ]
    if is_settled and all(g.is_local(racks[member]) for g in groups for member in g.owned):
        return []
    is_optimal = _Plan(racks, groups, pools).solve()
    # If the search was cut short, a settled group is left alone: each search might find something
    # else, and the group would not come to rest.
    return groups if is_optimal or not is_settled else []


# Groups of partitions


def _racks_matter(pool: Pool, racks: Sequence[str | None], cluster: Cluster) -> bool:
    """Whether some partitions are local to some of the subscribers, but not to all."""
    theirs = {racks[member] for member in pool.members}
    if len(theirs) < 2:
        return False
    return any(
        common != theirs - {None} and (common or None in theirs)
        for common in _common_racks(pool, theirs, cluster).values()
    )


def _common_racks(
    pool: Pool, theirs: set[str | None], cluster: Cluster
) -> dict[frozenset[str], frozenset[str]]:
    """The sets of racks that partitions have replicas in; for each, those that members are in."""
    found: set[frozenset[str]] = set()
    for topic in pool.topics:
        known = cluster.racks.get(topic, ())
        found.update(known)
        if len(known) < cluster.topics[topic]:
            found.add(frozenset())
    return {racks: racks & theirs for racks in found}


def _rack_groups(
    index: int,
    pool: Pool,
    racks: Sequence[str | None],
    cluster: Cluster,
    refused: Collection[tuple[str, int]],
) -> Iterator[RackGroup]:
    theirs = {racks[member] for member in pool.members}
    groups: dict[frozenset[str], RackGroup] = {}
    numbers = {
        replicas: groups.setdefault(common, RackGroup(index, common)).numbers
        for replicas, common in _common_racks(pool, theirs, cluster).items()
    }
    for number, replicas in enumerate(_replica_racks(pool.topics, cluster)):
        numbers[replicas].append(number)
    ranked = sorted(groups.values(), key=lambda group: sorted(group.racks))
    if refused:
        ranked.append(_pin_refused(ranked, index, pool, cluster, refused))
    for group in ranked:
        group.owned.update([pool.owners[number] for number in group.numbers])
        del group.owned[UNOWNED]
        yield group


def _pin_refused(
    groups: Iterable[RackGroup],
    index: int,
    pool: Pool,
    cluster: Cluster,
    refused: Collection[tuple[str, int]],
) -> RackGroup:
    """Move partitions that some member refused and another one owns into a group of their own.

    Moved for their rack, they might go back to the refuser, be reassigned, and so on forever.
    """
    pairs = cluster.partitions_of(pool.topics)
    pinned = {
        number
        for number, (pair, owner) in enumerate(zip(pairs, pool.owners, strict=True))
        if owner != UNOWNED and pair in refused
    }
    for group in groups:
        group.numbers[:] = [number for number in group.numbers if number not in pinned]
    return RackGroup(index, frozenset(), sorted(pinned), is_pinned=True)


def _replica_racks(topics: Sequence[str], cluster: Cluster) -> Iterator[frozenset[str]]:
    """The racks of each partition's replicas; none where they are unknown."""
    for topic in topics:
        count = cluster.topics[topic]
        known = cluster.racks.get(topic, ())[:count]
        yield from known
        for _ in range(count - len(known)):
            yield frozenset()


# The flow


@dataclass(slots=True)
class _Gate:
    """The node through which one rack's members of one pool get partitions of all groups."""

    rack: str | None
    node: int
    #: The edges from the groups, and on to the members.
    groups: list[tuple[RackGroup, int]] = field(default_factory=list)
    members: list[tuple[int, int]] = field(default_factory=list)


class _Plan:
    """source -> groups -> gates -> members -> (loads ->) sink, and groups -> their owners."""

    def __init__(
        self, racks: Sequence[str | None], groups: Sequence[RackGroup], pools: Sequence[Pool]
    ) -> None:
        self._racks = racks
        self._network = Network()
        self._source, self._sink = self._network.add_node(), self._network.add_node()
        self._members = [self._network.add_node() for _ in racks]
        #: The edges from a group directly to its owners.
        self._kept: list[tuple[RackGroup, int, int]] = []
        self._add_loads(_find_load_bounds(pools, len(racks)))
        self._gates = [self._gates_of(pool) for pool in pools]
        # More than all moves together: one local partition is worth any number of them.
        remote = 1 + sum(pool.size for pool in pools)
        for group in groups:
            self._add_group(group, remote)

    def solve(self) -> bool:
        """Set the groups' quotas; tell whether they are optimal."""
        is_optimal = self._network.maximize(self._source, self._sink, EDGE_VISITS_MAX)
        for group, member, edge in self._kept:
            group.quota[member] = self._network.flow(edge)
        for gates in self._gates:
            for gate in gates:
                self._read(gate)
        return is_optimal

    def _add_loads(self, bounds: _LoadBounds) -> None:
        add_edge = self._network.add_edge
        levels = {load: self._network.add_node() for load in bounds.exchangeable}
        for load, count in bounds.exchangeable.items():
            add_edge(levels[load], self._sink, count)
        for node, (least, higher) in zip(self._members, bounds.of_members, strict=True):
            add_edge(node, self._sink, least)
            if higher is not None:
                add_edge(node, levels[higher], 1)

    def _gates_of(self, pool: Pool) -> list[_Gate]:
        gates: dict[str | None, _Gate] = {}
        for member in pool.members:
            rack = self._racks[member]
            if rack not in gates:
                gates[rack] = _Gate(rack, self._network.add_node())
            edge = self._network.add_edge(gates[rack].node, self._members[member], pool.size)
            gates[rack].members.append((member, edge))
        return list(gates.values())

    def _add_group(self, group: RackGroup, remote: int) -> None:
        node, size = self._network.add_node(), len(group.numbers)
        self._network.add_edge(self._source, node, size)
        for member, count in sorted(group.owned.items()):
            cost = 0 if group.is_local(self._racks[member]) else remote
            edge = self._network.add_edge(node, self._members[member], count, cost)
            self._kept.append((group, member, edge))
        for gate in self._gates[group.pool]:
            cost = 1 if group.is_local(gate.rack) else 1 + remote
            if group.is_pinned:
                cost = 1 + remote**2
            gate.groups.append((group, self._network.add_edge(node, gate.node, size, cost)))

    def _read(self, gate: _Gate) -> None:
        """Match what came in through a gate with what went out."""
        came_in = [(group, self._network.flow(edge)) for group, edge in reversed(gate.groups)]
        for member, edge in gate.members:
            wanted = self._network.flow(edge)
            while wanted:
                group, left = came_in.pop()
                count = min(left, wanted)
                group.quota[member] += count
                wanted -= count
                if left > count:
                    came_in.append((group, left - count))


# The loads that balance allows


@dataclass(frozen=True, slots=True)
class _LoadBounds:
    """The loads that members may have so that, taken together, they stay as even as they are.

    In a balanced group, a member can at times swap loads with another one that has one more or one
    fewer.
    """

    #: For each member its least load, and the load with one more if it may have that.
    of_members: list[tuple[int, int | None]]
    #: By load: how many of the members that may have it have it.
    exchangeable: Mapping[int, int]


def _find_load_bounds(pools: Sequence[Pool], members: int) -> _LoadBounds:
    """Find which members can swap loads, by asking who can hand a partition to whom.

    Handing on through other members counts.  No member can go both ways, up and down: otherwise
    the loads could be more even.
    """
    loads = loads_of(pools, members)
    takers = [pool.members for pool in pools]
    givers = [
        [member for member, quota in zip(pool.members, pool.quota, strict=True) if quota]
        for pool in pools
    ]
    by_load = sorted(range(members), key=loads.__getitem__)
    lowest = _first_load_reaching(by_load, loads, givers, takers)
    highest = _first_load_reaching(by_load[::-1], loads, takers, givers)
    bounds: list[tuple[int, int | None]] = []
    for load, low, high in zip(loads, lowest, highest, strict=True):
        bounds.append((min(load, low), load if low < load else high if high > load else None))
    exchangeable = Counter(load for load, low in zip(loads, lowest, strict=True) if low < load)
    return _LoadBounds(bounds, exchangeable)


def _first_load_reaching(
    starts: Sequence[int],
    loads: Sequence[int],
    ends_by_pool: Sequence[Sequence[int]],
    starts_by_pool: Sequence[Sequence[int]],
) -> list[int]:
    """For each member, the load of the first of `starts` from which it can be reached.

    In each pool, edges lead from all its starts to all its ends; each pool is visited once.
    """
    pools_of: list[list[int]] = [[] for _ in loads]
    for number, members in enumerate(starts_by_pool):
        for member in members:
            pools_of[member].append(number)
    found: list[int | None] = [None] * len(loads)
    visited = [False] * len(ends_by_pool)
    for start in starts:
        if found[start] is not None:
            continue
        found[start] = loads[start]
        queue = [start]
        for member in queue:
            for number in pools_of[member]:
                if not visited[number]:
                    visited[number] = True
                    fresh = [other for other in ends_by_pool[number] if found[other] is None]
                    queue += fresh
                    for other in fresh:
                        found[other] = loads[start]
    return [load for load in found if load is not None]
