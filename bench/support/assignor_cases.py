"""Groups for the assignors' benchmark: of equals, and as Kafka's own benchmark makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from coterie_assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)

__all__ = ["PARTITIONS", "AssignorCase", "case_of_equals", "case_of_kafkas_benchmark"]

#: How many partitions each topic of a group of equals has.
PARTITIONS: Final = 10

_RACKS: Final = ("rack0", "rack1", "rack2")
#: Into how many parts Kafka's benchmark divides members and topics where they differ.
_BUCKETS: Final = 5


@dataclass(frozen=True, slots=True)
class AssignorCase:
    """One group, and what to ask for it."""

    question: str
    assignor: Assignor
    cluster: Cluster
    members: Mapping[str, MemberInfo]

    @property
    def name(self) -> str:
        """How many members share how many topics."""
        return f"{len(self.members)} x {len(self.cluster.topics)}"

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return sum(self.cluster.topics.values())


def case_of_equals(question: str, members: int, topics: int) -> AssignorCase:
    """A group with equal subscriptions; for "one left" one of a settled group has left."""
    cluster = Cluster({f"topic-{n:04}": PARTITIONS for n in range(topics)})
    infos = {
        f"member-{n:04}": MemberInfo(member_id=f"member-{n:04}", topics=tuple(cluster.topics))
        for n in range(members)
    }
    assignor: Assignor = StickyAssignor()
    if question in ("range", "roundrobin"):
        assignor = RangeAssignor() if question == "range" else RoundRobinAssignor()
    if question.endswith("left"):
        given = assignor.assign(cluster, infos)
        infos = {
            name: replace(info, user_data=assignor.subscription_user_data((), given[name], 1))
            for name, info in infos.items()
        }
        del infos["member-0001"]
    return AssignorCase(question, assignor, cluster, infos)


def case_of_kafkas_benchmark(
    question: str, size: tuple[int, int, int], *, replicas: int = 0
) -> AssignorCase:
    """A group of Kafka's ClientSideAssignorBenchmark: members, partitions for each, and topics.

    The question says what is asked, as in "cooperative-sticky, one joins, five kinds".  Replicas in
    as many of three racks go round; none means that there are no racks.
    """
    count, per_member, topics = size
    names = [f"topic{n}" for n in range(topics)]
    partitions = count * per_member // topics
    where = [frozenset(racks) for racks in combinations(_RACKS, replicas)] if replicas else []
    cluster = Cluster(
        dict.fromkeys(names, partitions),
        {name: [where[n % len(where)] for n in range(partitions)] for name in names}
        if where
        else {},
    )
    wanted = _five_kinds(names, count) if "five kinds" in question else [tuple(names)] * count
    members = {
        f"member{n}": MemberInfo(
            member_id=f"member{n}", topics=topics, rack=_RACKS[n % 3] if where else None
        )
        for n, topics in enumerate(wanted)
    }
    assignor = RangeAssignor() if question.startswith("range") else CooperativeStickyAssignor()
    if "one joins" in question:
        last = members.popitem()
        given = assignor.assign(cluster, members)
        members = {name: replace(info, owned=given[name]) for name, info in members.items()}
        members |= [last]
    return AssignorCase(question, assignor, cluster, members)


def _five_kinds(topics: Sequence[str], members: int) -> list[tuple[str, ...]]:
    """Topics in five parts, each for a fifth of the members."""
    width = -(-len(topics) // _BUCKETS)
    parts = [tuple(topics[start : start + width]) for start in range(0, len(topics), width)]
    size = -(-members // _BUCKETS)
    return [parts[n // size] for n in range(members)]
