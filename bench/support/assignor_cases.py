"""Groups for the assignors' benchmark: with equal subscriptions, and those of Kafka's own."""

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
    Weights,
)
from coterie_protocol.consumer import flatten
from coterie_protocol.loads import Load, LoadReport

__all__ = [
    "PARTITIONS",
    "AssignorCase",
    "case_of_equals",
    "case_of_kafkas_benchmark",
    "cases_of_loads",
]

#: The number of partitions of each topic in groups with equal subscriptions.
PARTITIONS: Final = 10

_RACKS: Final = ("rack0", "rack1", "rack2")
#: The number of different subscriptions in Kafka's benchmark.
_BUCKETS: Final = 5


@dataclass(frozen=True, slots=True)
class AssignorCase:
    """A group, and the assignment to compute for it."""

    question: str
    assignor: Assignor
    cluster: Cluster
    members: Mapping[str, MemberInfo]

    @property
    def name(self) -> str:
        """The numbers of members and topics."""
        return f"{len(self.members)} x {len(self.cluster.topics)}"

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return sum(self.cluster.topics.values())


def case_of_equals(question: str, members: int, topics: int) -> AssignorCase:
    """A group with equal subscriptions; "one left" means that a member has left since."""
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

    The question is text such as "cooperative-sticky, one joins, five kinds".  `replicas` of three
    racks have a replica of each partition, in turns; 0 means that there are no racks.
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


def cases_of_loads(members: int, partitions: int) -> list[AssignorCase]:
    """A group whose partitions differ in load by up to a thousand times, by number and by load."""
    cluster = Cluster({"topic": partitions})
    infos = {
        f"m{n:05}": MemberInfo(member_id=f"m{n:05}", topics=("topic",)) for n in range(members)
    }
    given = CooperativeStickyAssignor().assign(cluster, infos)
    # A power law, spread over the partitions by a multiplication that mixes them.
    loads = [1000 / (1 + n * 7919 % partitions) ** 0.7 for n in range(partitions)]
    settled = {
        name: replace(
            info,
            owned=given[name],
            generation=1,
            loads=LoadReport({pair: Load(loads[pair[1]], 10**7) for pair in flatten(given[name])}),
        )
        for name, info in infos.items()
    }
    newcomer = MemberInfo(member_id="newcomer", topics=("topic",), loads=LoadReport())
    left = {name: info for name, info in settled.items() if int(name[1:]) % 10}
    groups = {
        "uneven": settled,
        "one joins": settled | {"newcomer": newcomer},
        "a tenth left": left,
    }
    return [
        AssignorCase(f"cooperative-sticky, {what}, {by}", assignor, cluster, group)
        for what, group in groups.items()
        for by, assignor in (
            ("by number", CooperativeStickyAssignor()),
            ("by load", CooperativeStickyAssignor(Weights())),
        )
    ]


def _five_kinds(topics: Sequence[str], members: int) -> list[tuple[str, ...]]:
    """Subscriptions: each fifth of the members has a fifth of the topics."""
    width = -(-len(topics) // _BUCKETS)
    parts = [tuple(topics[start : start + width]) for start in range(0, len(topics), width)]
    size = -(-members // _BUCKETS)
    return [parts[n // size] for n in range(members)]
