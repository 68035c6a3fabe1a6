"""Static members that are away for longer than a session, with the real client and coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coterie_client import Admin, Group, Partition
from coterie_protocol.journal import (
    MemberAway,
    MemberGone,
    MemberReturned,
    OwnershipConflict,
    RebalanceStarted,
)
from coterie_testing.kit import Cluster, Program

SESSION_S = 10.0
AWAY_S = 120.0


class Workers:
    """Static members of one group, and who works on what, with which tokens."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.programs: dict[str, Program] = {}
        #: By partition the worker, and every token that work began with.
        self.at_work: dict[str, str] = {}
        self.tokens: dict[str, list[int]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            self.programs[name] = self.cluster.start(name, self._live(name))

    async def _live(self, name: str) -> None:
        async def work(partition: Partition) -> None:
            key = str(partition)
            assert key not in self.at_work, f"{key} has two workers"
            self.at_work[key] = name
            self.tokens.setdefault(key, []).append(partition.token)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.at_work.pop(key, None)

        async with Group(
            self.cluster.bootstrap,
            "g",
            topics=["t"],
            instance=name,
            session_timeout=SESSION_S,
            registration_timeout=AWAY_S,
        ) as group:
            await group.run(work)

    def kill(self, name: str) -> None:
        self.programs[name].kill()
        for key in [key for key, owner in self.at_work.items() if owner == name]:
            del self.at_work[key]

    def of(self, name: str) -> set[str]:
        """The partitions on which a worker is at work."""
        return {key for key, owner in self.at_work.items() if owner == name}

    def seen(self, kind: type) -> list[object]:
        return [event for event in self.cluster.events if isinstance(event, kind)]


@pytest.fixture
def cluster(coterie_cluster: Callable[..., Cluster]) -> Cluster:
    return coterie_cluster({"t": 4})


def pair(cluster: Cluster) -> Workers:
    """Two workers that share four partitions."""
    workers = Workers(cluster)
    workers.start("one", "two")
    cluster.run_until(lambda: len(workers.of("one")) == len(workers.of("two")) == 2)
    cluster.run(5.0)
    return workers


def test_worker_that_is_killed_finds_its_partitions_waiting(cluster: Cluster) -> None:
    workers = pair(cluster)
    mine, rebalances = workers.of("two"), len(workers.seen(RebalanceStarted))
    workers.kill("two")
    cluster.run(60.0)
    assert len(workers.seen(MemberAway)) == 1
    assert workers.at_work.keys() == workers.of("one")
    workers.start("two")
    cluster.run(5.0)
    assert workers.of("two") == mine
    assert len(workers.seen(MemberReturned)) == 1
    assert len(workers.seen(RebalanceStarted)) == rebalances
    assert all(later > earlier for earlier, later in (workers.tokens[key] for key in mine))


def test_worker_that_is_cut_off_stops_and_resumes(cluster: Cluster) -> None:
    workers = pair(cluster)
    mine, rebalances = workers.of("two"), len(workers.seen(RebalanceStarted))
    workers.programs["two"].part(40.0)
    cluster.run(20.0)
    assert workers.of("two") == set()
    cluster.run(40.0)
    assert workers.of("two") == mine
    assert len(workers.seen(RebalanceStarted)) == rebalances


def test_group_goes_on_without_it_and_keeps_what_it_had(cluster: Cluster) -> None:
    workers = pair(cluster)
    mine = workers.of("two")
    workers.kill("two")
    cluster.run(20.0)
    workers.start("three")
    cluster.run(10.0)
    assert (len(workers.of("one")), len(workers.of("three"))) == (1, 1)
    workers.start("two")
    cluster.run(10.0)
    assert workers.of("two") == mine


def test_place_is_given_up_in_the_end(cluster: Cluster) -> None:
    workers = pair(cluster)
    workers.kill("two")
    cluster.run(AWAY_S + 10.0)
    (gone,) = workers.seen(MemberGone)
    assert isinstance(gone, MemberGone)
    assert gone.how == "registration_expired"
    assert len(workers.of("one")) == 4


def test_removing_it_ends_the_wait(cluster: Cluster) -> None:
    workers = pair(cluster)
    workers.kill("two")
    cluster.run(20.0)

    async def remove() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.members.remove("g", instance_id="two")

    cluster.call(remove())
    cluster.run(10.0)
    assert len(workers.of("one")) == 4
    assert workers.seen(OwnershipConflict) == []
