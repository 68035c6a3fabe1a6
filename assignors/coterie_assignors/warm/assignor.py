"""An assignor that balances over processes, and within each over its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from coterie_assignors.base import (
    NO_CLAIM,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
    subscribers_by_topic,
)
from coterie_assignors.copies import Copies, Pair
from coterie_assignors.ownership import resolve_claims
from coterie_assignors.presence import among_present
from coterie_assignors.state import WarmSettings
from coterie_assignors.sticky import CooperativeStickyAssignor, prefer_copies
from coterie_assignors.warm.spreading import FREE, Spreading
from coterie_protocol.consumer import group_by_topic

__all__ = ["InstanceStickyAssignor"]


class InstanceStickyAssignor(CooperativeStickyAssignor):
    """Balances over processes: several members of one process count as one.

    Each topic is spread over the processes as well, and each process's share over its members.
    Partitions move as little as that allows.  A member's process is known if it reports state.
    """

    name: ClassVar[str] = "instance-sticky"

    def __init__(self) -> None:
        """It balances numbers, not loads."""
        super().__init__()

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Assign evenly over processes."""
        return self.assign_warm(cluster, members, WarmSettings())

    def assign_warm(
        self, cluster: Cluster, members: Mapping[str, MemberInfo], settings: WarmSettings
    ) -> dict[str, Partitions]:
        """Assign evenly over processes, as far as the balance factor demands it."""
        claims = {member_id: self.claim(member) for member_id, member in members.items()}
        return among_present(partial(_balanced, settings.balance_factor), cluster, members, claims)


def _balanced(
    factor: int, cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
) -> dict[str, Partitions]:
    order = in_kafka_order(members.values())
    subscribers = subscribers_by_topic(order, cluster)
    copies = Copies(order)
    owner = _owners(order, subscribers, cluster, claims)
    share = _over_processes(copies, subscribers, owner, factor)
    given = _over_members(copies, subscribers, owner, share)
    pairs: list[list[Pair]] = [[] for _ in order]
    for pair, member in given.items():
        pairs[member].append(pair)
    assignment = {each.member_id: group_by_topic(pairs[n]) for n, each in enumerate(order)}
    return prefer_copies(assignment, cluster, members, claims, by_topic=True, copies=copies)


def _owners(
    order: Sequence[MemberInfo],
    subscribers: Mapping[str, Sequence[int]],
    cluster: Cluster,
    claims: Mapping[str, Claim],
) -> dict[Pair, int]:
    """The member that owns each partition, or `FREE`; the partitions are sorted."""
    claimed = resolve_claims([claims.get(member.member_id, NO_CLAIM) for member in order])
    owner: dict[Pair, int] = {}
    for topic, theirs in subscribers.items():
        able, of_topic = set(theirs), claimed.get(topic, {})
        for number in range(cluster.topics[topic]):
            index = of_topic.get(number, FREE)
            owner[topic, number] = index if index in able else FREE
    return owner


def _over_processes(
    copies: Copies,
    subscribers: Mapping[str, Sequence[int]],
    owner: Mapping[Pair, int],
    factor: int,
) -> dict[Pair, int]:
    """The process of each partition."""
    takers_by_members: dict[tuple[int, ...], list[int]] = {}
    takers: dict[str, list[int]] = {}
    for topic, members in subscribers.items():
        key = tuple(members)
        if key not in takers_by_members:
            takers_by_members[key] = sorted({copies.process_of[member] for member in key})
        takers[topic] = takers_by_members[key]
    holder = {
        pair: copies.process_of[owner[pair]] if owner[pair] != FREE else FREE
        for pair in _in_turns(owner)
    }
    given = _given_to_copies(holder, takers, copies)
    # Given ones come last: what a unit has too many of, it gives up from the end.
    holder = {pair: holder[pair] for pair in holder if pair not in given} | given
    copied: dict[tuple[int, int], set[str]] = {}
    for pair, lags in copies.lags.items():
        for process in lags:
            copied.setdefault((holder.get(pair, FREE), process), set()).add(pair[0])
    return Spreading(takers, holder, len(copies.members_of), copied, factor).spread()


def _in_turns(owner: Mapping[Pair, int]) -> list[Pair]:
    """The first partition that each member has of each topic, then all second ones, and so on.

    So the members of a process that gives up some give up equally many.
    """
    counts: Counter[tuple[str, int]] = Counter()
    turns: dict[Pair, int] = {}
    for pair, member in owner.items():
        turns[pair] = counts[pair[0], member]
        counts[pair[0], member] += 1
    return sorted(owner, key=lambda pair: turns[pair])


def _given_to_copies(
    holder: Mapping[Pair, int], takers: Mapping[str, Sequence[int]], copies: Copies
) -> dict[Pair, int]:
    """Let processes have the partitions without owner that they have copies of.

    That is up to an even share, so that no other partition has to move in return.
    """
    if FREE not in holder.values():
        return {}
    loads, counts = Counter(holder.values()), Counter((t, p) for (t, _), p in holder.items())
    sizes = Counter(topic for topic, _ in holder)
    share, rest = divmod(len(holder), max(1, len(copies.members_of)))
    # So many may have one more than an even share.
    rest -= sum(load > share for process, load in loads.items() if process != FREE)
    found = sorted(
        (lag, pair, process)
        for pair, lags in copies.lags.items()
        if holder.get(pair) == FREE
        for process, lag in lags.items()
        if process in takers[pair[0]]
    )
    given: dict[Pair, int] = {}
    for _, pair, process in found:
        is_full = loads[process] > share or (loads[process] == share and rest <= 0)
        # Rounded up.
        topic_share = -(-sizes[pair[0]] // len(takers[pair[0]]))
        if pair in given or is_full or counts[pair[0], process] >= topic_share:
            continue
        given[pair] = process
        rest -= loads[process] == share
        loads[process] += 1
        counts[pair[0], process] += 1
    return given


def _over_members(
    copies: Copies,
    subscribers: Mapping[str, Sequence[int]],
    owner: Mapping[Pair, int],
    share: Mapping[Pair, int],
) -> dict[Pair, int]:
    """The member of each partition, of those in the process that it was given to."""
    given: dict[Pair, int] = {}
    by_process: dict[int, list[Pair]] = {}
    for pair in owner:
        process = share[pair]
        if len(copies.members_of[process]) == 1:
            given[pair] = copies.members_of[process][0]
        else:
            by_process.setdefault(process, []).append(pair)
    for process, pairs in by_process.items():
        units = copies.members_of[process]
        number = {member: unit for unit, member in enumerate(units)}
        takers = {
            topic: [number[member] for member in subscribers[topic] if member in number]
            for topic in dict.fromkeys(pair[0] for pair in pairs)
        }
        holder = {pair: number.get(owner[pair], FREE) for pair in pairs}
        spreading = Spreading(takers, holder, len(units), {}, factor=1)
        given |= {pair: units[unit] for pair, unit in spreading.spread().items()}
    return given
