"""Sparing members what they can't work on: each gets something else, so that it stays balanced."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_client.assignors.base import MemberInfo, Partitions
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = ["spare"]

_Held = dict[str, set[tuple[str, int]]]


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
    held = {name: set(flatten(target[name])) for name, refused in refusals.items() if refused}
    if not any(refusals[name] & partitions for name, partitions in held.items()):
        return target
    held = {name: set(flatten(partitions)) for name, partitions in target.items()}
    touched: set[str] = set()
    for name in sorted(held):
        for partition in sorted(held[name] & refusals[name]):
            taker = _taker(partition, held, members, refusals)
            if taker is None:
                continue
            held[name].remove(partition)
            held[taker].add(partition)
            touched |= {name, taker}
            if len(held[taker]) > len(held[name]) + 1:
                _give_back(taker, name, partition, held, members, refusals)
    return {
        name: group_by_topic(held[name]) if name in touched else partitions
        for name, partitions in target.items()
    }


def _taker(
    partition: tuple[str, int],
    held: _Held,
    members: Mapping[str, MemberInfo],
    refusals: Mapping[str, frozenset[tuple[str, int]]],
) -> str | None:
    """Who takes a partition: the one with the least to do."""
    able = [
        name
        for name, member in members.items()
        if partition[0] in member.topics and partition not in refusals[name]
    ]
    return min(able, key=lambda name: (len(held[name]), name), default=None)


def _give_back(
    taker: str,
    refuser: str,
    taken: tuple[str, int],
    held: _Held,
    members: Mapping[str, MemberInfo],
    refusals: Mapping[str, frozenset[tuple[str, int]]],
) -> None:
    owned = flatten(members[taker].owned)
    able = [
        each
        for each in held[taker] - refusals[refuser] - {taken}
        if each[0] in members[refuser].topics
    ]
    if able:
        given = min(able, key=lambda each: (each in owned, each))
        held[taker].remove(given)
        held[refuser].add(given)
