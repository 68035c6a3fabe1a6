"""Who works on each partition now."""

from __future__ import annotations

from collections import Counter

from coterie_assignors.copies import UNKNOWN_LAG, Pair
from coterie_assignors.warm.group import Group

__all__ = ["place_actives"]


def place_actives(group: Group) -> dict[Pair, int]:
    """Choose the member that is to work on each partition.

    In this order: the one it is meant for, if that is ready, or shares the owner's process; the
    owner, if it is at work; the most caught-up of those that are caught up.  If there is none of
    these, all are cold, and the work stands still whichever gets it: the owner keeps it, or the one
    least far behind gets it, or else the one it is meant for.
    """
    active: dict[Pair, int] = {}
    undecided: list[Pair] = []
    for pair, wanted in group.target.items():
        owner = group.owner.get(pair)
        if group.is_ready(pair, wanted) or group.in_one_process(wanted, owner):
            active[pair] = wanted
        elif owner is not None and group.is_at_work(pair, owner):
            active[pair] = owner
        else:
            undecided.append(pair)
    loads = Counter(active.values())
    for pair in undecided:
        active[pair] = _most_caught_up(group, pair, loads)
        loads[active[pair]] += 1
    return active


def _most_caught_up(group: Group, pair: Pair, loads: Counter[int]) -> int:
    """The best of those that are cold or not meant to have it."""
    wanted, owner, copies = group.target[pair], group.owner.get(pair), group.copies
    candidates = [
        (lag, member != wanted, copies.own_lag(pair, member), loads[member], member)
        for process, lag in copies.lags.get(pair, {}).items()
        if lag < UNKNOWN_LAG
        for member in copies.members_of[process]
        if group.may_keep(pair, member)
    ]
    best = min(candidates, default=None)
    if best is not None and best[0] <= group.settings.acceptable_recovery_lag:
        return best[-1]
    if owner is not None:
        return owner
    return wanted if best is None else best[-1]
