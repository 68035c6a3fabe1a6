"""What a cooperative group's leader does with an assignment before it sends it (KIP-429).

The assignor says who is to have what.  A partition that another member still owns can't be given
away yet: it is withheld, its owner sees that it is missing and revokes it, and everybody rejoins
to have it assigned.  So at no time two members own a partition, whatever assignor is in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from coterie_assignors._claims import CONTESTED, Ledger, settle
from coterie_assignors._refusals import spare
from coterie_assignors.base import (
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
)
from coterie_protocol.consumer import TopicPartitions, group_by_topic

__all__ = ["Adjustment", "InvalidAssignmentError", "adjust", "lead"]


class InvalidAssignmentError(Exception):
    """An assignor's answer breaks the rules that its interface states."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What to send to the members."""

    assignment: dict[str, Partitions]
    #: Whether members are to rejoin at once, as partitions wait to be released (NEEDS_REJOIN).
    needs_rejoin: bool = False
    #: Those partitions, with the member that each is meant for.
    withheld: dict[str, Partitions] = field(default_factory=dict)


def lead(assignor: Assignor, cluster: Cluster, members: Mapping[str, MemberInfo]) -> Adjustment:
    """Do the leader's work: have the assignor decide, check its answer, and adjust it.

    Whoever refuses a partition is spared it, if somebody else can take it.

    It is adjusted wherever the assignor allows members to keep what they own, even if the leader
    itself still is eager: during an upgrade both kinds of member live in one generation, and those
    that are eager own nothing while they join.

    Raises `InvalidAssignmentError` when the answer gives a partition away twice, or to somebody who
    did not ask for it, or leaves a member out.
    """
    wished = assignor.assign(cluster, members)
    _check(wished, members)
    target = spare(wished, members)
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols:
        return Adjustment(dict(target))
    claims = {member_id: assignor.claim(member) for member_id, member in members.items()}
    return adjust(claims, target, {name: member.topics for name, member in members.items()})


def adjust(
    claims: Mapping[str, Claim],
    target: Mapping[str, Partitions],
    subscriptions: Mapping[str, Collection[str]],
) -> Adjustment:
    """Withhold from the target what other members still own, and hand back what it lacks.

    - What a member both owns and is to have, and what nobody owns, it is given.
    - What another one owns is withheld, and so is what several claim, until it is released.
    - What is owned but in nobody's target (the topic is gone, or the leader has not heard of it)
      stays with its owner, if that one still subscribes to it.
    """
    names = list(target)
    ledger = settle([claims.get(name, Claim()) for name in names])
    assignment: dict[str, Partitions] = {}
    withheld: dict[str, Partitions] = {}
    for place, name in enumerate(names):
        waiting = tuple(_waiting(target[name], place, ledger))
        assignment[name] = _without(target[name], waiting) if waiting else target[name]
        if waiting:
            withheld[name] = waiting
    for place, pairs in _left_out(target.values(), ledger).items():
        name = names[place]
        wanted = [(topic, number) for topic, number in pairs if topic in subscriptions[name]]
        if wanted:
            assignment[name] = _merged(assignment[name], wanted)
    return Adjustment(assignment, needs_rejoin=bool(withheld), withheld=withheld)


def _waiting(wanted: Partitions, place: int, ledger: Ledger) -> Iterator[TopicPartitions]:
    """What of this somebody else owns."""
    for entry in wanted:
        owners = ledger.get(entry.topic)
        if owners is None:
            continue
        numbers = [n for n in entry.partitions if owners.get(n, place) != place]
        if numbers:
            yield replace(entry, partitions=tuple(numbers))


def _without(partitions: Partitions, taken: Partitions) -> Partitions:
    gone = {entry.topic: set(entry.partitions) for entry in taken}
    rest = []
    for entry in partitions:
        numbers = tuple(n for n in entry.partitions if n not in gone.get(entry.topic, ()))
        if numbers:
            rest.append(replace(entry, partitions=numbers))
    return tuple(rest)


def _left_out(target: Iterable[Partitions], ledger: Ledger) -> dict[int, list[tuple[str, int]]]:
    """What is owned and in nobody's target, by its owner's place."""
    known: dict[str, set[int]] = {}
    for partitions in target:
        for entry in partitions:
            known.setdefault(entry.topic, set()).update(entry.partitions)
    left: dict[int, list[tuple[str, int]]] = {}
    for topic, owners in ledger.items():
        for number in owners.keys() - known.get(topic, set()):
            if owners[number] != CONTESTED:
                left.setdefault(owners[number], []).append((topic, number))
    return left


def _merged(partitions: Partitions, more: Iterable[tuple[str, int]]) -> Partitions:
    pairs = [(entry.topic, number) for entry in partitions for number in entry.partitions]
    return group_by_topic([*pairs, *more])


def _check(target: Mapping[str, Partitions], members: Mapping[str, MemberInfo]) -> None:
    if target.keys() != members.keys():
        odd = ", ".join(sorted(target.keys() ^ members.keys()))
        raise InvalidAssignmentError(f"members missing or unknown: {odd}")
    given: dict[str, set[int]] = {}
    for name, partitions in target.items():
        topics = set(members[name].topics)
        for entry in partitions:
            if entry.topic not in topics:
                raise InvalidAssignmentError(f"{name} did not subscribe to {entry.topic}")
            before = given.setdefault(entry.topic, set())
            expected = len(before) + len(entry.partitions)
            before.update(entry.partitions)
            if len(before) != expected:
                raise InvalidAssignmentError(f"{name} is given some of {entry.topic} twice")
