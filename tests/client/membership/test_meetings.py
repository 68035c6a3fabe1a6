"""Members come and go: real memberships and the real coordinator, in virtual time.

After every step the meeting checks that no partition has two workers.
"""

from __future__ import annotations

import pytest

from coterie_assignors import RangeAssignor
from coterie_client.membership import (
    Abandon,
    Assign,
    Committed,
    Fetched,
    Lose,
    PartitionLostError,
    Phase,
    Revoke,
)
from coterie_client.membership.events import GroupJoined, JoinStarted, PartitionsLost, TopicMissing
from tests.support.membership_world import Meeting, Worker


def loads(meeting: Meeting) -> list[int]:
    """How many partitions each living worker has, in order."""
    return sorted(len(worker.working) for worker in meeting.alive)


def stopped(worker: Worker) -> set[tuple[str, int]]:
    """The partitions on which a worker ever stopped to work."""
    ends = [each for each in worker.told if isinstance(each, Revoke | Lose | Abandon)]
    return {partition for each in ends for partition in each.partitions}


def generation(meeting: Meeting) -> int:
    """The generation that all members are in."""
    (found,) = {worker.machine.identity.generation for worker in meeting.alive}
    return found


def forget_told(meeting: Meeting) -> None:
    """Look only at what comes from now on."""
    for worker in meeting.workers:
        worker.told.clear()


# -- scaling -----------------------------------------------------------------------------------


def test_first_member() -> None:
    meeting = Meeting({"t": 4})
    (worker,) = meeting.team(1)
    assert worker.working.keys() == {("t", number) for number in range(4)}


def test_scale_out_moves_only_the_new_members_shares() -> None:
    meeting = Meeting({"t": 12})
    (first,) = meeting.team(1)
    kept = dict(first.working)
    newcomers = [meeting.worker(f"n{number}").start() for number in range(3)]
    meeting.settle()
    assert loads(meeting) == [3, 3, 3, 3]
    assert len(stopped(first)) == 9
    assert {partition: kept[partition] for partition in first.working} == first.working
    assert [stopped(worker) for worker in newcomers] == [set()] * 3


def test_scale_in_stops_no_work_of_those_that_stay() -> None:
    meeting = Meeting({"t": 12})
    workers = meeting.team(4)
    forget_told(meeting)
    for worker in workers[2:]:
        worker.close()
    meeting.settle()
    assert loads(meeting) == [6, 6]
    assert [stopped(worker) for worker in workers[:2]] == [set(), set()]


def test_leaving_does_not_wait_for_the_end_of_the_session() -> None:
    meeting = Meeting({"t": 4})
    first, second = meeting.team(2)
    second.close()
    before_ms = meeting.now_ms
    meeting.settle()
    assert len(first.working) == 4
    assert meeting.now_ms - before_ms < 5_000


def test_thirty_members_get_even_shares() -> None:
    meeting = Meeting({"t": 100})
    meeting.team(30)
    assert loads(meeting) == [3] * 20 + [4] * 10


def test_more_members_than_partitions() -> None:
    meeting = Meeting({"t": 2})
    meeting.team(4)
    assert loads(meeting) == [0, 0, 1, 1]


def test_handover_waits_for_the_work_to_end() -> None:
    meeting = Meeting({"t": 2})
    (first,) = meeting.team(1, finish_ms=20_000)
    second = meeting.worker("second").start()
    meeting.run(15_000)
    assert second.working == {}
    assert len(first.working) == 2
    meeting.settle()
    assert loads(meeting) == [1, 1]


def test_last_commit_is_seen_by_the_next_owner() -> None:
    meeting = Meeting({"t": 2})
    (first,) = meeting.team(1, finish_ms=None)
    second = meeting.worker("second").start()
    while not any(isinstance(each, Revoke) for each in first.told):
        meeting.run(100)
    (moving,) = stopped(first)
    first.commit("last", moving, 42)
    first.release(moving)
    meeting.settle()
    assert moving in second.working
    second.fetch("where", moving)
    meeting.run(1_000)
    assert second.results["where"].position.offset == 42  # type: ignore[union-attr]


