"""An assignor that balances over processes, and within each over its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import ClassVar, TypeAlias

from coterie_assignors.base import (
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
    subscribers_by_topic,
)
from coterie_assignors.copies import Copies, Pair
from coterie_assignors.ownership import owners_among
from coterie_assignors.presence import among_present
from coterie_assignors.state import WarmSettings
from coterie_assignors.sticky import CooperativeStickyAssignor, prefer_copies
from coterie_assignors.sticky.balance import grouped
from coterie_assignors.warm.spreading import FREE, Holding, Spreading

__all__ = ["InstanceStickyAssignor"]

#: Something of each partition: by topic, and then by number.
_ByTopic: TypeAlias = dict[str, list[int]]


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
    assignment = grouped(order, given.items())
    return prefer_copies(assignment, cluster, members, claims, by_topic=True, copies=copies)


def _owners(
    order: Sequence[MemberInfo],
    subscribers: Mapping[str, Sequence[int]],
    cluster: Cluster,
    claims: Mapping[str, Claim],
) -> _ByTopic:
    """The member that owns each partition, or `FREE`."""
    claimed = owners_among(order, claims)
    owner: _ByTopic = {}
    for topic, theirs in subscribers.items():
        able, of_topic = set(theirs), claimed.get(topic, {})
        found = [of_topic.get(number, FREE) for number in range(cluster.topics[topic])]
        owner[topic] = [index if index in able else FREE for index in found]
    return owner


def _over_processes(
    copies: Copies, subscribers: Mapping[str, Sequence[int]], owner: _ByTopic, factor: int
) -> _ByTopic:
    """The process of each partition."""
    if len(copies.members_of) == 1:
        return {topic: [0] * len(owners) for topic, owners in owner.items()}
    takers_by_members: dict[tuple[int, ...], list[int]] = {}
    takers: dict[str, list[int]] = {}
    for topic, members in subscribers.items():
        key = tuple(members)
        if key not in takers_by_members:
            takers_by_members[key] = sorted({copies.process_of[member] for member in key})
        takers[topic] = takers_by_members[key]
    # The process of what is `FREE`, which is -1, is the last one in here.
    process_of = [*copies.process_of, FREE]
    holder = {topic: [process_of[each] for each in owners] for topic, owners in owner.items()}
    late: dict[str, list[int]] = {topic: [] for topic in holder}
    for (topic, number), process in _given_to_copies(holder, takers, copies).items():
        holder[topic][number] = process
        late[topic].append(number)
    return Spreading(
        takers,
        {topic: Holding(units, owner[topic], late[topic]) for topic, units in holder.items()},
        len(copies.members_of),
        _Copied(copies, holder).topics,
        factor,
    ).spread()


class _Copied:
    """The topics of which a process has copies of what another one holds."""

    def __init__(self, copies: Copies, holder: _ByTopic) -> None:
        self._copies = copies
        self._holder = {topic: list(units) for topic, units in holder.items()}
        self._by_holder: dict[int, dict[int, set[str]]] = {}

    def topics(self, giver: int, taker: int) -> AbstractSet[str]:
        """Those of one process and another one."""
        if taker not in self._by_holder:
            found: dict[int, set[str]] = {}
            for topic, number in self._copies.of_process[taker]:
                units = self._holder.get(topic, ())
                if 0 <= number < len(units):
                    found.setdefault(units[number], set()).add(topic)
            self._by_holder[taker] = found
        return self._by_holder[taker].get(giver, frozenset())


def _given_to_copies(
    holder: _ByTopic, takers: Mapping[str, Sequence[int]], copies: Copies
) -> dict[Pair, int]:
    """Let processes have the partitions without owner that they have copies of.

    That is up to an even share, so that no other partition has to move in return.
    """
    free = {
        (topic, number)
        for topic, units in holder.items()
        if FREE in units
        for number, unit in enumerate(units)
        if unit == FREE
    }
    if not free:
        return {}
    counts = {topic: Counter(units) for topic, units in holder.items()}
    loads = sum(counts.values(), Counter[int]())
    share, rest = divmod(loads.total(), len(copies.members_of))
    # So many may have one more than an even share.
    rest -= sum(load > share for process, load in loads.items() if process != FREE)
    found = sorted(
        (lag, pair, process)
        for process, lags in enumerate(copies.of_process)
        for pair, lag in lags.items()
        if pair in free and process in takers[pair[0]]
    )
    given: dict[Pair, int] = {}
    for _, pair, process in found:
        topic = pair[0]
        is_full = loads[process] > share or (loads[process] == share and rest <= 0)
        # Rounded up.
        topic_share = -(-len(holder[topic]) // len(takers[topic]))
        if pair in given or is_full or counts[topic][process] >= topic_share:
            continue
        given[pair] = process
        rest -= loads[process] == share
        loads[process] += 1
        counts[topic][process] += 1
    return given


def _over_members(
    copies: Copies, subscribers: Mapping[str, Sequence[int]], owner: _ByTopic, share: _ByTopic
) -> _ByTopic:
    """The member of each partition, of those in the process that it was given to."""
    first = [members[0] for members in copies.members_of]
    given = {topic: [first[process] for process in share[topic]] for topic in share}
    for process, numbers in _numbers_to_share_out(copies, share).items():
        units = copies.members_of[process]
        place = {member: unit for unit, member in enumerate(units)}
        takers = {
            topic: [place[member] for member in subscribers[topic] if member in place]
            for topic in numbers
        }
        holder = {
            topic: Holding([place.get(owner[topic][number], FREE) for number in theirs])
            for topic, theirs in numbers.items()
        }
        spreading = Spreading(takers, holder, len(units), _copies_do_not_matter, factor=1)
        for topic, theirs in spreading.spread().items():
            of_topic = given[topic]
            for number, unit in zip(numbers[topic], theirs, strict=True):
                of_topic[number] = units[unit]
    return given


def _copies_do_not_matter(_giver: int, _taker: int) -> AbstractSet[str]:
    """Members of one process share what they have."""
    return frozenset()


def _numbers_to_share_out(copies: Copies, share: _ByTopic) -> dict[int, dict[str, list[int]]]:
    """What processes with several members are to have."""
    several = {process for process, each in enumerate(copies.members_of) if len(each) > 1}
    found: dict[int, dict[str, list[int]]] = {}
    for topic, processes in share.items() if several else ():
        for number, process in enumerate(processes):
            if process in several:
                found.setdefault(process, {}).setdefault(topic, []).append(number)
    return found
