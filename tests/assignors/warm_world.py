"""A group whose partitions carry state: members come, go, rebalance, and catch up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from coterie_assignors import (
    RUNNING,
    UNKNOWN,
    Adjustment,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    Plan,
    RebalanceProtocol,
    WarmReport,
    WarmSettings,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import Pair

__all__ = ["Scripted", "StatefulGroup", "StatefulMember", "process", "warm"]


def process(number: int) -> UUID:
    """The id of a process."""
    return UUID(int=number)


def warm(
    member_id: str,
    topics: Iterable[str],
    lags: Mapping[Pair, int] | None = None,
    owned: Iterable[Pair] = (),
    tags: Mapping[str, str] | None = None,
    process: UUID | None = None,
    refused: Iterable[Pair] = (),
    rack: str | None = None,
) -> MemberInfo:
    """A member that reports these copies."""
    return MemberInfo(
        member_id=member_id,
        topics=tuple(topics),
        owned=group_by_topic(owned),
        generation=1,
        rack=rack,
        refused=group_by_topic(refused),
        warm=WarmReport(process, dict(lags or {}), dict(tags or {})),
    )


class Scripted(Assignor):
    """Always gives the same answer: here the members' names, by partition."""

    name = "scripted"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self, targets: Mapping[Pair, str]) -> None:
        self._targets = targets

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        del cluster
        return {
            name: group_by_topic(pair for pair, taker in self._targets.items() if taker == name)
            for name in members
        }


@dataclass(slots=True)
class StatefulMember:
    """What a member has."""

    topics: tuple[str, ...]
    process: UUID | None
    tags: dict[str, str]
    #: None for a member that does not report state.
    copies: dict[Pair, int] | None
    owned: set[Pair] = field(default_factory=set)

    def info(self, name: str, generation: int, assignor: Assignor) -> MemberInfo:
        """What it says as it joins; eager members have revoked what they owned."""
        owned = group_by_topic(self.owned)
        return MemberInfo(
            member_id=name,
            topics=self.topics,
            owned=owned if RebalanceProtocol.COOPERATIVE in assignor.protocols else (),
            generation=generation,
            user_data=assignor.subscription_user_data(self.topics, owned, generation),
            warm=None
            if self.copies is None
            else WarmReport(self.process, dict(self.copies), dict(self.tags)),
        )


