"""Who works on each partition now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coterie_assignors.copies import NO_COPY, UNKNOWN_LAG, Pair
from coterie_assignors.warm.group import Group

__all__ = ["place_actives"]


def place_actives(group: Group) -> dict[Pair, int]:
    """Choose the member that is to work on each partition.

    In this order: the one it is meant for, if that is ready, or shares the owner's process; the
    owner, if it is at work; one that is caught up.  If there is none of these, all are cold, and
    the work stands still whichever gets it: the owner keeps it, or the one least far behind gets
    it, or else the one it is meant for.  A member that is away is neither ready nor at work, and
    owns what is meant for it.
    """
    active: dict[Pair, int] = {}
    undecided: list[Pair] = []
    acceptable = group.settings.acceptable_recovery_lag
    for pair, wanted in group.target.items():
        # As `is_ready`, and much faster for thousands of partitions.
        lags = group.lags[wanted]
        if lags is None or lags.get(pair, NO_COPY) <= acceptable:
            active[pair] = wanted
            continue
        owner = group.owner.get(pair)
        if owner is not None and group.is_at_work(pair, owner):
            active[pair] = wanted if group.in_one_process(wanted, owner) else owner
        else:
            undecided.append(pair)
    if undecided:
        substitutes = _Substitutes(group, active)
        for pair in undecided:
            active[pair] = substitutes.choose(pair)
    return active


class _Substitutes:
    """Members for partitions that are meant for others, which are not ready."""

    def __init__(self, group: Group, active: dict[Pair, int]) -> None:
        self._group = group
        self._loads = Counter(active.values())

    def choose(self, pair: Pair) -> int:
        """The best of those that are cold or not meant to have it."""
        wanted, owner = self._group.target[pair], self._group.owner.get(pair)
        best = min(self._with_copies(pair), default=None)
        if best is not None and best[0] <= self._group.settings.acceptable_recovery_lag:
            member = best[-1]
        elif owner is not None:
            member = owner
        else:
            member = wanted if best is None else best[-1]
        if self._group.in_one_process(wanted, member):
            member = wanted
        self._loads[member] += 1
        return member

    def _with_copies(self, pair: Pair) -> Iterator[tuple[int, bool, int, int, int]]:
        """The members with copies, as keys that sort the best ones first."""
        copies, wanted = self._group.copies, self._group.target[pair]
        for process, lag in copies.lags.get(pair, {}).items():
            if lag >= UNKNOWN_LAG:
                continue
            for member in copies.members_of[process]:
                if self._group.may_keep(pair, member):
                    own_lag = copies.own_lag(pair, member)
                    yield lag, member != wanted, own_lag, self._loads[member], member
