"""Sparing members what they can't work on: each gets something else, so that it stays balanced."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_assignors.base import MemberInfo, Partitions
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["spare"]

_Pair = tuple[str, int]


def spare(
    target: Mapping[str, Partitions], members: Mapping[str, MemberInfo]
) -> Mapping[str, Partitions]:
    """Give what members refuse to others that want its topic, if there are any.

    Whoever takes it and then has more than the refuser gives it one of its own in return, one that
    it did not own before if possible.  What everybody refuses stays where it is.
    """
    if not any(member.refused for member in members.values()):
        return target
    refusals = {name: flatten(member.refused) for name, member in members.items()}
    if not any(refused & flatten(target[name]) for name, refused in refusals.items() if refused):
        return target
    sparing = _Sparing(members, refusals, target)
    for name in sorted(target):
        for partition in sorted(sparing.held[name] & refusals[name]):
            sparing.spare(name, partition)
    return {
        name: group_by_topic(sparing.held[name]) if name in sparing.touched else partitions
        for name, partitions in target.items()
    }


class _Sparing:
    """Who is to have what, while refused partitions change hands."""

    def __init__(
        self,
        members: Mapping[str, MemberInfo],
        refusals: Mapping[str, frozenset[_Pair]],
        target: Mapping[str, Partitions],
    ) -> None:
        self._members = members
        self._refusals = refusals
        self.held = {name: set(flatten(partitions)) for name, partitions in target.items()}
        #: Those to whom something else falls than before.
        self.touched: set[str] = set()

    def spare(self, refuser: str, partition: _Pair) -> None:
        """Give a partition to somebody else, and take something in return if that is fair."""
        taker = self._taker(refuser, partition)
        if taker is None:
            return
        returnable = self._returnable(taker, refuser)
        self.held[refuser].remove(partition)
        self.held[taker].add(partition)
        self.touched |= {refuser, taker}
        if returnable and len(self.held[taker]) > len(self.held[refuser]) + 1:
            owned = flatten(self._members[taker].owned)
            given = min(returnable, key=lambda each: (each in owned, each))
            self.held[taker].remove(given)
            self.held[refuser].add(given)

    def _taker(self, refuser: str, partition: _Pair) -> str | None:
        """Who takes a partition: of those after whom it is balanced, who has the least to do.

        A taker that the refuser would refuse everything from leaves it unbalanced, and the group
        would rebalance for that again and again.
        """
        willing = [
            name
            for name, member in self._members.items()
            if partition[0] in member.topics and partition not in self._refusals[name]
        ]
        willing.sort(key=lambda name: (len(self.held[name]), name))
        for name in willing:
            if len(self.held[name]) < len(self.held[refuser]) or self._returnable(name, refuser):
                return name
        return willing[0] if willing else None

    def _returnable(self, taker: str, refuser: str) -> list[_Pair]:
        """What a member can give the refuser in return."""
        topics = self._members[refuser].topics
        return [each for each in self.held[taker] - self._refusals[refuser] if each[0] in topics]
