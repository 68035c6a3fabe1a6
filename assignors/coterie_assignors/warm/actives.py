"""Who works on each partition now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from coterie_assignors.copies import NO_COPY, UNKNOWN_LAG
from coterie_assignors.ownership import UNOWNED
from coterie_assignors.warm.group import Group

__all__ = ["place_actives"]


def place_actives(group: Group) -> list[int]:
    """Choose the member that is to work on each partition.

    In this order: the one it is meant for, if that is ready, or shares the owner's process; the
    owner, if it is at work; one that is caught up.  If there is none of these, all are cold, and
    the work stands still whichever gets it: the owner keeps it, or the one least far behind gets
    it, or else the one it is meant for.  A member that is away is neither ready nor at work, and
    owns what is meant for it.
    """
    active = list(group.target)
    undecided: list[int] = []
    for task in _not_ready(group):
        wanted, owner = group.target[task], group.owner[task]
        if owner == UNOWNED or not group.is_at_work(task, owner):
            undecided.append(task)
        elif not group.in_one_process(wanted, owner):
            active[task] = owner
    if _is_any_choice(group, undecided):
        substitutes = _Substitutes(group, active, undecided)
        for task in undecided:
            active[task] = substitutes.choose(task)
    return active


def _not_ready(group: Group) -> list[int]:
    """The partitions that the members they are meant for can't work on yet."""
    # As `is_ready`, and much faster for thousands of partitions.
    acceptable, state_of = group.settings.acceptable_recovery_lag, group.state_of
    return [
        task
        for task, (wanted, lags) in enumerate(zip(group.target, group.lags, strict=True))
        if (process := state_of[wanted]) is not None and lags.get(process, NO_COPY) > acceptable
    ]


def _is_any_choice(group: Group, undecided: Sequence[int]) -> bool:
    """Whether any of these partitions could go to another member than it is meant for."""
    return any(group.lags[task] or group.owner[task] != UNOWNED for task in undecided)


class _Substitutes:
    """Members for partitions that are meant for others, which are not ready."""

    def __init__(self, group: Group, active: Sequence[int], undecided: Sequence[int]) -> None:
        self._group = group
        decided = set(range(len(active))).difference(undecided)
        self._loads = Counter(active[task] for task in decided)

    def choose(self, task: int) -> int:
        """The best of those that are cold or not meant to have it."""
        wanted, owner = self._group.target[task], self._group.owner[task]
        best = min(self._with_copies(task), default=None)
        if best is not None and best[0] <= self._group.settings.acceptable_recovery_lag:
            member = best[-1]
        elif owner != UNOWNED:
            member = owner
        else:
            member = wanted if best is None else best[-1]
        if self._group.in_one_process(wanted, member):
            member = wanted
        self._loads[member] += 1
        return member

    def _with_copies(self, task: int) -> Iterator[tuple[int, bool, int, int, int]]:
        """The members with copies, as keys that sort the best ones first."""
        group, wanted = self._group, self._group.target[task]
        copies, pair = group.copies, group.tasks.pair(task)
        for process, lag in group.lags[task].items():
            if lag >= UNKNOWN_LAG:
                continue
            for member in copies.members_of[process]:
                if group.may_keep(task, member):
                    own_lag = copies.own_lag(pair, member)
                    yield lag, member != wanted, own_lag, self._loads[member], member
