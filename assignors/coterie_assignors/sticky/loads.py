"""From claims to each member's partitions, balanced by load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coterie_assignors.base import Claim, Cluster, MemberInfo, Partitions, in_kafka_order
from coterie_assignors.ownership import UNOWNED, owners_among
from coterie_assignors.sticky.balance import balanced, by_member
from coterie_assignors.sticky.interchange import prefer_copies
from coterie_assignors.sticky.pools import Pool, make_pools
from coterie_assignors.sticky.weighing import Cargo, weigh
from coterie_assignors.sticky.weighted import WeightedPlan
from coterie_assignors.weights import Weights
from coterie_protocol.consumer import flatten

__all__ = ["balanced_by_load", "imbalance"]

#: If the settings do not say how many partitions may move in a rebalance: one of so many.
_ONE_OF: Final = 10


def balanced_by_load(
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    weights: Weights,
) -> dict[str, Partitions]:
    """Assign all partitions so that loads are about even; by number if no load is known."""
    order = in_kafka_order(members.values())
    pools = _make_pools(order, cluster, claims)
    cargo = weigh(order, pools, cluster, weights)
    if cargo is None:
        return _by_number(cluster, members, claims)
    _plan(order, pools, cluster, cargo, weights)
    start = 0
    for pool in pools:
        pool.owners, start = cargo.owners[start : start + pool.size], start + pool.size
    return by_member(order, pools, cluster)


def imbalance(
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    weights: Weights,
) -> str | None:
    """Which member has too high a load, and how many partitions would move because of it.

    It is about numbers if no load is known, as a balance is then.
    """
    order = in_kafka_order(members.values())
    pools = _make_pools(order, cluster, claims)
    cargo = weigh(order, pools, cluster, weights)
    if cargo is None:
        moves = _moves_by_number(cluster, members, claims)
        return f"no load is known, {_partitions(moves)} to move for even numbers" if moves else None
    before = list(cargo.owners)
    highest, ratio = WeightedPlan(order, pools, cluster, cargo, weights).highest_load
    _plan(order, pools, cluster, cargo, weights)
    moves = sum(had not in (UNOWNED, has) for had, has in zip(before, cargo.owners, strict=True))
    if not moves:
        return None
    name = order[highest].instance_id or order[highest].member_id
    return f"{name} has {ratio:.2f} times the mean, {_partitions(moves)} to move"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _by_number(
    cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
) -> dict[str, Partitions]:
    return prefer_copies(balanced(cluster, members, claims), cluster, members, claims)


def _moves_by_number(
    cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
) -> int:
    given = {
        name: flatten(partitions)
        for name, partitions in _by_number(cluster, members, claims).items()
    }
    there = frozenset[tuple[str, int]]().union(*given.values())
    return sum(
        topic in members[name].topics
        for name, claim in claims.items()
        for topic, number in flatten(claim.owned) & there - given[name]
    )


def _make_pools(
    order: Sequence[MemberInfo], cluster: Cluster, claims: Mapping[str, Claim]
) -> list[Pool]:
    owners = owners_among(order, claims)
    return make_pools(order, cluster, owners)


def _plan(
    order: Sequence[MemberInfo],
    pools: Sequence[Pool],
    cluster: Cluster,
    cargo: Cargo,
    weights: Weights,
) -> None:
    plan = WeightedPlan(order, pools, cluster, cargo, weights)
    plan.place()
    plan.fill_idle()
    plan.even_out(weights.max_moves or max(1, len(cargo.owners) // _ONE_OF))
