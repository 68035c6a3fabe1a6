"""Two custom assignors; run it to see what they decide.

    python examples/custom_assignors.py

To use one, pass it to every member of the group: ``Group(..., assignors=[LeastLagAssignor(lag)])``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import ClassVar

from coterie_client.assignors import (
    Assignor,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
    RoundRobinAssignor,
)
from coterie_protocol.consumer import flatten, group_by_topic


class CanaryAssignor(RoundRobinAssignor):
    """Gives members whose static name begins with "canary" only one partition each."""

    name = "canary"
    protocols: ClassVar = tuple(RebalanceProtocol)

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Assign everything, then take from the canaries all but one."""
        shares = {name: sorted(flatten(p)) for name, p in super().assign(cluster, members).items()}
        canaries = [
            m.member_id for m in members.values() if (m.instance_id or "").startswith("canary")
        ]
        others = [name for name in sorted(shares) if name not in canaries]
        for canary in canaries if others else ():
            while len(shares[canary]) > 1:
                least = min(others, key=lambda name: len(shares[name]))
                shares[least].append(shares[canary].pop())
        return {name: group_by_topic(partitions) for name, partitions in shares.items()}


class LeastLagAssignor(Assignor):
    """Gives the partition with the greatest lag to the member with the least lag so far.

    Members measure the lag of their partitions, and tell the leader when they join. When it has
    changed enough for a new assignment, any of them calls `group.rejoin()`.
    """

    name = "least-lag"
    protocols: ClassVar = tuple(RebalanceProtocol)

    def __init__(self, lag: Mapping[tuple[str, int], int]) -> None:
        self._lag = lag  # keep it up to date with what you measure
        #: What members told us as their leader. A partition that is changing hands has no owner,
        #: so no member tells its lag.
        self._told: dict[tuple[str, int], int] = {}

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # the subscription does not matter here
        owned: Partitions,
        generation: int,  # noqa: ARG002
    ) -> bytes:
        """Tell the leader how far behind our own partitions are."""
        return json.dumps([(*pair, self._lag.get(pair, 0)) for pair in flatten(owned)]).encode()

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Go through the partitions, the greatest lag first."""
        for member in members.values():
            told = json.loads(member.user_data or b"[]")
            self._told |= {(topic, number): behind for topic, number, behind in told}
        lag = {**self._lag, **self._told}
        given: dict[str, list[tuple[str, int]]] = {name: [] for name in members}
        load = dict.fromkeys(members, 0)
        topics = {topic for member in members.values() for topic in member.topics}
        for pair in sorted(cluster.partitions_of(topics), key=lambda p: (-lag.get(p, 0), p)):
            able = [name for name, member in members.items() if pair[0] in member.topics]
            name = min(able, key=lambda name: (load[name], len(given[name]), name))
            given[name].append(pair)
            load[name] += lag.get(pair, 0)
        return {name: group_by_topic(partitions) for name, partitions in given.items()}


def main() -> None:
    """Show what both decide for a topic of six partitions."""
    cluster = Cluster({"jobs": 6})
    members = {
        name: MemberInfo(member_id=name, instance_id=name, topics=["jobs"])
        for name in ("canary-1", "worker-1", "worker-2")
    }
    lag = {("jobs", number): 10**number for number in range(6)}
    for assignor in (CanaryAssignor(), LeastLagAssignor(lag)):
        print(f"{assignor.name}:")
        for name, partitions in assignor.assign(cluster, members).items():
            numbers = ", ".join(str(number) for _, number in sorted(flatten(partitions)))
            print(f"  {name:<10} {numbers}")


if __name__ == "__main__":
    main()
