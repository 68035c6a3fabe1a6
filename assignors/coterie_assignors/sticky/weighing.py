"""What each partition weighs, and which ones may move: what members told, in whole numbers.

Loads are in any unit, and known only in part: a partition may be new, its owner of another make.
Here they become whole numbers with a given mean, so that all that follows is exact and the same in
whichever order members come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import fsum, inf
from typing import Final

from coterie_assignors.base import Cluster, MemberInfo
from coterie_assignors.copies import Copies
from coterie_assignors.ownership import UNOWNED
from coterie_assignors.sticky.pools import Pool
from coterie_assignors.weights import Weights
from coterie_protocol.consumer import flatten

__all__ = ["LEAST", "Cargo", "Kind", "mean_loads", "weigh"]

#: What the partitions weigh on average.
_MEAN: Final = 2**20
#: What each weighs at least: one that does nothing now may do something tomorrow.
LEAST: Final = _MEAN // 100

_Pair = tuple[str, int]


class Kind(IntEnum):
    """Whether a partition may move."""

    #: It has no owner, or its owner is about to lose it anyway.
    FREE = 0
    #: Its owner has had it for long enough.
    RESTED = 1
    #: It has moved a short while ago, or its owner does not say since when it has it.
    RESTING = 2


@dataclass(slots=True)
class Cargo:
    """The partitions of all pools, by position: pool after pool, and topic after topic."""

    #: The pool of each.
    pools: list[int] = field(default_factory=list)
    #: What each weighs.
    weights: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    #: The owner of each: a member's index, or `UNOWNED`.
    owners: list[int] = field(default_factory=list)
    #: The members that should not get a partition, because they refused it or have just lost it.
    barred: dict[int, set[int]] = field(default_factory=dict)
    #: The members that have a copy of a partition's state, where members tell of any, and its lag.
    copies: dict[int, dict[int, int]] = field(default_factory=dict)
    #: Whether partitions are on their way from one member to another one.
    is_handing_over: bool = False


def weigh(
    order: Sequence[MemberInfo], pools: Sequence[Pool], cluster: Cluster, weights: Weights
) -> Cargo | None:
    """Weigh all partitions; None if there is nothing to tell them apart."""
    cargo = Cargo()
    for index, pool in enumerate(pools):
        cargo.pools += [index] * pool.size
        cargo.owners += pool.owners
    pairs = [pair for pool in pools for pair in _pairs_of(pool, cluster)]
    left = _what_was_left(order, weights.rest_ms)
    known = _known_loads(order, cargo.owners, pairs, left)
    loads = _with_estimates(pairs, known, weights.topics)
    mean = fsum(loads) / len(loads) if loads else 0.0
    if not mean or not (weights.topics or any(load is not None for load in known)):
        return None
    cargo.weights = [max(LEAST, round(load / mean * _MEAN)) for load in loads]
    _bar_and_free(cargo, order, pools, cluster, left)
    cargo.copies = _copies(order, pairs)
    cargo.kinds = list(_kinds(order, cargo.owners, pairs, weights.rest_ms))
    return cargo


def _pairs_of(pool: Pool, cluster: Cluster) -> Iterator[_Pair]:
    for topic in pool.topics:
        for number in range(cluster.topics[topic]):
            yield topic, number


# What partitions weigh


def _what_was_left(
    order: Sequence[MemberInfo], rest_ms: int
) -> dict[_Pair, list[tuple[int, int, float | None]]]:
    """For each partition: how long ago members lost it, which ones, and its load there."""
    left: dict[_Pair, list[tuple[int, int, float | None]]] = {}
    for index, member in enumerate(order):
        if member.loads is not None:
            for pair, load in member.loads.left.items():
                if load.age_ms < rest_ms:
                    left.setdefault(pair, []).append((load.age_ms, index, load.value))
    return left


def _known_loads(
    order: Sequence[MemberInfo],
    owners: Sequence[int],
    pairs: Sequence[_Pair],
    left: Mapping[_Pair, Sequence[tuple[int, int, float | None]]],
) -> list[float | None]:
    """The loads that owners told; where they do not know them yet, those of the owners before."""
    reports = [member.loads.owned if member.loads is not None else {} for member in order]
    #: A member tells of what it has given up as well, until it was assigned to another one.
    anyone = {pair: load for report in reports for pair, load in report.items()}
    known: list[float | None] = []
    for pair, owner in zip(pairs, owners, strict=True):
        told = (reports[owner] if owner != UNOWNED else anyone).get(pair)
        value = None if told is None else told.value
        if value is None and pair in left:
            value = min(left[pair], key=_age)[2]
        known.append(value)
    return known


def _age(entry: tuple[int, int, float | None]) -> tuple[bool, int, int]:
    age_ms, index, load = entry
    return load is None, age_ms, index


def _with_estimates(
    pairs: Sequence[_Pair], known: Sequence[float | None], topics: Mapping[str, float]
) -> list[float]:
    """What is not known is as the topic was given to be, or as its other partitions, or all."""
    by_topic: dict[str, list[float]] = {}
    for (topic, _), load in zip(pairs, known, strict=True):
        if load is not None:
            by_topic.setdefault(topic, []).append(load)
    everything = [load for loads in by_topic.values() for load in loads]
    overall = fsum(everything) / len(everything) if everything else 1.0
    means = {topic: fsum(loads) / len(loads) for topic, loads in by_topic.items()} | dict(topics)
    return [
        means.get(topic, overall) if load is None else load
        for (topic, _), load in zip(pairs, known, strict=True)
    ]


# Which may move


def _bar_and_free(
    cargo: Cargo,
    order: Sequence[MemberInfo],
    pools: Sequence[Pool],
    cluster: Cluster,
    left: Mapping[_Pair, Sequence[tuple[int, int, float | None]]],
) -> None:
    """Note who should not get what, and take away what its owner refuses and others do not."""
    refused: dict[_Pair, set[int]] = {}
    for index, member in enumerate(order):
        for pair in flatten(member.refused):
            refused.setdefault(pair, set()).add(index)
    if not (left or refused):
        return
    position = 0
    for pool in pools:
        for pair in _pairs_of(pool, cluster):
            losers = {index for _, index, _ in left.get(pair, ())}
            refusers = refused.get(pair, set())
            if losers or refusers:
                cargo.barred[position] = losers | refusers
            if cargo.owners[position] == UNOWNED and losers:
                cargo.is_handing_over = True
            if cargo.owners[position] in refusers and not refusers.issuperset(pool.members):
                cargo.owners[position] = UNOWNED
            position += 1


def _copies(order: Sequence[MemberInfo], pairs: Sequence[_Pair]) -> dict[int, dict[int, int]]:
    if all(member.warm is None for member in order):
        return {}
    copies = Copies(order)
    return {
        position: {
            member: lag
            for each, lag in copies.lags[pair].items()
            for member in copies.members_of[each]
        }
        for position, pair in enumerate(pairs)
        if pair in copies.lags
    }


def _kinds(
    order: Sequence[MemberInfo], owners: Sequence[int], pairs: Sequence[_Pair], rest_ms: int
) -> Iterator[Kind]:
    reports = [member.loads.owned if member.loads is not None else {} for member in order]
    for pair, owner in zip(pairs, owners, strict=True):
        if owner == UNOWNED:
            yield Kind.FREE
        else:
            told = reports[owner].get(pair)
            rested = told is not None and told.age_ms >= rest_ms
            yield Kind.RESTED if rested else Kind.RESTING


# What members have on average


def mean_loads(
    pools: Sequence[Pool], cargo: Cargo, members: int, away: Collection[int]
) -> list[float]:
    """For each member, the mean load of those that it shares topics with, directly or not.

    Members that are away do not count, and have as much as they have.
    """
    root = list(range(members))

    def find(member: int) -> int:
        while root[member] != member:
            root[member] = root[root[member]]
            member = root[member]
        return member

    for pool in pools:
        first = find(pool.members[0])
        for member in pool.members:
            root[find(member)] = first
    totals: dict[int, int] = {}
    for index, weight, owner in zip(cargo.pools, cargo.weights, cargo.owners, strict=True):
        if owner not in away:
            top = find(pools[index].members[0])
            totals[top] = totals.get(top, 0) + weight
    tops = [find(member) for member in range(members)]
    sizes = Counter(top for member, top in enumerate(tops) if member not in away)
    return [
        inf if member in away else totals.get(top, 0) / sizes[top]
        for member, top in enumerate(tops)
    ]
