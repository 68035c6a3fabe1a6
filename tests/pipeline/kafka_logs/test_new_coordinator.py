"""Logs of the coordinator in Java: what differs, and groups that are no classic ones."""

from __future__ import annotations

from pathlib import Path

from coterie_protocol.journal import (
    GroupRecovered,
    MemberGone,
    MemberJoined,
    PhaseJoined,
    RebalanceStarted,
)
from tests.pipeline.kafka_logs.broker_logs import NewLog, events, imported, kinds, member, run

A, B, S = member("a"), member("b"), member("s")


def _come(log: NewLog, second: float, name: str, state: str) -> None:
    text = f"Pending dynamic member with id {name} joins group g in {state} state. "
    log.say(second, f"{text}Adding to the group now.")


def _two_members(log: NewLog) -> None:
    _come(log, 0, A, "Empty")
    log.preparing(0, 0, f"Adding new member {A} with group instance id null; client reason: hello")
    _come(log, 0.3, B, "PreparingRebalance")
    log.stabilized(0.9, 1, 2)
    log.assigned(1, 1, A)


def test_members_join_at_the_time_of_their_line(tmp_path: Path) -> None:
    log = NewLog()
    _two_members(log)
    lines = imported(tmp_path, log)
    assert [event.member for event in events(lines, MemberJoined)] == [A, B]
    (phase,) = events(lines, PhaseJoined)
    assert [m.joined_after_ms for m in phase.members] == [0, 300]
    assert (phase.leader, phase.last) == (A, B)


def test_member_that_leaves_is_gone_before_the_rebalance(tmp_path: Path) -> None:
    log = NewLog()
    _two_members(log)
    text = f"[Group g] Member {B} has left group through explicit `LeaveGroup` request; "
    log.say(5, f"{text}client reason: the consumer is being closed")
    log.preparing(5, 1, f"explicit `LeaveGroup` request for ({B}) members.")
    lines = imported(tmp_path, log)
    assert kinds(lines)[-2:] == ["member_gone", "rebalance_started"]
    assert events(lines, MemberGone)[0].reason == "the consumer is being closed"
    assert events(lines, RebalanceStarted)[-1].cause == "member_left"


def test_member_that_an_administrator_removes_did_not_leave(tmp_path: Path) -> None:
    # Kafka's client for administrators says so; the rebalance's reason does not.
    log = NewLog()
    _two_members(log)
    text = f"[Group g] Member {B} has left group through explicit `LeaveGroup` request; "
    log.say(5, f"{text}client reason: member was removed by an admin: it sleeps")
    log.preparing(5, 1, f"explicit `LeaveGroup` request for ({B}) members.")
    lines = imported(tmp_path, log)
    assert events(lines, MemberGone)[0].how == "removed"
    assert events(lines, RebalanceStarted)[-1].cause == "member_removed"


def test_group_that_is_read_back_stands_as_before(tmp_path: Path) -> None:
    # Its generation is not said, so it is the one that was met last.
    log = NewLog()
    _two_members(log)
    log.say(60, "Loaded classic group g with 2 members.")
    (recovered,) = events(imported(tmp_path, log), GroupRecovered)
    assert (recovered.state, recovered.generation, recovered.members) == ("Stable", 1, (A, B))


def test_group_read_back_before_any_line_about_it_gives_no_event(tmp_path: Path) -> None:
    # Nothing is known of it but a count.
    log = NewLog()
    log.say(0, "Loaded classic group g with 2 members.")
    assert imported(tmp_path, log) == []


def test_groups_of_newer_kinds_are_counted_and_give_no_events(tmp_path: Path) -> None:
    # They have no generations and no phases, so a journal has no words for them.
    log = NewLog()
    log.say(0, "[GroupId n] Member m joins the consumer group using the consumer protocol.")
    log.say(1, "[GroupId n] Bumped group epoch to 2 with metadata hash 17.")
    log.say(2, "Loaded share group o with 2 members.")
    counts, lines = run(tmp_path, log)
    assert (counts.newer_groups, counts.groups, lines) == (2, 0, [])


def test_group_moves_to_another_broker(tmp_path: Path) -> None:
    here, there = NewLog(node=1), NewLog(node=2)
    _two_members(here)
    here.say(4, "[GroupId=g] Unloading group metadata for generation 1.")
    there.say(5, "Loaded classic group g with 2 members.")
    there.say(9, f"Member {B} in group g has failed, removing it from the group.")
    there.preparing(9, 1, f"removing member {B} on heartbeat expiration.")
    lines = imported(tmp_path, here, there)
    mine = [line for line in lines if line.node == "kafka-2"]
    assert [line.seq for line in mine] == [1, 2, 3]
    assert events(mine, RebalanceStarted)[0].awaited == (A,)


def test_static_member_that_joins_at_once_is_static(tmp_path: Path) -> None:
    log = NewLog()
    text = (
        "Static member with groupInstanceId=s and unknown member id joins group g in Empty state."
    )
    log.say(0, f"{text} Created a new member id {S} for this member and added to the group.")
    (joined,) = events(imported(tmp_path, log), MemberJoined)
    assert (joined.member, joined.instance) == (S, "s")
