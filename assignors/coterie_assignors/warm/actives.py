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
    """Members for partitions that are meant for others, which are not ready.

    A partition comes here, too, between its former owner and the member that it was released for:
    the assignor has been asked again, and may have other plans for the two.  If it then went back
    to its former owner, and that every time, the group would rebalance for ever.  So members that
    are short of partitions come first, and of what is on its way to one, something else has to wait
    in return.  Of these, members that have to release others come last: a former owner would
    otherwise get one back in exchange for the next, and that every time, too.
    """

    def __init__(self, group: Group, active: dict[Pair, int]) -> None:
        self._group = group
        self._active = active
        self._loads = Counter(active.values())
        #: How many partitions each member is to have and neither has nor can have at once.
        self._short = Counter(group.target.values())
        #: The partitions that are to be released for each member, and can wait.
        self._coming: dict[int, list[Pair]] = {}
        #: How many of these each member releases.
        self._releasing: Counter[int] = Counter()
        for pair, member in active.items():
            owner = group.owner.get(pair, member)
            if owner == member:
                self._short[member] -= 1
            elif group.is_at_work(pair, owner):
                self._coming.setdefault(member, []).append(pair)
                self._releasing[owner] += 1
        self._stateless = [
            index for index, member in enumerate(group.copies.order) if member.warm is None
        ]

    def choose(self, pair: Pair) -> int:
        """The best of those that are cold or not meant to have it."""
        wanted, owner = self._group.target[pair], self._group.owner.get(pair)
        if owner is None and not self._stateless and pair not in self._group.copies.lags:
            # There is no other one.
            self._loads[wanted] += 1
            self._short[wanted] -= 1
            return wanted
        acceptable = self._group.settings.acceptable_recovery_lag
        candidates = list(self._with_copies(pair))
        ready = [(*self._order(key[-1]), *key) for key in candidates if key[0] <= acceptable] + [
            (*self._order(member), acceptable, True, acceptable, self._loads[member], member)
            for member in self._stateless
            if self._is_short(member)
            and self._group.may_have(pair, member)
            and not self._group.is_away(wanted)
        ]
        if ready:
            member = min(ready)[-1]
        elif owner is not None:
            member = owner
        else:
            member = min(candidates)[-1] if candidates else wanted
        if self._group.in_one_process(wanted, member):
            member = wanted
        self._loads[member] += 1
        if member == wanted:
            self._short[member] -= 1
        elif member != owner and self._is_short(member) and not self._group.is_away(wanted):
            self._short[member] -= 1
            self._let_wait(member)
        return member

    def _order(self, member: int) -> tuple[bool, bool]:
        """Sorts those first that are short of partitions, of these the ones that release none."""
        is_short = self._is_short(member)
        return not is_short, is_short and self._releasing[member] > 0

    def _is_short(self, member: int) -> bool:
        return self._short[member] > 0 or bool(self._coming.get(member))

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

    def _let_wait(self, member: int) -> None:
        """Have a member that got something else do without what is to be released for it."""
        if self._coming.get(member):
            waiting = self._coming[member].pop()
            owner = self._group.owner[waiting]
            self._active[waiting] = owner
            self._releasing[owner] -= 1
