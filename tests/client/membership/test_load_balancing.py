"""Groups that balance loads: real memberships and the real coordinator, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from coterie_assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    StickyAssignor,
    Weights,
)
from coterie_client.membership import Phase
from coterie_client.membership.consumer_protocol import Outcome
from coterie_client.membership.events import JoinStarted
from coterie_client.membership.imbalance import Decision, Imbalance
from coterie_client.membership.loads import Loads
from coterie_client.wire.addresses import TopicPartition
from tests.support.membership_world import Meeting, Worker

#: Of a partition, at a time.
Load = Callable[[TopicPartition, int], float]

MINUTE_MS = 60_000
REST_MINUTES = 5
#: Few heartbeats, so that hours pass fast.
SLOW = {
    "session_timeout_ms": 100_000,
    "rebalance_timeout_ms": 100_000,
    "heartbeat_interval_ms": 33_000,
}

both_kinds = pytest.mark.parametrize("kind", [CooperativeStickyAssignor, StickyAssignor])


@dataclass(slots=True)
class LoadedGroup:
    """A group whose members measure the loads of their partitions every half a minute."""

    load: Load = lambda _partition, _now_ms: 1.0
    meeting: Meeting = field(default_factory=lambda: Meeting({"t": 12}))
    #: When partitions went away from members that could have kept them.
    left: dict[tuple[TopicPartition, str], int] = field(default_factory=dict)
    moves: int = 0

    def start(
        self, size: int = 3, kind: type[Any] = CooperativeStickyAssignor, **settings: Any
    ) -> LoadedGroup:
        """Have so many members share out the partitions."""
        assignors: list[list[Assignor]] = [
            [kind(Weights(**{"smoothing": 30.0} | settings))] for _ in range(size)
        ]
        for number, each in enumerate(assignors):
            self.meeting.worker(f"w{number}", assignors=each, **SLOW).start()
            self.meeting.settle()
        return self

    def run(self, minutes: float) -> None:
        """Let time pass."""
        for _ in range(round(minutes * 2)):
            before = self.owners()
            for worker in self.meeting.alive:
                for partition in worker.working:
                    now_ms = self.meeting.now_ms
                    worker.machine.load(partition, self.load(partition, now_ms), now_ms)
            self.meeting.run(30_000)
            self.meeting.settle()
            self._compare(before)

    def rejoin(self) -> None:
        """Have the group rebalance, for no reason that has to do with loads."""
        before, worker = self.owners(), self.meeting.alive[-1]
        worker.do(worker.machine.rejoin("asked to", self.meeting.now_ms))
        self.meeting.settle()
        self._compare(before)

    def _compare(self, before: dict[TopicPartition, str]) -> None:
        """Count moves; what moved may not come back before it has rested."""
        now_ms, alive = self.meeting.now_ms, {worker.name for worker in self.meeting.alive}
        for partition, has in self.owners().items():
            had = before.get(partition, has)
            if had != has and had in alive:
                self.moves += 1
                self.left[partition, had] = now_ms
                came_back_ms = now_ms - self.left.get((partition, has), -(10**9))
                assert came_back_ms >= REST_MINUTES * MINUTE_MS - 60_000

    def owners(self) -> dict[TopicPartition, str]:
        """Who works on what."""
        return {each: worker.name for worker in self.meeting.alive for each in worker.working}

    def totals(self) -> dict[str, float]:
        """The load of each member."""
        return {
            worker.name: sum(self.load(each, self.meeting.now_ms) for each in worker.working)
            for worker in self.meeting.alive
        }

    def ratio(self) -> float:
        """The highest load by the mean."""
        totals = self.totals().values()
        return max(totals) * len(totals) / sum(totals)

    @property
    def generation(self) -> int:
        """The newest generation."""
        return max(worker.machine.identity.generation for worker in self.meeting.alive)

    @property
    def leader(self) -> Worker:
        """The member that decides."""
        (found,) = [worker for worker in self.meeting.alive if worker.machine.is_leader]
        return found

    def heat(self, worker: Worker, factor: float = 9.0) -> None:
        """Have what a member works on now be busy from now on, wherever it goes."""
        busy = frozenset(worker.working)
        self.load = lambda partition, _: factor if partition in busy else 1.0

    def reasons(self) -> dict[str, list[str]]:
        """For which reasons that have to do with loads members joined."""
        found = {
            worker.name: [
                event.reason
                for event in worker.seen(JoinStarted)
                if event.reason.startswith("load")
            ]
            for worker in self.meeting.workers
        }
        return {name: reasons for name, reasons in found.items() if reasons}


@both_kinds
def test_loads_count_at_the_next_rebalance(kind: type[Any]) -> None:
    group = LoadedGroup().start(kind=kind)
    group.heat(group.meeting.workers[1])
    generation = group.generation
    group.run(30)
    assert (group.generation, group.reasons()) == (generation, {})
    before = group.ratio()
    group.rejoin()
    assert group.ratio() < before - 0.1
    assert group.moves == 1  # a tenth of twelve


def test_leader_starts_a_rebalance_when_it_has_too_much() -> None:
    group = LoadedGroup().start(rebalance=True, max_moves=4)
    group.run(2 * REST_MINUTES + 1)
    generation, leader = group.generation, group.leader.name
    group.heat(group.leader)
    assert group.ratio() > 2
    group.run(2 * REST_MINUTES)
    assert group.generation == generation + 2  # what moves is withheld first
    reasons = group.reasons()
    assert list(reasons) == [leader]
    assert re.fullmatch(
        r"load: \S+ has 2\.45 times the mean, \d partitions to move", reasons[leader][-1]
    )
    assert group.ratio() < 1.23  # four hot partitions among three members


def test_leader_does_not_start_one_before_a_rest_is_over() -> None:
    group = LoadedGroup().start(rebalance=True)
    generation = group.generation
    group.heat(group.leader)
    group.run(REST_MINUTES - 0.5)
    assert group.generation == generation
    group.run(1)
    assert group.generation > generation


def test_what_one_rebalance_leaves_to_do_the_next_one_does() -> None:
    group = LoadedGroup().start(rebalance=True, max_moves=1)
    group.heat(group.leader)
    group.run(REST_MINUTES)
    ratios = []
    for _ in range(5):
        group.run(REST_MINUTES)
        ratios.append(round(group.ratio(), 2))
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.24
    assert group.moves >= 2


@pytest.mark.slow
def test_balanced_group_is_left_alone() -> None:
    group = LoadedGroup().start(rebalance=True, refresh=None)
    group.run(REST_MINUTES + 1)
    generation = group.generation
    group.run(120)
    assert (group.generation, group.moves) == (generation, 0)


@pytest.mark.slow
def test_hot_partition_does_not_make_the_group_rebalance_again_and_again() -> None:
    group = LoadedGroup(lambda partition, _: 1000.0 if partition[1] == 0 else 1.0)
    group.start(rebalance=True, max_moves=12, refresh=None)
    group.run(30)
    generation = group.generation
    group.run(60)
    assert group.generation == generation


def test_leader_has_old_loads_told_anew() -> None:
    group = LoadedGroup().start(rebalance=True, refresh=1200.0, max_moves=4)
    group.run(REST_MINUTES + 1)
    follower = next(each for each in group.meeting.workers if not each.machine.is_leader)
    group.heat(follower, 1.15)  # too little for it to say so by itself
    group.run(21)
    assert group.reasons() == {
        group.leader.name: [
            "load: 2 of 2 other members could not tell theirs yet",
            "load: members told theirs 1200 s ago",
        ]
    }


@both_kinds
def test_load_of_a_member_that_does_not_lead_is_evened_out_when_it_grows(kind: type[Any]) -> None:
    group = LoadedGroup().start(kind=kind, rebalance=True, refresh=None)
    group.run(3 * REST_MINUTES)
    led = group.leader
    follower = next(worker for worker in group.meeting.alive if worker is not led)
    group.heat(follower)
    group.run(3 * REST_MINUTES)
    assert group.ratio() < 1.5
    assert any(
        re.match(r"load: this member has \d\.\d\d times what it told", event.reason)
        for event in follower.seen(JoinStarted)
    )


def test_loads_that_stay_as_they_were_told_start_no_rebalance() -> None:
    group = LoadedGroup().start(rebalance=True, refresh=None)
    group.run(3 * REST_MINUTES)
    generation = group.generation
    group.load = lambda _partition, _now_ms: 1.1
    group.run(6 * REST_MINUTES)
    assert group.generation == generation


def test_members_that_measure_nothing_are_asked_once() -> None:
    group = LoadedGroup().start(rebalance=True, refresh=None)
    generation = group.generation
    group.meeting.run(120 * MINUTE_MS)
    assert group.generation == generation + 1
    assert len(group.owners()) == 12


def test_rest_outlives_the_leader() -> None:
    """Who moves what next knows since when each member has what it has: they tell."""
    group = LoadedGroup().start(size=4, rebalance=True, max_moves=3)
    group.run(REST_MINUTES + 1)
    group.heat(group.leader)
    group.run(2 * REST_MINUTES)
    moved = set(group.left)
    assert moved
    group.leader.die()
    group.meeting.settle()
    # The loads are turned round: had they not to rest, the partitions would go back.
    hot = {partition for partition, _ in moved}
    group.load = lambda partition, _: 0.1 if partition in hot else 5.0
    owners = group.owners()
    for _ in range(4):
        group.run(0.5)
        group.rejoin()
    assert {owners[each] == group.owners()[each] for each in hot} == {True}


@pytest.mark.slow
def test_loads_that_swing_faster_than_the_rest_do_not_make_partitions_swing() -> None:
    def load(partition: TopicPartition, now_ms: int) -> float:
        is_odd_minute = now_ms // (2 * MINUTE_MS) % 2
        return 8.0 if partition[1] % 2 == is_odd_minute else 1.0

    group = LoadedGroup(load).start(rebalance=True, refresh=300.0, smoothing=60.0)
    moves = group.moves
    group.run(180)
    assert group.moves - moves <= 36  # at most one in each rest; `_compare` checks that none return


def test_members_without_weights_stay_in_the_group() -> None:
    group = LoadedGroup().start(size=2, rebalance=True)
    group.run(2)
    group.meeting.worker("plain", **SLOW).start()
    group.meeting.settle()
    group.heat(group.leader)
    group.run(30)
    assert group.ratio() < 2
    group.leader.close()
    group.meeting.settle()
    group.run(30)
    assert len(group.owners()) == 12


def test_member_that_lost_its_place_comes_back_with_nothing_to_tell() -> None:
    group = LoadedGroup().start(rebalance=True)
    group.run(10)
    group.meeting.swallows = lambda worker, _: worker.name == "w2"
    group.meeting.run(400_000)
    group.meeting.swallows = lambda _worker, _send: False
    group.meeting.settle()
    group.run(20)
    assert sorted(group.totals().values()) == [4.0, 4.0, 4.0]


@pytest.mark.parametrize(("is_away", "is_final"), [(False, True), (True, True), (False, False)])
def test_no_look_is_due_while_partitions_wait(is_away: bool, is_final: bool) -> None:  # noqa: FBT001
    """They stay where they are, so every look would find the group out of balance."""
    state = SimpleNamespace(
        is_leader=True, phase=Phase.STABLE, rejoin_reason=None, is_closing=False
    )
    context: Any = SimpleNamespace(outbox=None, state=state, fail=None, loads=Loads())
    watch = Imbalance(context)
    members = {"m": MemberInfo(member_id="m", topics=("t",), is_away=is_away)}
    assignor = CooperativeStickyAssignor(Weights(rebalance=True))
    decision = Decision(assignor, Cluster({"t": 1}), members, Outcome((), is_final))
    watch.decided(decision, 0)
    assert (watch.deadline_ms is not None) is (is_final and not is_away)
