"""Racks (KIP-881): near members first, then few moves, and never at the cost of even loads.

Partitions of a pool that are near to the same racks form a lot, and within a lot one is as good as
another.  Who gets how many of which lot is the cheapest way through a network: from the lots to
the members, and on to the loads that a fair share allows.  A partition far from its member costs
more than all moves together; a move costs one, and what stays where it is costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from coterie_assignors._claims import NOBODY
from coterie_assignors._flow import Network
from coterie_assignors._slack import Slack, find_slack
from coterie_assignors.base import Cluster, MemberInfo
from coterie_protocol.consumer import flatten

__all__ = ["Lot", "share_by_racks"]

#: How many links may be looked at, in all, before it is done regardless of the cost: some seconds.
LOOKS_MAX: Final = 20_000_000


class _Pool(Protocol):
    members: list[int]
    size: int
    had: list[int]
    share: list[int]


class _Ground(Protocol):
    topics: list[str]
    owners: list[int]

    @property
    def pool(self) -> _Pool: ...


@dataclass(slots=True)
class Lot:
    """Partitions of one ground that are near to the same racks."""

    #: The ground's place among all grounds.
    ground: int
    near: frozenset[str]
    #: Their places among the ground's partitions.
    numbers: list[int] = field(default_factory=list)
    #: How many of them each member has had, and is to have.
    had: Counter[int] = field(default_factory=Counter)
    share: Counter[int] = field(default_factory=Counter)
    #: Whether they stay with who has them, near or far, as long as the loads allow.
    is_pinned: bool = False

    def is_near(self, rack: str | None) -> bool:
        """Whether there is a replica in this rack; who tells no rack is near to everything."""
        return self.is_pinned or rack is None or rack in self.near


def share_by_racks(
    order: Sequence[MemberInfo], grounds: Sequence[_Ground], cluster: Cluster
) -> list[Lot]:
    """Answer how many of which lot each member is to have, the grounds' shares being settled.

    Nothing is answered where racks make no difference: then one partition is as good as another.
    """
    # As in Kafka, an empty name is none.
    racks = [member.rack or None for member in order]
    if not cluster.racks or len(set(racks)) < 2:
        return []
    if not any(_matters(ground, racks, cluster) for ground in grounds):
        return []
    refused = {pair for member in order if member.refused for pair in flatten(member.refused)}
    pools = [ground.pool for ground in grounds]
    stays = all(pool.share == pool.had for pool in pools)
    lots = [
        lot
        for place, ground in enumerate(grounds)
        for lot in _lots(place, ground, racks, cluster, refused)
    ]
    if stays and all(lot.is_near(racks[member]) for lot in lots for member in lot.had):
        return []
    is_best = _Plan(racks, lots, pools, find_slack(pools, len(order))).settle()
    # Where there is too much to look through, even loads are left alone: else each look might
    # find something else, and the group would not come to rest.
    return lots if is_best or not stays else []


def _matters(ground: _Ground, racks: Sequence[str | None], cluster: Cluster) -> bool:
    """Whether some partitions are near to some of the subscribers, but not to all."""
    theirs = {racks[member] for member in ground.pool.members}
    if len(theirs) < 2:
        return False
    return any(
        near != theirs - {None} and (near or None in theirs)
        for near in _nearby(ground, theirs, cluster).values()
    )


def _nearby(
    ground: _Ground, theirs: set[str | None], cluster: Cluster
) -> dict[frozenset[str], frozenset[str]]:
    """The sets of racks in which partitions have replicas, each with the racks that count here."""
    kinds: set[frozenset[str]] = set()
    for topic in ground.topics:
        where = cluster.racks.get(topic, ())
        kinds.update(where)
        if len(where) < cluster.topics[topic]:
            kinds.add(frozenset())
    return {kind: kind & theirs for kind in kinds}


def _lots(
    place: int,
    ground: _Ground,
    racks: Sequence[str | None],
    cluster: Cluster,
    refused: Collection[tuple[str, int]],
) -> Iterator[Lot]:
    theirs = {racks[member] for member in ground.pool.members}
    lots: dict[frozenset[str], Lot] = {}
    numbers = {
        kind: lots.setdefault(near, Lot(place, near)).numbers
        for kind, near in _nearby(ground, theirs, cluster).items()
    }
    for number, kind in enumerate(_kinds(ground.topics, cluster)):
        numbers[kind].append(number)
    ranked = sorted(lots.values(), key=lambda lot: sorted(lot.near))
    if refused:
        ranked.append(_pin(ranked, place, ground, cluster, refused))
    for lot in ranked:
        lot.had.update([ground.owners[number] for number in lot.numbers])
        del lot.had[NOBODY]
        yield lot


def _pin(
    lots: Iterable[Lot],
    place: int,
    ground: _Ground,
    cluster: Cluster,
    refused: Collection[tuple[str, int]],
) -> Lot:
    """Take out of the lots what somebody refuses and another one has.

    If it were moved for being near, the refuser might be given it, and be spared it, again and
    again.
    """
    pairs = cluster.partitions_of(ground.topics)
    pinned = {
        number
        for number, (pair, owner) in enumerate(zip(pairs, ground.owners, strict=True))
        if owner != NOBODY and pair in refused
    }
    for lot in lots:
        lot.numbers[:] = [number for number in lot.numbers if number not in pinned]
    return Lot(place, frozenset(), sorted(pinned), is_pinned=True)


def _kinds(topics: Sequence[str], cluster: Cluster) -> Iterator[frozenset[str]]:
    """The racks of each partition's replicas; none where they are unknown."""
    for topic in topics:
        count = cluster.topics[topic]
        known = cluster.racks.get(topic, ())[:count]
        yield from known
        for _ in range(count - len(known)):
            yield frozenset()