def test_tokens_grow_from_owner_to_owner() -> None:
    meeting = Meeting({"t": 3})
    newest: dict[tuple[str, int], int] = {}
    for number in range(4):
        meeting.worker(f"w{number}").start()
        meeting.settle()
        if number > 1:
            meeting.alive[0].close()
            meeting.settle()
    takings = [
        (each.generation, partition, token)
        for worker in meeting.workers
        for each in worker.told
        if isinstance(each, Assign)
        for partition, token in each.partitions.items()
    ]
    for _, partition, token in sorted(takings):
        assert token > newest.get(partition, 0)
        newest[partition] = token


# -- restarts ----------------------------------------------------------------------------------


def test_static_rolling_restart_causes_no_rebalance() -> None:
    meeting = Meeting({"t": 9})
    names = ["a", "b", "c"]
    workers = {name: meeting.worker(name, instance=name).start() for name in names}
    meeting.settle()
    before = generation(meeting)
    had = {name: set(worker.working) for name, worker in workers.items()}
    for name in names:
        forget_told(meeting)
        workers[name].close(leave=False)
        meeting.run(3_000)
        others = [worker for worker in meeting.alive if worker.name != name]
        workers[name] = meeting.worker(name, instance=name).start()
        meeting.settle()
        meeting.run(10_000)
        assert [stopped(worker) for worker in others] == [set(), set()]
        assert workers[name].working.keys() == had[name]
    assert generation(meeting) == before


def test_static_rolling_restart_with_differing_topics() -> None:
    meeting = Meeting({"t": 4, "u": 3})
    first = meeting.worker("a", "t", instance="a").start()
    meeting.run(1_000)
    meeting.worker("b", "u", instance="b").start()
    meeting.settle()
    before = generation(meeting)
    assert first.machine.is_leader
    first.close(leave=False)
    meeting.run(2_000)
    meeting.worker("a", "t", instance="a").start()
    meeting.settle()
    meeting.run(10_000)
    assert generation(meeting) == before


def test_static_member_killed_and_restarted() -> None:
    meeting = Meeting({"t": 4})
    first = meeting.worker("a", instance="a").start()
    second = meeting.worker("b", instance="b").start()
    meeting.settle()
    before, had = generation(meeting), set(second.working)
    forget_told(meeting)
    second.die()
    meeting.run(5_000)
    again = meeting.worker("b", instance="b").start()
    meeting.settle()
    assert generation(meeting) == before
    assert again.working.keys() == had
    assert stopped(first) == set()


def test_two_processes_under_one_name() -> None:
    """The older one learns of it with its next heartbeat.

    Until then both work: that is what fencing tokens are for.
    """
    meeting = Meeting({"t": 4})
    older = meeting.worker("a", instance="a").start()
    meeting.settle()
    newer = meeting.worker("a", instance="a").start()
    while older.stopped is None:
        older.working.clear()  # The meeting's check knows no exception.
        assert meeting.step(meeting.now_ms + 10_000)
    meeting.settle()
    assert newer.machine.identity.member_id in str(older.stopped.error)
    assert "10.0.0.1" in str(older.stopped.error)
    assert len(newer.working) == 4


def test_dynamic_rolling_restart_ends_in_even_shares() -> None:
    meeting = Meeting({"t": 9})
    workers = meeting.team(3)
    for number, worker in enumerate(workers):
        worker.close()
        meeting.run(2_000)
        meeting.worker(f"again{number}").start()
        meeting.settle()
    assert loads(meeting) == [3, 3, 3]


# -- topics ------------------------------------------------------------------------------------


def test_new_partitions_of_a_topic_are_assigned_without_stopping_others() -> None:
    meeting = Meeting({"t": 4})
    workers = meeting.team(2)
    forget_told(meeting)
    meeting.change_topic("t", "grew", 6)
    meeting.settle()
    assert loads(meeting) == [3, 3]
    assert [stopped(worker) for worker in workers] == [set(), set()]


