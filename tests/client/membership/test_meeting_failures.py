"""Members, connections and the coordinator fail: work goes on, and no partition has two workers.

After every step the meeting checks that no partition has two workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from coterie_assignors import (
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
)
from coterie_client.membership import Abandon, Lose, Phase, Revoke, Send
from coterie_client.wire.addresses import Lane
from coterie_protocol.consumer import group_by_topic
from coterie_protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.support.membership_world import Meeting, Worker

SESSION_MS = 10_000


def ended(worker: Worker) -> list[object]:
    """Whatever made the worker stop work."""
    return [each for each in worker.told if isinstance(each, Revoke | Lose | Abandon)]


def forget_told(meeting: Meeting) -> None:
    """Look only at what comes from now on."""
    for worker in meeting.workers:
        worker.told.clear()


def until(meeting: Meeting, condition: Callable[[], bool]) -> None:
    """Let time pass until something is so."""
    until_ms = meeting.now_ms + 300_000
    while not condition():
        assert meeting.step(until_ms), meeting.describe_workers()


# -- members -----------------------------------------------------------------------------------


def test_dead_members_partitions_are_taken_over_when_its_session_ends() -> None:
    meeting = Meeting({"t": 6})
    first, second, third = meeting.team(3)
    forget_told(meeting)
    died_ms = meeting.now_ms
    third.die()
    until(meeting, lambda: len(first.working) + len(second.working) == 6)
    assert meeting.now_ms - died_ms < SESSION_MS + 5_000
    assert ended(first) == ended(second) == []


def test_all_but_one_die() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(5)
    for worker in workers[:4]:
        worker.die()
    meeting.run(SESSION_MS)
    meeting.settle()
    assert len(workers[4].working) == 6


@pytest.mark.parametrize("phase", [Phase.LEADING, Phase.SYNCING])
def test_leader_dies_in_a_rebalance(phase: Phase) -> None:
    meeting = Meeting({"t": 6}, seed=3)
    workers = meeting.team(3)
    forget_told(meeting)
    meeting.worker("new").start()
    (leader,) = [worker for worker in workers if worker.machine.is_leader]
    until(meeting, lambda: leader.machine.phase is phase)
    leader.die()
    meeting.run(SESSION_MS)
    meeting.settle()
    assert sorted(len(worker.working) for worker in meeting.alive) == [2, 2, 2]
    assert not any(isinstance(each, Lose) for worker in meeting.alive for each in worker.told), (
        meeting.describe_workers()
    )


def test_work_that_overruns_its_deadline_is_given_up() -> None:
    meeting = Meeting({"t": 4})
    (slow,) = meeting.team(1, finish_ms=None)
    began_ms = meeting.now_ms
    quick = meeting.worker("quick").start()
    meeting.settle()
    assert [type(each) for each in ended(slow)] == [Revoke, Abandon]
    assert meeting.now_ms - began_ms < 65_000
    assert len(slow.working) == len(quick.working) == 2


def test_isolated_member_stops_before_others_begin() -> None:
    meeting = Meeting({"t": 6})
    first, second, third = meeting.team(3)
    forget_told(meeting)
    cut_ms = meeting.now_ms
    meeting.swallows = lambda worker, _send: worker is third
    until(meeting, lambda: len(first.working) + len(second.working) == 6)
    assert [type(each) for each in ended(third)] == [Lose]
    assert meeting.now_ms - cut_ms < 2 * SESSION_MS
    meeting.swallows = lambda _worker, _send: False
    meeting.run(30_000)
    meeting.settle()
    assert [len(worker.working) for worker in (first, second, third)] == [2, 2, 2]


def test_isolated_member_stops_before_a_rebalance_ends_without_it() -> None:
    """Also where rebalances are shorter than sessions."""
    meeting = Meeting({"t": 4})
    (first,) = meeting.team(1, rebalance_timeout_ms=4_000)
    forget_told(meeting)
    meeting.swallows = lambda worker, _send: worker is first
    second = meeting.worker("second", rebalance_timeout_ms=4_000).start()
    until(meeting, lambda: len(second.working) == 4)
    assert [type(each) for each in ended(first)] == [Lose]


@pytest.mark.parametrize("session_ms", [10_000, 30_000, 45_000])
def test_member_cut_off_before_it_has_joined_stops_in_time(session_ms: int) -> None:
    """What it keeps as well as what it lets go of: the group gives away both without it."""
    meeting = Meeting({"t": 4})
    (first,) = meeting.team(1, finish_ms=None, session_timeout_ms=session_ms)
    second = meeting.worker("second", session_timeout_ms=session_ms).start()
    meeting.run(45_000)
    assert len(first.working) == 4
    meeting.swallows = lambda worker, _send: worker is first
    until(meeting, lambda: len(second.working) == 4)
    assert first.working == {}


def test_work_that_ends_for_too_long_while_its_member_closes_is_given_up() -> None:
    """The group rebalances meanwhile, and does not wait for as long as closing may take."""
    meeting = Meeting({"t": 4})
    (slow,) = meeting.team(1, finish_ms=None)
    slow.close(within_ms=300_000)
    began_ms = meeting.now_ms
    second = meeting.worker("second").start()
    until(meeting, lambda: len(second.working) == 4)
    assert [type(each) for each in ended(slow)] == [Revoke, Abandon]
    assert meeting.now_ms - began_ms < 65_000


def test_process_that_sleeps_through_its_session_loses_everything_on_waking() -> None:
    meeting = Meeting({"t": 4})
    first, second = meeting.team(2)
    second.is_alive = (
        False  # Nothing of it runs; its work has to be taken out of the meeting's sight.
    )
    had = dict(second.working)
    second.working = {}
    meeting.run(2 * SESSION_MS)
    assert len(first.working) == 4
    second.is_alive = True
    second.told.clear()
    second.do(second.machine.fire(meeting.now_ms))
    assert second.told == [Lose(frozenset(had), second.told[0].reason)]  # type: ignore[union-attr]
    meeting.settle()
    assert len(second.working) == 2


# -- connections -------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest])
def test_broken_connection_loses_no_partition(lane: Lane, kind: type) -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(2)
    forget_told(meeting)
    meeting.worker("new").start()
    until(meeting, lambda: any(_is_under_way(worker, kind) for worker in workers))
    for worker in workers:
        meeting.cut(worker, lane)
    meeting.settle()
    assert not any(isinstance(each, Lose) for worker in workers for each in worker.told)


def _is_under_way(worker: Worker, kind: type) -> bool:
    lines = worker.lines.values()
    return any(
        isinstance(send.message, kind) for line in lines for send in line.unanswered.values()
    )


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_join_or_sync_that_never_arrives_loses_no_partition(kind: type) -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    forget_told(meeting)
    lost: list[Send] = []

    def swallows(worker: Worker, send: Send) -> bool:
        if worker is workers[0] and isinstance(send.message, kind) and not lost:
            lost.append(send)
            return True
        return False

    meeting.swallows = swallows
    meeting.worker("new").start()
    until(meeting, lambda: bool(lost))
    meeting.settle()
    assert not any(isinstance(each, Lose) for worker in workers for each in worker.told)


def test_join_after_a_long_revocation_goes_nowhere() -> None:
    meeting = Meeting({"t": 6, "u": 1})
    slow = meeting.worker("slow", "t", "u", finish_ms=50_000).start()
    meeting.settle()
    meeting.worker("quick").start()
    until(meeting, lambda: any(isinstance(each, Revoke) for each in slow.told))
    meeting.worker("new").start()  # A rebalance begins, and waits for the slow one.
    lost: list[Send] = []

    def swallows(worker: Worker, send: Send) -> bool:
        if worker is slow and isinstance(send.message, JoinGroupRequest) and not lost:
            lost.append(send)
            return True
        return False

    meeting.swallows = swallows
    until(meeting, lambda: bool(lost))
    meeting.run(60_000)
    meeting.settle()
    assert not any(isinstance(each, Lose) for each in slow.told)


# -- the coordinator ---------------------------------------------------------------------------


def restart(meeting: Meeting, away_ms: int = 1_000) -> None:
    """Have the coordinator die, and come back after a while with what it stored."""
    meeting.stop_node()
    meeting.run(away_ms)
    meeting.start_node()


def test_coordinator_restart_causes_no_rebalance() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    before = [worker.machine.identity for worker in workers]
    forget_told(meeting)
    restart(meeting)
    meeting.run(30_000)
    assert [worker.machine.identity for worker in workers] == before
    assert [worker.told for worker in workers] == [[], [], []]


@pytest.mark.parametrize(
    "phase", [Phase.PREPARING, Phase.JOINING, Phase.LEADING, Phase.SYNCING, Phase.STABLE]
)
def test_coordinator_restarts_in_a_rebalance(phase: Phase) -> None:
    meeting = Meeting({"t": 6, "u": 2}, seed=5)
    workers = [meeting.worker(name, "t", "u", finish_ms=300).start() for name in ("a", "b")]
    meeting.settle()
    forget_told(meeting)
    first = workers[0]
    first.subscribe("t")
    meeting.worker("new", "t", "u").start()
    until(meeting, lambda: any(worker.machine.phase is phase for worker in workers))
    restart(meeting)
    meeting.settle()
    assert not any(isinstance(each, Lose) for worker in workers for each in worker.told)


def test_coordinator_restarts_with_a_commit_under_way() -> None:
    meeting = Meeting({"t": 2})
    (worker,) = meeting.team(1)
    worker.commit("k", ("t", 0), 7)
    until(meeting, lambda: _is_under_way(worker, OffsetCommitRequest))
    restart(meeting)
    meeting.run(5_000)
    assert worker.results["k"].error is None
    assert meeting.offsets() == {("t", 0): 7}


def test_work_stops_with_the_session_while_the_coordinator_is_away() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    meeting.stop_node()
    meeting.run(SESSION_MS)
    assert all(worker.working == {} for worker in workers)
    meeting.start_node()
    meeting.settle()


def test_member_that_was_dropped_does_not_resume_while_the_next_coordinator_reads() -> None:
    """While that one reads, it answers heartbeats on trust, whoever sends them."""
    meeting = Meeting({"t": 6})
    cut_off, other = meeting.team(2)
    meeting.swallows = lambda worker, _send: worker is cut_off
    until(meeting, lambda: len(other.working) == 6)
    forget_told(meeting)
    meeting.stop_node()
    meeting.swallows = lambda _worker, _send: False
    meeting.start_node(load_ms=8_000)
    meeting.run(8_000)
    assert cut_off.told == []
    meeting.settle()
    assert len(cut_off.working) == 3


def test_member_whose_lease_ran_out_goes_on_once_the_group_is_read() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    before = [(dict(worker.working), worker.machine.identity) for worker in workers]
    meeting.stop_node()
    meeting.run(SESSION_MS)
    meeting.start_node(load_ms=8_000)
    meeting.run(8_000)
    assert all(worker.working == {} for worker in workers)
    meeting.run(5_000)
    assert [(worker.working, worker.machine.identity) for worker in workers] == before


def test_coordinator_that_takes_long_to_read_its_groups_stops_no_work() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    forget_told(meeting)
    meeting.stop_node()
    meeting.start_node(load_ms=4 * SESSION_MS)
    meeting.run(6 * SESSION_MS)
    assert [worker.told for worker in workers] == [[], [], []]


def test_close_without_a_coordinator_ends_in_time() -> None:
    meeting = Meeting({"t": 2})
    (worker,) = meeting.team(1)
    meeting.stop_node()
    meeting.run(100)
    worker.close(within_ms=2_000)
    meeting.run(3_500)
    assert worker.stopped is not None


def test_leave_that_never_arrives_is_given_up() -> None:
    meeting = Meeting({"t": 4})
    first, second = meeting.team(2)
    meeting.swallows = lambda _worker, send: isinstance(send.message, LeaveGroupRequest)
    second.close()
    meeting.run(8_500)
    assert second.stopped is not None
    meeting.run(SESSION_MS)
    meeting.settle()
    assert len(first.working) == 4


def test_member_leaves_although_the_coordinator_dies_meanwhile() -> None:
    meeting = Meeting({"t": 4})
    first, second = meeting.team(2)
    meeting.swallows = lambda _worker, send: isinstance(send.message, LeaveGroupRequest)
    second.close()
    meeting.run(100)
    meeting.stop_node()
    meeting.swallows = lambda _worker, _send: False
    meeting.run(1_000)
    meeting.start_node()
    meeting.run(5_000)
    assert second.stopped is not None
    meeting.settle()
    assert len(first.working) == 4


# -- assignors ---------------------------------------------------------------------------------


class FaultyAssignor(CooperativeStickyAssignor):
    """An assignor of a user's, with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Share out badly."""
        if self.fault == "raises":
            raise RuntimeError("out of ideas")
        if self.fault == "gives what is not there":
            return {name: group_by_topic([("nowhere", 0)]) for name in members}
        return super().assign(cluster, {})

    def subscription_user_data(
        self, topics: Collection[str], owned: Partitions, generation: int
    ) -> bytes | None:
        """As the one whose name it has."""
        return super().subscription_user_data(topics, owned, generation)


@pytest.mark.parametrize("fault", ["raises", "gives what is not there", "forgets the members"])
def test_group_survives_a_broken_leader(fault: str) -> None:
    meeting = Meeting({"t": 4})
    broken = meeting.worker("broken", assignors=[FaultyAssignor(fault)]).start()
    meeting.run(10)
    others = [meeting.worker(name).start() for name in ("a", "b")]
    meeting.run(5_000)
    meeting.settle()
    assert broken.stopped is not None
    assert broken.stopped.error is not None
    assert [len(worker.working) for worker in others] == [2, 2]
