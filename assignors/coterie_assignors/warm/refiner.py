"""The refiner: from what is right in the end to what is to be now.

An assignor says where each partition belongs; a member that has no copy of its state can't simply
take over, or the work stands still until it has one.  So the refiner compares that target with who
works on what at present and with the lags that members report, and decides

- who works on each partition now (`actives`);
- which processes keep a copy in case an owner fails (`standbys`, and for better places
  `standby_moves`);
- which members make a copy to take over from others later (warm-ups).  The settings limit how many
  there are at a time in the whole group.

Each time members rejoin it is asked again, with other lags; step by step the present becomes the
target.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie_assignors.base import Claim, MemberInfo, Partitions
from coterie_assignors.copies import Pair
from coterie_assignors.state import WarmSettings
from coterie_assignors.warm.actives import place_actives
from coterie_assignors.warm.group import Group, Move, group_of
from coterie_assignors.warm.standby_moves import move_standbys
from coterie_assignors.warm.standbys import Standbys, place_standbys
from coterie_protocol.consumer import group_by_topic

__all__ = ["Refined", "refine"]


@dataclass(frozen=True, slots=True)
class Refined:
    """What members are to have now, by member id; `active` has all members."""

    active: dict[str, Partitions]
    #: Copies in case an owner fails.
    standbys: dict[str, Partitions]
    #: Copies by which partitions, or standbys, are to move.
    warmups: dict[str, Partitions]
    #: The member that each partition is to move to in the end.
    targets: dict[Pair, str]
    #: Whether nothing is to move, and the leader need not look again.
    is_final: bool
    #: Whether something could move at once that this answer leaves for the next one.
    needs_rejoin: bool


def refine(
    target: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    claims: Mapping[str, Claim],
    settings: WarmSettings,
) -> Refined:
    """Decide what each member is to have until the group looks again.

    `target` has each partition at most once, and only with members that subscribe to its topic.
    """
    group = group_of(target, members, claims, settings)
    active = place_actives(group)
    standbys = place_standbys(group, active)
    moves = _moves(group, active, standbys)
    warmups = heapq.nsmallest(settings.max_warmup_replicas, moves, key=_urgency(group))
    left = settings.max_warmup_replicas - len(warmups)
    # One more than there is room for tells whether there is more to do.
    better = move_standbys(standbys, left + 1) if settings.num_standbys else []
    warmups += better[:left]
    names = [member.member_id for member in group.copies.order]
    moving = {
        pair: names[to]
        for pair, to in group.target.items()
        if active[pair] != to and not group.is_away(to)
    }
    return Refined(
        active=_active(group, active, names, target),
        standbys=_by_member(names, _standbys_of_members(group, standbys)),
        warmups=_by_member(names, ((move.member, move.pair) for move in warmups)),
        targets=moving,
        is_final=not moving and not better and not _is_waiting(group, active, standbys),
        needs_rejoin=any(group.is_ready(pair, group.target[pair]) for pair in moving),
    )


def _is_waiting(group: Group, active: Mapping[Pair, int], standbys: Standbys) -> bool:
    """Whether the absence of members may have another answer later.

    No rebalance begins by itself when one is back and could keep standbys, nor when a standby of
    what waits for one has caught up.
    """
    if not group.settings.num_standbys:
        return False
    return any(each.is_away and each.warm is not None for each in group.copies.order) or any(
        group.is_away(member) and standbys.of[pair] for pair, member in active.items()
    )


def _moves(group: Group, active: Mapping[Pair, int], standbys: Standbys) -> list[Move]:
    """The copies that are missing where partitions are meant to be; a standby serves as well."""
    process_of = group.copies.process_of
    return [
        Move(pair, wanted)
        for pair, wanted in group.target.items()
        if active[pair] != wanted
        and not group.is_away(wanted)
        and not group.is_ready(pair, wanted)
        and process_of[wanted] not in standbys.of[pair]
    ]


def _urgency(group: Group) -> Callable[[Move], tuple[bool, int, Pair]]:
    """Sorts copies: those that are under way come first, or none of them would ever be finished.

    Those that do not get on come last, or no others would ever begin.
    """
    copies = group.copies

    def key(move: Move) -> tuple[bool, int, Pair]:
        process = copies.process_of[move.member]
        return (move.pair, process) in copies.stalled, copies.lag(move.pair, process), move.pair

    return key


def _standbys_of_members(group: Group, standbys: Standbys) -> Iterator[tuple[int, Pair]]:
    """Which member of each process keeps a standby: one that has the copy, else the least busy."""
    copies = group.copies
    for pair, wanted in group.target.items():
        # It could have the partition, and has to wait: it keeps the copy that makes it ready.
        process = copies.process_of[wanted]
        if (
            standbys.active[pair] != process
            and copies.order[wanted].warm is not None
            and process not in standbys.of[pair]
            and group.is_ready(pair, wanted)
        ):
            yield wanted, pair
    reporters = _reporters(group)
    by_load = {
        process: [(0, member) for member in members]
        for process, members in enumerate(copies.members_of)
        if len(members) > 1
    }
    for pair, processes in standbys.of.items():
        for process in processes:
            if process not in by_load:
                yield copies.members_of[process][0], pair
                continue
            member = reporters.get((process, pair))
            yield _least_busy(group, pair, by_load[process]) if member is None else member, pair


def _reporters(group: Group) -> dict[tuple[int, Pair], int]:
    """The members that report copies, of processes with several members."""
    copies = group.copies
    found: dict[tuple[int, Pair], int] = {}
    for process, members in enumerate(copies.members_of):
        for member in members if len(members) > 1 else ():
            report = copies.order[member].warm
            for pair in report.lags if report else ():
                other = found.setdefault((process, pair), member)
                is_better = copies.own_lag(pair, member) < copies.own_lag(pair, other)
                if group.may_keep(pair, member) and (is_better or not group.may_keep(pair, other)):
                    found[process, pair] = member
    return {key: member for key, member in found.items() if group.may_keep(key[1], member)}


def _least_busy(group: Group, pair: Pair, heap: list[tuple[int, int]]) -> int:
    """The member of a process with the fewest standbys, of those that may have this one."""
    passed: list[tuple[int, int]] = []
    while not group.may_keep(pair, heap[0][1]):
        passed.append(heapq.heappop(heap))
    count, member = heap[0]
    heapq.heapreplace(heap, (count + 1, member))
    for entry in passed:
        heapq.heappush(heap, entry)
    return member


def _active(
    group: Group,
    active: Mapping[Pair, int],
    names: Sequence[str],
    target: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    if active == group.target:
        return dict(target)
    nothing: dict[str, Partitions] = dict.fromkeys(target, ())
    return nothing | _by_member(names, ((member, pair) for pair, member in active.items()))


def _by_member(names: Sequence[str], had: Iterable[tuple[int, Pair]]) -> dict[str, Partitions]:
    """Group by member id; members that have nothing are left out."""
    pairs: dict[int, list[Pair]] = {}
    for member, pair in had:
        pairs.setdefault(member, []).append(pair)
    return {names[member]: group_by_topic(theirs) for member, theirs in sorted(pairs.items())}
