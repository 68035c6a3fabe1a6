"""A group through a trace of loads: real assignors and the real leader's work, in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
    StickyAssignor,
    Weights,
    lead,
)
from coterie_assignors.outlook import read_loads
from coterie_client.membership.loads import Loads
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.load_traces import Trace

__all__ = ["GroupOverTime", "Outcome", "Pair", "follow"]

Pair = tuple[str, int]


@dataclass(slots=True)
class _Member:
    """What a member's client knows."""

    name: str
    assignor: CooperativeStickyAssignor | StickyAssignor
    loads: Loads = field(init=False)
    owned: frozenset[Pair] = frozenset()
    generation: int = -1

    def __post_init__(self) -> None:
        self.loads = Loads([self.assignor])


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    #: The highest load by the mean, at each step.
    ratios: list[float] = field(default_factory=list)
    #: How many partitions changed hands, in each rebalance in which any did.
    moves: list[int] = field(default_factory=list)
    rebalances: int = 0

    @property
    def mean_ratio(self) -> float:
        """The mean over all steps."""
        return sum(self.ratios) / len(self.ratios)


class GroupOverTime:
    """Members that join, leave and rebalance; what moves is checked."""

    def __init__(
        self,
        topics: Mapping[str, int],
        weights: Weights | None,
        make: Callable[
            [Weights | None], CooperativeStickyAssignor | StickyAssignor
        ] = CooperativeStickyAssignor,
    ) -> None:
        self.cluster = Cluster(topics)
        self.weights = weights
        self._make = make
        self.members: dict[str, _Member] = {}
        self.now_ms = 0
        self._generation = 0
        #: When each partition was taken from members that could have kept it.
        self.left: dict[tuple[Pair, str], int] = {}
        self.moves: list[int] = []
        self.rebalances = 0

    # -- what happens --------------------------------------------------------------------------

    def join(self, *names: str) -> None:
        """New members come, and the group rebalances."""
        self.members |= {name: _Member(name, self._make(self.weights)) for name in names}
        self.rebalance()

    def leave(self, name: str) -> None:
        """A member goes, and the group rebalances."""
        del self.members[name]
        self.rebalance()

    def pass_time(self, seconds: float, loads: Mapping[Pair, float]) -> None:
        """Members measure these loads for a while."""
        for member in self.members.values():
            for pair in member.owned:
                member.loads.add(pair, loads[pair], self.now_ms)
        self.now_ms += round(seconds * 1000)

    def rebalance(self) -> int:
        """Rebalance in as many rounds as it takes; return how many partitions moved."""
        before = self.owners()
        self.rebalances += 1
        rounds = 1
        while self._round():
            rounds += 1
            assert rounds <= 3, "the group does not come to rest"
        return self._check_moves(before)

    def owners(self) -> dict[Pair, str]:
        """Who owns what."""
        return {pair: name for name, member in self.members.items() for pair in member.owned}

    def loads_of(self, loads: Mapping[Pair, float]) -> dict[str, float]:
        """The load of each member."""
        return {
            name: sum(loads[pair] for pair in member.owned) for name, member in self.members.items()
        }

    def reason(self) -> str | None:
        """Why the leader would start a rebalance now, if it knew all loads of this moment."""
        leader = next(iter(self.members.values()))
        return leader.assignor.reason_to_rebalance(self.cluster, read_loads(self._infos()))

    # -- a round -------------------------------------------------------------------------------

    def _infos(self) -> dict[str, MemberInfo]:
        infos = {}
        for name, member in self.members.items():
            member.loads.tell([member.assignor], self.now_ms)
            owned = group_by_topic(member.owned)
            data = member.assignor.subscription_user_data(
                list(self.cluster.topics), owned, member.generation
            )
            eager = isinstance(member.assignor, StickyAssignor)
            infos[name] = MemberInfo(
                member_id=name,
                topics=tuple(self.cluster.topics),
                owned=() if eager else owned,
                generation=member.generation,
                user_data=data,
            )
        return infos

    def _round(self) -> bool:
        """One rebalance; whether members have to rejoin."""
        self._generation += 1
        leader = min(self.members.values(), key=lambda member: member.name)
        led = lead(leader.assignor, self.cluster, self._infos())
        held: set[Pair] = set()
        for name, member in self.members.items():
            self._take(member, led.assignment[name])
            assert held.isdisjoint(member.owned)
            held |= member.owned
        if RebalanceProtocol.COOPERATIVE not in leader.assignor.protocols:
            assert not led.needs_rejoin
        return led.needs_rejoin

    def _take(self, member: _Member, given: Partitions) -> None:
        member.owned = flatten(given)
        member.generation = self._generation
        member.loads.assigned(member.owned, self.now_ms)
        member.assignor.on_assignment(given, self._generation)

    def _check_moves(self, before: Mapping[Pair, str]) -> int:
        """Note what moved; nothing may be back before it has rested, if there was a choice."""
        after = self.owners()
        assert after.keys() == set(self.cluster.partitions_of(self.cluster.topics))
        moved = 0
        for pair, had in before.items():
            has = after[pair]
            if has == had:
                continue
            if self.weights is not None and len(self.members) > 2:
                left_ms = self.left.get((pair, has))
                assert left_ms is None or self.now_ms - left_ms >= self.weights.rest_ms
            if had in self.members:
                moved += 1
                self.left[pair, had] = self.now_ms
        if moved:
            self.moves.append(moved)
        return moved


def follow(trace: Trace, members: int, weights: Weights | None) -> Outcome:
    """A group through a trace, which rebalances once a rest time if there is something to move."""
    group = GroupOverTime({"t": trace.partitions}, weights)
    group.join(*(f"m{number}" for number in range(members)))
    outcome = Outcome()
    due_ms = 0
    for step in range(len(trace.loads)):
        loads = trace.at(step)
        group.pass_time(trace.step_s, loads)
        totals = group.loads_of(loads).values()
        outcome.ratios.append(max(totals) / (sum(totals) / members))
        if weights is not None and group.now_ms >= due_ms and group.reason() is not None:
            due_ms = group.now_ms + weights.rest_ms
            group.rebalance()
    outcome.moves, outcome.rebalances = group.moves, group.rebalances - 1
    return outcome
