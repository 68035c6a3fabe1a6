"""Short ways to describe groups, and checks of assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from coterie_assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic

__all__ = [
    "Pair",
    "assert_fair",
    "assert_valid",
    "assigned",
    "best_possible",
    "everything",
    "far",
    "group",
    "having",
    "loads",
    "member",
    "moved",
    "rounds_until_settled",
    "without",
]

Pair = tuple[str, int]


def member(
    member_id: str,
    topics: Collection[str],
    owned: Iterable[Pair] = (),
    generation: int = -1,
    instance_id: str | None = None,
    rack: str | None = None,
) -> MemberInfo:
    """A member that subscribes to these topics and owns these partitions."""
    return MemberInfo(
        member_id=member_id,
        topics=tuple(topics),
        instance_id=instance_id,
        owned=group_by_topic(owned),
        generation=generation,
        rack=rack,
    )


def group(*members: MemberInfo) -> dict[str, MemberInfo]:
    """Members by id."""
    return {member.member_id: member for member in members}


def without(members: Mapping[str, MemberInfo], *gone: str) -> dict[str, MemberInfo]:
    """The members without some that left."""
    return {name: member for name, member in members.items() if name not in gone}


def having(
    members: Mapping[str, MemberInfo], assignment: Mapping[str, Partitions], generation: int = 1
) -> dict[str, MemberInfo]:
    """The same members, rejoining with what they were assigned."""
    return {
        name: replace(member, owned=assignment.get(name, ()), generation=generation)
        for name, member in members.items()
    }


def assigned(
    assignor: Assignor, topics: Mapping[str, int], members: Mapping[str, MemberInfo]
) -> dict[str, set[Pair]]:
    """An assignor's answer, as pairs."""
    given = assignor.assign(Cluster(topics), members)
    return {name: set(flatten(partitions)) for name, partitions in given.items()}


def everything(topics: Mapping[str, int]) -> set[Pair]:
    """All partitions of these topics."""
    return set(Cluster(topics).partitions_of(topics))


def loads(assignment: Mapping[str, Partitions]) -> dict[str, int]:
    """How many partitions each member gets; those assigned twice count twice."""
    return {
        name: sum(len(entry.partitions) for entry in partitions)
        for name, partitions in assignment.items()
    }


def moved(members: Mapping[str, MemberInfo], assignment: Mapping[str, Partitions]) -> int:
    """How many partitions move away from members that could have kept them."""
    taken = 0
    for name, had in members.items():
        kept = flatten(assignment[name])
        wanted = set(had.topics)
        everything_given = set().union(*(flatten(partitions) for partitions in assignment.values()))
        taken += sum(
            pair[0] in wanted and pair in everything_given and pair not in kept
            for pair in flatten(had.owned)
        )
    return taken


def far(
    cluster: Cluster, members: Mapping[str, MemberInfo], held: Mapping[str, Collection[Pair]]
) -> int:
    """How many partitions are with a member in a rack without a replica of theirs."""
    return sum(
        members[name].rack not in cluster.racks[topic][number]
        for name, pairs in held.items()
        for topic, number in pairs
        if members[name].rack is not None
    )


def assert_valid(
    topics: Mapping[str, int],
    members: Mapping[str, MemberInfo],
    assignment: Mapping[str, Partitions],
) -> None:
    """Every partition with subscribers is assigned to exactly one of them."""
    assert assignment.keys() == members.keys()
    owners = Counter(
        (entry.topic, number)
        for partitions in assignment.values()
        for entry in partitions
        for number in entry.partitions
    )
    wanted = set().union(*(member.topics for member in members.values()))
    assert owners == Counter(Cluster(topics).partitions_of(wanted))
    for name, partitions in assignment.items():
        assert {entry.topic for entry in partitions} <= set(members[name].topics)


def assert_fair(
    topics: Mapping[str, int],
    members: Mapping[str, MemberInfo],
    assignment: Mapping[str, Partitions],
) -> None:
    """It is valid, and no member has two more than one to which it could hand a partition."""
    assert_valid(topics, members, assignment)
    load = loads(assignment)
    for giver, partitions in assignment.items():
        for entry in partitions:
            takers = [name for name, other in members.items() if entry.topic in other.topics]
            assert load[giver] <= min(load[name] for name in takers) + 1


def best_possible(topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> list[int]:
    """The most even loads possible, sorted; found slowly, by one shortest path per partition."""
    load = dict.fromkeys(members, 0)
    owner: dict[Pair, str] = {}
    for pair in sorted(everything(topics)):
        takers = sorted(name for name, member in members.items() if pair[0] in member.topics)
        if takers:
            _place(pair, takers, owner, load, members)
    return sorted(load.values())


def _place(
    pair: Pair,
    takers: list[str],
    owner: dict[Pair, str],
    load: dict[str, int],
    members: Mapping[str, MemberInfo],
) -> None:
    """Find the least loaded member reachable by handing partitions on, and hand them on."""
    came_with: dict[str, Pair] = dict.fromkeys(takers, pair)
    line = list(takers)
    for name in line:
        for held in sorted(held for held, holder in owner.items() if holder == name):
            for other in sorted(members):
                if held[0] in members[other].topics and other not in came_with:
                    came_with[other] = held
                    line.append(other)
    last = min(line, key=lambda name: (load[name], name))
    load[last] += 1
    handed: Pair | None = None
    while handed != pair:
        handed = came_with[last]
        owner[handed], last = last, owner.get(handed, last)


def rounds_until_settled(
    topics: Mapping[str, int],
    members: dict[str, MemberInfo],
    racks: Mapping[str, Sequence[frozenset[str]]] | None = None,
) -> int:
    """Rebalance cooperatively until nothing is withheld; return the number of rounds.

    Checks on the way that no partition ever has two owners.
    """
    assignor = CooperativeStickyAssignor()
    for turn in range(1, 10):
        adjusted = lead(assignor, Cluster(topics, racks or {}), members)
        owners = Counter(
            pair for partitions in adjusted.assignment.values() for pair in flatten(partitions)
        )
        for name, member in members.items():
            # Until it has its assignment, a member still works on what it owned.
            owners.update(flatten(member.owned) - flatten(adjusted.assignment[name]))
        assert set(owners.values()) <= {1}
        if not adjusted.needs_rejoin:
            assert_fair(topics, members, adjusted.assignment)
            return turn
        members = having(members, adjusted.assignment, turn)
    raise AssertionError("does not settle")
