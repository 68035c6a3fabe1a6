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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coterie_assignors.base import Claim, MemberInfo, Partitions
from coterie_assignors.copies import NO_COPY, Pair
from coterie_assignors.state import WarmSettings
from coterie_assignors.warm.actives import place_actives
from coterie_assignors.warm.group import Group, Move, group_of
from coterie_assignors.warm.standby_moves import move_standbys
from coterie_assignors.warm.standbys import Standbys, place_standbys

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
    urgent = heapq.nsmallest(settings.max_warmup_replicas, moves, key=_urgency(group, standbys))
    warmups = [Move(task, group.target[task]) for task in urgent]
    left = settings.max_warmup_replicas - len(warmups)
    # One more than there is room for tells whether there is more to do.
    better = move_standbys(standbys, left + 1) if settings.num_standbys else []
    warmups += better[:left]
    moving = [task for task in _elsewhere(group, active) if not group.is_away(group.target[task])]
    return Refined(
        active=_active(group, active, target),
        standbys=_named(group, _standbys_of_members(group, active, standbys)),
        warmups=_by_member(group, ((move.member, move.task) for move in warmups)),
        targets={
            group.tasks.pair(task): group.copies.order[group.target[task]].member_id
            for task in moving
        },
        is_final=not moving and not better and not _is_waiting(group, active, standbys),
        needs_rejoin=any(group.is_ready(task, group.target[task]) for task in moving),
    )


def _is_waiting(group: Group, active: Sequence[int], standbys: Standbys) -> bool:
    """Whether the absence of members may have another answer later.

    No rebalance begins by itself when one is back and could keep standbys, nor when a standby of
    what waits for one has caught up.
    """
    if not group.settings.num_standbys:
        return False
    return any(each.is_away and each.warm is not None for each in group.copies.order) or any(
        group.is_away(member) and standbys.of[task] for task, member in enumerate(active)
    )


def _elsewhere(group: Group, active: Sequence[int]) -> list[int]:
    """The partitions that are not where they are meant to be."""
    if active == group.target:
        return []
    return [
        task
        for task, (now, wanted) in enumerate(zip(active, group.target, strict=True))
        if now != wanted
    ]


def _moves(group: Group, active: Sequence[int], standbys: Standbys) -> list[int]:
    """The partitions that lack a copy where they are meant to be; a standby serves as well."""
    return [
        task
        for task in _elsewhere(group, active)
        if not group.is_away(group.target[task])
        and not group.is_ready(task, group.target[task])
        and standbys.wanted[task] not in standbys.of[task]
    ]


def _urgency(group: Group, standbys: Standbys) -> Callable[[int], tuple[bool, int, int]]:
    """Sorts copies: those that are under way come first, or none of them would ever be finished.

    Those that do not get on come last, or no others would ever begin.
    """
    stalled = {(group.tasks.task(pair), process) for pair, process in group.copies.stalled}

    def key(task: int) -> tuple[bool, int, int]:
        process = standbys.wanted[task]
        return (task, process) in stalled, group.lags[task].get(process, NO_COPY), task

    return key


def _standbys_of_members(
    group: Group, active: Sequence[int], standbys: Standbys
) -> dict[int, list[int]]:
    """Which member of each process keeps a standby: one that has the copy, else the least busy."""
    copies = group.copies
    found: dict[int, list[int]] = {}
    for task in _elsewhere(group, active):
        # It could have the partition, and has to wait: it keeps the copy that makes it ready.
        wanted, process = group.target[task], standbys.wanted[task]
        if (
            standbys.active[task] != process
            and copies.order[wanted].warm is not None
            and process not in standbys.of[task]
            and group.is_ready(task, wanted)
        ):
            found.setdefault(wanted, []).append(task)
    for process, tasks in standbys.by_process().items():
        members = copies.members_of[process]
        if len(members) == 1:
            found.setdefault(members[0], []).extend(tasks)
            continue
        reporters, by_load = _reporters(group, process), [(0, member) for member in members]
        for task in tasks:
            member = reporters.get(task)
            if member is None:
                member = _least_busy(group, task, by_load)
            found.setdefault(member, []).append(task)
    return found


def _reporters(group: Group, process: int) -> dict[int, int]:
    """The member of a process that reports each copy, and may keep it."""
    copies, tasks = group.copies, group.tasks
    found: dict[int, int] = {}
    for member in copies.members_of[process]:
        report = copies.order[member].warm
        for pair in report.lags if report else ():
            task = tasks.task(pair)
            if task is None or not group.may_keep(task, member):
                continue
            other = found.setdefault(task, member)
            if other != member and group.own_lag(task, member) < group.own_lag(task, other):
                found[task] = member
    return found


def _least_busy(group: Group, task: int, heap: list[tuple[int, int]]) -> int:
    """The member of a process with the fewest standbys, of those that may have this one."""
    passed: list[tuple[int, int]] = []
    while not group.may_keep(task, heap[0][1]):
        passed.append(heapq.heappop(heap))
    count, member = heap[0]
    heapq.heapreplace(heap, (count + 1, member))
    for entry in passed:
        heapq.heappush(heap, entry)
    return member


def _active(
    group: Group, active: Sequence[int], target: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    if active == group.target:
        return dict(target)
    nothing: dict[str, Partitions] = dict.fromkeys(target, ())
    return nothing | _by_member(group, zip(active, range(len(active)), strict=True))


def _by_member(group: Group, had: Iterable[tuple[int, int]]) -> dict[str, Partitions]:
    """Group by member id; members that have nothing are left out."""
    found: dict[int, list[int]] = {}
    for member, task in had:
        if member in found:
            found[member].append(task)
        else:
            found[member] = [task]
    return _named(group, found)


def _named(group: Group, found: Mapping[int, Iterable[int]]) -> dict[str, Partitions]:
    order, tasks = group.copies.order, group.tasks
    return {order[each].member_id: tasks.grouped(theirs) for each, theirs in sorted(found.items())}