@dataclass(slots=True)
class _Gate:
    """What passes through here comes to members of one ground in one rack, whatever lot it is."""

    rack: str | None
    node: int
    #: Links from the lots, and on to the members.
    lots: list[tuple[Lot, int]] = field(default_factory=list)
    members: list[tuple[int, int]] = field(default_factory=list)


class _Plan:
    """The network, and what is read from it."""

    def __init__(
        self, racks: Sequence[str | None], lots: Sequence[Lot], pools: Sequence[_Pool], slack: Slack
    ) -> None:
        self._racks = racks
        self._network = Network()
        self._source, self._sink = self._network.node(), self._network.node()
        self._members = [self._network.node() for _ in racks]
        #: Links from a lot straight to who has had some of it.
        self._keeping: list[tuple[Lot, int, int]] = []
        self._link_loads(slack)
        self._gates = [self._gates_of(pool) for pool in pools]
        # Outweighs all moves together: one that is near is worth any number of them.
        far = 1 + sum(pool.size for pool in pools)
        for lot in lots:
            self._link_lot(lot, far)

    def settle(self) -> bool:
        """Settle every lot's shares; tell whether they are the best there are."""
        is_best = self._network.fill(self._source, self._sink, LOOKS_MAX)
        for lot, member, link in self._keeping:
            lot.share[member] = self._network.sent(link)
        for gates in self._gates:
            for gate in gates:
                self._read(gate)
        return is_best

    def _link_loads(self, slack: Slack) -> None:
        levels = {load: self._network.node() for load in slack.spare}
        for load, count in slack.spare.items():
            self._network.link(levels[load], self._sink, count)
        for node, (least, more) in zip(self._members, slack.loads, strict=True):
            self._network.link(node, self._sink, least)
            if more is not None:
                self._network.link(node, levels[more], 1)

    def _gates_of(self, pool: _Pool) -> list[_Gate]:
        gates: dict[str | None, _Gate] = {}
        for member in pool.members:
            rack = self._racks[member]
            if rack not in gates:
                gates[rack] = _Gate(rack, self._network.node())
            link = self._network.link(gates[rack].node, self._members[member], pool.size)
            gates[rack].members.append((member, link))
        return list(gates.values())

    def _link_lot(self, lot: Lot, far: int) -> None:
        node, size = self._network.node(), len(lot.numbers)
        self._network.link(self._source, node, size)
        for member, count in sorted(lot.had.items()):
            price = 0 if lot.is_near(self._racks[member]) else far
            link = self._network.link(node, self._members[member], count, price)
            self._keeping.append((lot, member, link))
        for gate in self._gates[lot.ground]:
            price = 1 + far**2 if lot.is_pinned else 1 if lot.is_near(gate.rack) else 1 + far
            gate.lots.append((lot, self._network.link(node, gate.node, size, price)))

    def _read(self, gate: _Gate) -> None:
        """Pair what came to the gate with what went on from it."""
        came = [(lot, self._network.sent(link)) for lot, link in reversed(gate.lots)]
        for member, link in gate.members:
            wanted = self._network.sent(link)
            while wanted:
                lot, left = came.pop()
                count = min(left, wanted)
                lot.share[member] += count
                wanted -= count
                if left > count:
                    came.append((lot, left - count))
