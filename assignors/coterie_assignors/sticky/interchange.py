"""Which partitions move, where members report state: those that takers have copies of.

And not those of which they tried to make copies in vain.

To the balance, one partition is as good as another.  To a member it is not: it takes
over at once what it has a caught-up copy of, and has to copy anything else first.  And as each
answer starts from the partitions that members own, moves that wait for their copies would
otherwise be decided anew every time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final, TypeAlias

from coterie_assignors.base import (
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    in_kafka_order,
    subscribers_by_topic,
)
from coterie_assignors.copies import NO_COPY, Copies, Pair
from coterie_assignors.ownership import UNOWNED, owners_among
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["prefer_copies"]

#: Topics with the same subscribers, or one topic; and the racks of the partition's replicas.
_Kind: TypeAlias = tuple[int, frozenset[str]]
_NOWHERE: Final = frozenset[str]()


def prefer_copies(
    assignment: Mapping[str, Partitions],
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    *,
    by_topic: bool = False,
    copies: Copies | None = None,
) -> dict[str, Partitions]:
    """Exchange partitions for ones that their takers have copies of.

    What is exchanged has the same subscribers and racks, and `by_topic` also the same topic.  So
    loads stay as they are, and no more partitions move.
    """
    # Without copies there is no choice; without moves, none is needed.
    if not any(member.warm is not None and member.warm.lags for member in members.values()) or all(
        name in claims and claims[name].owned == given for name, given in assignment.items()
    ):
        return dict(assignment)
    order = in_kafka_order(members.values()) if copies is None else copies.order
    plan = _Plan(order, assignment, claims)
    if len(plan.takers) <= 1 and plan.givers <= {UNOWNED}:
        return dict(assignment)  # One member gets all that is free.
    copies = Copies(order) if copies is None else copies
    if not copies.stalled and not any(map(copies.of_member, plan.takers)):
        return dict(assignment)
    changes: dict[Pair, int] = {}
    kinds = _Kinds(order, cluster, by_topic=by_topic)
    for kind, moving in kinds.grouped(plan.moving()).items():
        gives = Counter(map(plan.owner, moving))
        takes = Counter(map(plan.taker, moving))
        if len(takes) == 1 and gives.keys() == {UNOWNED}:
            continue
        alike = [pair for pair in kinds.alike(plan.taker_of, kind) if plan.owner(pair) in gives]
        changes |= _exchanged(moving, alike, plan, gives, takes, copies)
    if not changes:
        return dict(assignment)
    pairs: list[list[Pair]] = [[] for _ in order]
    for pair, index in (plan.taker_of | changes).items():
        pairs[index].append(pair)
    return {member.member_id: group_by_topic(pairs[n]) for n, member in enumerate(order)}


class _Plan:
    """Who is to have what, who has it now, and what differs."""

    def __init__(
        self,
        order: Sequence[MemberInfo],
        assignment: Mapping[str, Partitions],
        claims: Mapping[str, Claim],
    ) -> None:
        self._takers: dict[str, dict[int, int]] = {}
        for index, member in enumerate(order):
            for entry in assignment[member.member_id]:
                of_topic = self._takers.setdefault(entry.topic, {})
                of_topic.update(dict.fromkeys(entry.partitions, index))
        self._owners = owners_among(order, claims)
        topics = [frozenset(member.topics) for member in order]
        for topic, of_topic in self._owners.items():
            indexes = set(of_topic.values())
            able = {index for index in indexes if index >= 0 and topic in topics[index]}
            if able != indexes:
                self._owners[topic] = {n: each for n, each in of_topic.items() if each in able}
        #: Who gives partitions up, `UNOWNED` among them, and who gets them.
        self.givers: set[int] = set()
        self.takers: set[int] = set()
        self._moving: dict[str, list[int]] = {}
        for topic, takers in self._takers.items():
            owners = self._owners.get(topic, {})
            moving = [number for number, index in takers.items() if owners.get(number) != index]
            self._moving[topic] = moving
            self.givers.update([owners.get(number, UNOWNED) for number in moving])
            self.takers.update([takers[number] for number in moving])

    def moving(self) -> list[Pair]:
        """The partitions that change hands."""
        return sorted(
            (topic, number) for topic, numbers in self._moving.items() for number in numbers
        )

    def owner(self, pair: Pair) -> int:
        """The member that has a partition now, or `UNOWNED`."""
        return self._owners.get(pair[0], {}).get(pair[1], UNOWNED)

    def taker(self, pair: Pair) -> int:
        """The member that is to have a partition."""
        return self._takers[pair[0]][pair[1]]

    @cached_property
    def taker_of(self) -> dict[Pair, int]:
        """The member that is to have each partition."""
        return {
            (topic, number): index
            for topic, of_topic in self._takers.items()
            for number, index in of_topic.items()
        }


class _Kinds:
    """Which partitions can stand in for each other: those of one kind."""

    def __init__(self, order: Sequence[MemberInfo], cluster: Cluster, *, by_topic: bool) -> None:
        pools: dict[Hashable, int] = {}
        self._pool_of = {
            topic: pools.setdefault(topic if by_topic else tuple(theirs), len(pools))
            for topic, theirs in subscribers_by_topic(order, cluster).items()
        }
        self._racks = cluster.racks
        self._all: dict[_Kind, list[Pair]] | None = None

    def grouped(self, pairs: Iterable[Pair]) -> dict[_Kind, list[Pair]]:
        """Partitions by their kind."""
        found: dict[_Kind, list[Pair]] = {}
        if not self._racks and len(set(self._pool_of.values())) == 1:
            return {(0, _NOWHERE): list(pairs)}
        for pair in pairs:
            racks = self._racks.get(pair[0])
            where = racks[pair[1]] if racks else _NOWHERE
            found.setdefault((self._pool_of[pair[0]], where), []).append(pair)
        return found

    def alike(self, pairs: Iterable[Pair], kind: _Kind) -> list[Pair]:
        """Those of these partitions that are of one kind; they are the same in each call."""
        if self._all is None:
            self._all = self.grouped(pairs)
        return self._all[kind]


def _exchanged(
    moving: Sequence[Pair],
    alike: Sequence[Pair],
    plan: _Plan,
    gives: Counter[int],
    takes: Counter[int],
    copies: Copies,
) -> dict[Pair, int]:
    """The new takers of partitions that move, or moved before."""
    taker, owner = plan.taker_of, plan.owner
    changes: dict[Pair, int] = {}
    candidates = [*_copied(frozenset(alike), takes, copies), *_untried(alike, taker, takes, copies)]
    for _, pair, member in sorted(candidates):
        giver = owner(pair)
        if pair not in changes and takes[member] and gives[giver] and giver != member:
            changes[pair] = member
            takes[member] -= 1
            gives[giver] -= 1
    if not changes:
        return changes
    rest = [pair for pair in moving if pair not in changes]
    # What still has a place where it was to go stays meant for it; the others take what is left.
    for pair in sorted(rest, key=lambda each: not takes[taker[each]]):
        giver = owner(pair)
        if not gives[giver]:
            changes[pair] = giver
            continue
        member = taker[pair] if takes[taker[pair]] else next(iter(+takes))
        changes[pair] = member
        takes[member] -= 1
        gives[giver] -= 1
    return changes


def _copied(
    alike: AbstractSet[Pair], takes: Iterable[int], copies: Copies
) -> Iterable[tuple[int, Pair, int]]:
    """The copies that takers have, with their lag."""
    for member in takes:
        refused = flatten(copies.order[member].refused)
        for pair, lag in copies.of_member(member).items():
            if pair in alike and pair not in refused:
                yield lag, pair, member


def _untried(
    alike: Sequence[Pair], taker: Mapping[Pair, int], takes: Iterable[int], copies: Copies
) -> Iterable[tuple[int, Pair, int]]:
    """What takers have no copies of, for those that do not get on with what they are to have."""
    if not copies.stalled:
        return
    process_of = copies.process_of
    stuck = {taker[pair] for pair in alike if (pair, process_of[taker[pair]]) in copies.stalled}
    for member in sorted(stuck.intersection(takes)):
        process, refused = process_of[member], flatten(copies.order[member].refused)
        for pair in alike:
            is_new = copies.lag(pair, process) == NO_COPY and (pair, process) not in copies.stalled
            if is_new and pair not in refused:
                yield NO_COPY, pair, member
