"""Processes that are suspended: what arrived meanwhile is read before timeouts count.

A virtual process that goes on runs its timers before it looks at its sockets, as libuv does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coterie_client import Group, Partition
from coterie_client.events import CoordinatorLost, Event, JoinStarted, PartitionsLost
from coterie_protocol import ApiKey
from coterie_protocol.journal import MemberGone, NodePaused, RebalanceStarted
from coterie_testing.kit import Cluster

SESSION_S = 10.0


class Team:
    """Members of a group that is at work, and what their clients told since then."""

    def __init__(self, cluster: Cluster, names: str, **options: float) -> None:
        self.cluster = cluster
        self.groups: dict[str, Group] = {}
        self._options: Any = {"session_timeout": SESSION_S} | options
        self.working: set[str] = set()
        self.heard: list[Event] = []
        self.programs = {name: cluster.start(name, self.live(name)) for name in names}
        cluster.run_until(lambda: len(self.working) == 4)
        cluster.run(10.0)
        self.heard.clear()
        self._lines = len(cluster.events)

    async def live(self, name: str) -> None:
        """The life of a member."""
        async with Group(
            self.cluster.bootstrap,
            "g",
            topics=["t"],
            client_id=name,
            on_event=self.heard.append,
            **self._options,
        ) as group:
            self.groups[name] = group
            await group.run(self._work)

    async def _work(self, partition: Partition) -> None:
        self.working.add(str(partition))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.working.discard(str(partition))

    def told(self, kind: type[Event]) -> list[Event]:
        """What the clients told of a kind."""
        return [event for event in self.heard if isinstance(event, kind)]

    def journal(self, kind: type) -> list[object]:
        """What the journal says of a kind."""
        return [event for event in self.cluster.events[self._lines :] if isinstance(event, kind)]

    def went_on_undisturbed(self) -> bool:
        """Whether all partitions are worked on, and no member left or had to join again."""
        return (
            len(self.working) == 4
            and not self.journal(MemberGone)
            and not self.journal(RebalanceStarted)
            and not self.told(JoinStarted)
        )


@pytest.fixture
def start(coterie_cluster: Callable[..., Cluster]) -> Callable[..., Team]:
    """How a team is started."""

    def start(names: str, **options: float) -> Team:
        return Team(coterie_cluster({"t": 4}), names, **options)

    return start


# -- the coordinator -------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1.5, 8.0, 12.0, 60.0])
def test_paused_coordinator_drops_no_member_and_journals_the_pause(
    start: Callable[..., Team], seconds: float
) -> None:
    team = start("abc")
    team.cluster.pause_coordinator(seconds)
    team.cluster.run(seconds + 20.0)
    assert team.went_on_undisturbed()
    (paused,) = team.journal(NodePaused)
    assert isinstance(paused, NodePaused)
    assert seconds * 1000 - 500 <= paused.paused_ms <= seconds * 1000 + 250


def test_member_that_died_during_a_pause_expires_a_session_after_it(
    start: Callable[..., Team],
) -> None:
    team = start("abc")
    team.programs["a"].pause(1_000.0)
    team.cluster.pause_coordinator(30.0)
    team.cluster.run(30.0 + SESSION_S + 2.0)
    (gone,) = team.journal(MemberGone)
    assert isinstance(gone, MemberGone)
    assert gone.how == "session_expired"
    assert SESSION_S * 1000 <= gone.silent_ms < SESSION_S * 1000 + 1_000


def test_pause_does_not_count_against_the_rebalance_timeout(start: Callable[..., Team]) -> None:
    team = start("ab")
    team.programs["c"] = team.cluster.start("c", team.live("c"))
    team.cluster.run(0.01)
    team.cluster.pause_coordinator(600.0)
    team.cluster.run(640.0)
    assert not team.journal(MemberGone)
    assert len(team.working) == 4


# -- a member --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_s", [number / 4 for number in range(12)])
def test_answers_that_came_in_a_pause_are_read_before_timeouts_are_judged(
    start: Callable[..., Team], after_s: float
) -> None:
    team = start("ab")
    team.cluster.faults.delay(0.5, api=ApiKey.HEARTBEAT)
    team.cluster.run(5.0 + after_s)
    # Longer than a heartbeat may take.
    team.programs["a"].pause(4.5)
    team.cluster.run(20.0)
    assert not team.told(CoordinatorLost)
    assert team.went_on_undisturbed()


def test_member_whose_lease_ended_in_a_pause_resumes_without_a_rebalance(
    start: Callable[..., Team],
) -> None:
    team = start("ab", heartbeat_interval=0.2)
    team.programs["a"].pause(9.5)
    team.cluster.run(20.0)
    assert team.told(PartitionsLost)
    assert not team.told(CoordinatorLost)
    assert team.went_on_undisturbed()


def test_join_answered_during_a_pause_is_not_sent_again(start: Callable[..., Team]) -> None:
    team = start("ab", heartbeat_interval=0.2, rebalance_timeout=12.0)
    opened = team.groups["a"].counters.wire.connections_opened
    team.cluster.faults.delay(3.0, api=ApiKey.JOIN_GROUP, client_id="b")
    team.cluster.start("c", team.live("c"))
    team.cluster.run(0.5)
    team.programs["a"].pause(7.5)
    team.cluster.run(30.0)
    assert team.groups["a"].counters.wire.connections_opened == opened
    assert not team.journal(MemberGone)
    assert len(team.working) == 4


def test_member_paused_beyond_its_session_owns_nothing_until_it_joined_again(
    start: Callable[..., Team],
) -> None:
    team = start("ab")
    team.programs["a"].pause(15.0)
    team.cluster.run(40.0)
    assert [event.how for event in team.journal(MemberGone)] == ["session_expired"]  # type: ignore[attr-defined]
    assert len(team.working) == 4


# -- several pauses --------------------------------------------------------------------------------


async def tick(ticks: list[float]) -> None:
    """Note each second in which it runs."""
    while True:
        ticks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)


def test_shorter_pause_does_not_end_a_longer_one(coterie_cluster: Callable[..., Cluster]) -> None:
    cluster, ticks = coterie_cluster(), list[float]()
    program = cluster.start("a", tick(ticks))
    cluster.run(2.5)
    begun_s = cluster.now_s
    program.pause(60.0)
    cluster.run(1.0)
    program.pause(2.0)
    cluster.run(70.0)
    program.pause(1.5)
    cluster.run(10.0)
    assert not [each for each in ticks if begun_s < each < begun_s + 60]
    assert ticks[-1] > cluster.now_s - 1


def test_shorter_pause_of_the_coordinator_does_not_end_a_longer_one(
    start: Callable[..., Team],
) -> None:
    team = start("ab")
    team.cluster.pause_coordinator(30.0)
    team.cluster.run(1.0)
    team.cluster.pause_coordinator(2.0)
    team.cluster.run(60.0)
    (paused,) = team.journal(NodePaused)
    assert isinstance(paused, NodePaused)
    assert paused.paused_ms >= 29_500