class StatefulGroup:
    """A group, and what happens to it; what must hold is checked in every rebalance."""

    def __init__(
        self,
        topics: Mapping[str, int],
        settings: WarmSettings | None = None,
        assignor: Assignor | None = None,
    ) -> None:
        self.cluster = Cluster(topics)
        self.settings = settings or WarmSettings()
        self.assignor = assignor or CooperativeStickyAssignor()
        self.members: dict[str, StatefulMember] = {}
        self.generation = 0
        self.plan: Plan | None = None
        #: How far behind a copy is when it begins.
        self.cold_lag = 1_000_000

    def join(
        self,
        name: str,
        *,
        topics: Iterable[str] | None = None,
        number: int | None = None,
        tags: Mapping[str, str] | None = None,
        is_warm: bool = True,
        copies: Mapping[Pair, int] | None = None,
    ) -> None:
        """A member joins, in a process with this number, or one of its own."""
        self.members[name] = StatefulMember(
            tuple(self.cluster.topics if topics is None else topics),
            None if number is None else process(number),
            dict(tags or {}),
            dict(copies or {}) if is_warm else None,
        )

    def leave(self, name: str) -> StatefulMember:
        """A member leaves."""
        return self.members.pop(name)

    def infos(self) -> dict[str, MemberInfo]:
        """What the leader knows."""
        return {
            name: each.info(name, self.generation, self.assignor)
            for name, each in self.members.items()
        }

    def rebalance(self) -> Adjustment:
        """Rebalance once, and have members do what they are told."""
        infos = self.infos()
        led = lead(self.assignor, self.cluster, infos, self.settings, plan=self.plan)
        self.plan = led.plan
        self._check(infos, led)
        self.generation += 1
        for name, member in self.members.items():
            member.owned = set(flatten(led.assignment[name]))
            if member.copies is None:
                continue
            kept = flatten(led.standbys.get(name, ())) | flatten(led.warmups.get(name, ()))
            had = member.copies
            member.copies = {pair: max(0, had.get(pair, self.cold_lag)) for pair in kept}
            for pair in member.owned:
                # What it gets cold, it has to restore first.
                lag = had.get(pair, self.cold_lag)
                is_cold = lag == UNKNOWN or lag > self.settings.acceptable_recovery_lag
                member.copies[pair] = lag if is_cold else RUNNING
        return led

    def round(self) -> Adjustment:
        """Rebalance until no more partitions are withheld."""
        for _ in range(10):
            led = self.rebalance()
            if not led.needs_rejoin:
                return led
        raise AssertionError("partitions are withheld for ever")

    def catch_up(self) -> None:
        """All copies catch up."""
        for member in self.members.values():
            if member.copies is not None:
                member.copies = {
                    pair: RUNNING if pair in member.owned else 0 for pair in member.copies
                }

    def rounds_until_final(self, most: int) -> int:
        """Rebalance, with copies catching up in between, until nothing is to move."""
        for turn in range(1, most + 1):
            if self.round().is_final:
                return turn
            self.catch_up()
        raise AssertionError(f"not final after {most} rounds")

    # What must hold

    def _check(self, infos: Mapping[str, MemberInfo], led: Adjustment) -> None:
        self._check_owners(infos, led)
        self._check_copies(infos, led)
        self._check_cold_ones(infos, led)
        under_way = sum(len(flatten(each)) for each in led.warmups.values())
        assert under_way <= self.settings.max_warmup_replicas
        if not led.is_final:
            assert under_way or led.standbys or led.needs_rejoin

    def _check_owners(self, infos: Mapping[str, MemberInfo], led: Adjustment) -> None:
        """No partition has two owners, and all that have subscribers are with one, or withheld."""
        assert led.assignment.keys() == infos.keys()
        given = Counter(pair for each in led.assignment.values() for pair in flatten(each))
        withheld = Counter(pair for each in led.withheld.values() for pair in flatten(each))
        topics = {topic for info in infos.values() for topic in info.topics}
        assert given + withheld == Counter(self.cluster.partitions_of(topics))
        working = Counter(given)
        for name, info in infos.items():
            # Until it has its assignment, a member still works on what it owned.
            working.update(flatten(info.owned) - flatten(led.assignment[name]))
        assert set(working.values()) <= {1}

    def _check_cold_ones(self, infos: Mapping[str, MemberInfo], led: Adjustment) -> None:
        """No member that is cold works on a partition that another one is caught up with."""
        caught_up: dict[Pair, set[object]] = {}
        for name, info in infos.items():
            for pair, lag in (info.warm.lags if info.warm else {}).items():
                if lag != UNKNOWN and lag <= self.settings.acceptable_recovery_lag:
                    caught_up.setdefault(pair, set()).add(_key(name, info))
        for name, partitions in led.assignment.items():
            if infos[name].warm is None:
                continue
            for pair in flatten(partitions):
                able = {_key(n, each) for n, each in infos.items() if pair[0] in each.topics}
                ready = caught_up.get(pair, set())
                assert _key(name, infos[name]) in ready or not ready & able

    def _check_copies(self, infos: Mapping[str, MemberInfo], led: Adjustment) -> None:
        """Each process has a partition, or a copy of it, at most once."""
        settings = self.settings
        having: Counter[tuple[object, Pair]] = Counter()
        standbys: Counter[Pair] = Counter()
        for kind in (led.assignment, led.standbys, led.warmups):
            for name, partitions in kind.items():
                info = infos[name]
                if kind is not led.assignment:
                    assert info.warm is not None
                for pair in flatten(partitions):
                    assert pair[0] in info.topics
                    having[_key(name, info), pair] += 1
                    standbys[pair] += kind is led.standbys
        assert set(having.values()) <= {1}
        for pair, count in standbys.items():
            waiting = led.targets.get(pair)
            kept = sum(
                pair in flatten(each) and infos[name].warm is not None
                for name, each in led.withheld.items()
            ) + (waiting is not None and pair in flatten(led.standbys.get(waiting, ())))
            assert count <= settings.num_standbys + kept


def _key(name: str, info: MemberInfo) -> object:
    """What shares its state: the process, if the member tells one."""
    return info.warm.process if info.warm and info.warm.process else name