def test_deleted_topic_is_lost_and_others_go_on() -> None:
    meeting = Meeting({"t": 4, "u": 2})
    workers = [meeting.worker(name, "t", "u").start() for name in ("a", "b")]
    meeting.settle()
    forget_told(meeting)
    meeting.change_topic("u", "deleted")
    meeting.run(130_000)
    meeting.settle()
    assert set().union(*(worker.working for worker in workers)) == {("t", n) for n in range(4)}
    assert all(
        partition[0] == "u"
        for worker in workers
        for event in worker.seen(PartitionsLost)
        for partition in event.partitions
    )


def test_last_commits_to_a_deleted_topic_hold_up_no_rebalance() -> None:
    meeting = Meeting({"t": 2, "u": 2})
    options = {"assignors": [RangeAssignor()], "finish_ms": None}
    workers = [meeting.worker(name, "t", "u", **options).start() for name in ("a", "b")]
    meeting.settle()
    began_ms = meeting.now_ms
    meeting.change_topic("u", "deleted")
    while not all(worker.machine._state.releasing for worker in workers):  # noqa: SLF001
        assert meeting.step(began_ms + 10_000)
    for worker in workers:
        for partition in list(worker.working):
            worker.commit((worker.name, partition), partition, 7)
            worker.release(partition)
    meeting.settle()
    assert meeting.now_ms - began_ms < 10_000
    assert set().union(*(worker.working for worker in workers)) == {("t", 0), ("t", 1)}


def test_commit_to_a_topic_that_was_deleted_is_not_stored_for_one_that_comes_after_it() -> None:
    meeting = Meeting({"t": 2, "u": 1})
    worker = meeting.worker("a", "t", "u").start()
    meeting.settle()
    meeting.change_topic("u", "deleted")
    worker.commit("late", ("u", 0), 7)
    meeting.run(200)
    meeting.change_topic("u", "created", 1)
    meeting.settle()
    worker.fetch("found", ("u", 0))
    meeting.run(200)
    late, found = worker.results["late"], worker.results["found"]
    assert isinstance(late, Committed)
    assert isinstance(late.error, PartitionLostError)
    assert isinstance(found, Fetched)
    assert (found.error, found.position) == (None, None)


def test_members_wait_for_a_topic_and_begin_within_seconds() -> None:
    meeting = Meeting({"t": 2})
    workers = [meeting.worker(name, "t", "later").start() for name in ("a", "b")]
    meeting.settle()
    assert all(worker.seen(TopicMissing) for worker in workers)
    meeting.change_topic("later", "created", 2)
    meeting.run(15_000)
    meeting.settle()
    assert loads(meeting) == [2, 2]


def test_changed_subscription_is_followed() -> None:
    meeting = Meeting({"t": 4, "u": 2})
    first = meeting.worker("a", "t", "u").start()
    second = meeting.worker("b", "t", "u").start()
    meeting.settle()
    first.subscribe("u")
    meeting.settle()
    assert {topic for topic, _ in first.working} <= {"u"}
    assert {partition for partition in second.working if partition[0] == "t"} == {
        ("t", number) for number in range(4)
    }


# -- calm --------------------------------------------------------------------------------------


def test_nothing_happens() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3)
    before = generation(meeting)
    forget_told(meeting)
    meeting.run(300_000)
    assert generation(meeting) == before
    assert all(worker.told == [] for worker in workers)


@pytest.mark.parametrize("size", [2, 5])
def test_one_more_member_takes_two_generations(size: int) -> None:
    meeting = Meeting({"t": 12})
    workers = meeting.team(size)
    before = generation(meeting)
    meeting.worker("new").start()
    meeting.settle()
    assert generation(meeting) == before + 2
    assert all(len(worker.seen(GroupJoined)) <= before + 2 for worker in workers)
    assert all(worker.machine.phase is Phase.STABLE for worker in workers)
    assert all(worker.seen(JoinStarted)[-1].keeping > 0 for worker in workers)
