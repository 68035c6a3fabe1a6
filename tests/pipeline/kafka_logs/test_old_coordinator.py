"""Logs of the coordinator in Scala, without anything stored: what they tell and what they don't."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_protocol.journal import (
    GroupDeleted,
    GroupEmptied,
    GroupRecovered,
    IdUnclaimed,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    NodeStarted,
    OffsetsDeleted,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.pipeline.kafka_logs.broker_logs import (
    OldLog,
    events,
    first_generation,
    imported,
    kinds,
    member,
    ms,
    run,
)

A, B, C, S, S2 = (member(name) for name in ("a", "b", "c", "s", "s2"))

_STATIC = "Static member with groupInstanceId=s and unknown member id joins group g in {} state. "
_STABLE = (
    "Static member which joins during Stable stage and doesn't affect selectProtocol will not "
)


def _metadata(name: str, instance: str | None = None) -> str:
    shown = f"Some({instance})" if instance else "None"
    return (
        f"MemberMetadata(memberId={name}, groupInstanceId={shown}, clientId=app, "
        "clientHost=/10.0.0.5, sessionTimeoutMs=6000, rebalanceTimeoutMs=60000, "
        "supportedProtocols=List(range))"
    )


def test_first_member_makes_the_first_generation(tmp_path: Path) -> None:
    # Its coming, both phases with their times, and nothing that is not known.
    log = OldLog()
    first_generation(log, A)
    joined, started, phase, completed = imported(tmp_path, log)
    assert (joined.ts, phase.ts, completed.ts) == (ms(0), ms(0.9), ms(1))
    assert joined.node == "kafka-1"
    assert isinstance(joined.event, MemberJoined)
    assert (joined.event.client_id, joined.event.session_timeout_ms) == ("a", 0)
    assert isinstance(started.event, RebalanceStarted)
    assert (started.event.cause, started.event.from_state) == ("member_joined", "Empty")
    assert started.event.deadline is None
    assert isinstance(phase.event, PhaseJoined)
    assert (phase.event.generation, phase.event.leader, phase.event.took_ms) == (1, A, 900)
    assert isinstance(completed.event, RebalanceCompleted)
    assert (completed.event.took_ms, completed.event.total_ms) == (100, 1000)
    assert completed.event.assigned is None


def test_client_with_a_new_id_has_joined_if_the_count_says_so(tmp_path: Path) -> None:
    # How long after the start, the line says that told it the id.
    log = OldLog()
    first_generation(log, A, B)
    (phase,) = events(imported(tmp_path, log), PhaseJoined)
    assert [(m.member, m.joined_after_ms) for m in phase.members] == [(A, 0), (B, 200)]
    assert phase.last == B


def test_member_joins_again_by_the_end_of_the_phase(tmp_path: Path) -> None:
    # When it did is not logged; if it alone was awaited, it was the last one.
    log = OldLog()
    first_generation(log, A)
    log.preparing(5, 1, f"Adding new member {B} with group instance id None")
    log.stabilized(7, 2, 2)
    phase = events(imported(tmp_path, log), PhaseJoined)[-1]
    assert [(m.member, m.joined_after_ms) for m in phase.members] == [(A, 2000), (B, 0)]
    assert phase.last == A


def test_last_of_several_members_to_join_is_not_known(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(5, 1, f"Adding new member {C} with group instance id None")
    log.stabilized(7, 2, 3)
    phase = events(imported(tmp_path, log), PhaseJoined)[-1]
    assert [m.joined_after_ms for m in phase.members] == [2000, 2000, 0]
    assert phase.last is None


def test_departure_may_have_ended_the_phase(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(5, 1, f"Adding new member {C} with group instance id None")
    log.say(7, f"Member {B} in group g has failed, removing it from the group")
    log.stabilized(7, 2, 2)
    assert events(imported(tmp_path, log), PhaseJoined)[-1].last is None


@pytest.mark.parametrize(("took_s", "after_ms"), [(2, 2000), (300, None)])
def test_static_member_stays_away_only_if_the_phase_ran_out(
    tmp_path: Path, took_s: int, after_ms: int | None
) -> None:
    # A phase that ends before its time has all members, static ones too.
    log = OldLog()
    log.preparing(0, 0, f"Adding new member {S} with group instance id Some(s)")
    log.stabilized(1, 1, 1)
    log.assigned(1, 1, S)
    log.preparing(5, 1, f"Adding new member {A} with group instance id None")
    log.stabilized(5 + took_s, 2, 2)
    phase = events(imported(tmp_path, log), PhaseJoined)[-1]
    assert [m.joined_after_ms for m in phase.members] == [after_ms, 0]


def test_client_that_did_not_come_back_is_no_member(tmp_path: Path) -> None:
    # It is awaited for a while, and then the journal says that the id was not claimed.
    log = OldLog()
    log.id_given(0, B, "Empty")
    log.preparing(0, 0, f"Adding new member {A} with group instance id None")
    log.say(1, f"Pending member {B} in group g has been removed after session timeout expiration.")
    log.stabilized(1, 1, 1)
    lines = imported(tmp_path, log)
    assert events(lines, IdUnclaimed) == [IdUnclaimed(group="g", member=B)]
    assert [m.member for m in events(lines, PhaseJoined)[0].members] == [A]


def test_generations_with_members_missing_in_the_log_are_counted(tmp_path: Path) -> None:
    # The early versions log only the member that starts a rebalance.
    log = OldLog()
    log.preparing(0, 0, f"Adding new member {A} with group instance id None")
    log.stabilized(1, 1, 3)
    counts, lines = run(tmp_path, log)
    assert counts.generations_in_part == 1
    assert len(events(lines, PhaseJoined)[0].members) == 1


def test_member_leaves_before_the_rebalance_that_it_causes(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A, B)
    reason = f"Removing member {B} on LeaveGroup; client reason: the consumer is being closed"
    log.preparing(5, 1, reason)
    left = f"Member {_metadata(B)} has left group g through explicit `LeaveGroup`; client reason: x"
    log.say(5, left)
    lines = imported(tmp_path, log)
    assert kinds(lines)[-2:] == ["member_gone", "rebalance_started"]
    (gone,) = events(lines, MemberGone)
    assert (gone.member, gone.how, gone.reason) == (B, "left", "the consumer is being closed")
    started = events(lines, RebalanceStarted)[-1]
    assert (started.cause, started.from_state, started.awaited) == ("member_left", "Stable", (A,))


def test_member_that_leaves_during_a_rebalance_is_gone(tmp_path: Path) -> None:
    # There is no reason then, and the line itself has its timeouts.
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(5, 1, f"Updating metadata for member {A} during Stable")
    log.say(
        6, f"Member {_metadata(B)} has left group g through explicit `LeaveGroup`; client reason: y"
    )
    log.stabilized(6, 2, 1)
    lines = imported(tmp_path, log)
    (gone,) = events(lines, MemberGone)
    assert (gone.how, gone.host, gone.session_timeout_ms) == ("left", "/10.0.0.5", 6000)
    assert [m.member for m in events(lines, PhaseJoined)[-1].members] == [A]


def test_silent_member_is_gone_once(tmp_path: Path) -> None:
    # For how long it was silent is not known, as its timeout is not.
    log = OldLog()
    first_generation(log, A, B)
    log.say(9, f"Member {B} in group g has failed, removing it from the group")
    log.preparing(9, 1, f"removing member {B} on heartbeat expiration")
    lines = imported(tmp_path, log)
    (gone,) = events(lines, MemberGone)
    assert (gone.how, gone.silent_ms) == ("session_expired", 0)
    assert events(lines, RebalanceStarted)[-1].cause == "session_expired"


def test_join_that_was_parked_too_long_is_no_silence(tmp_path: Path) -> None:
    # After five minutes Kafka takes a new member for gone, whatever its timeout.
    log = OldLog()
    first_generation(log, A)
    log.preparing(5, 1, f"Adding new member {B} with group instance id None")
    log.say(305, f"Member {B} in group g has failed, removing it from the group")
    (gone,) = events(imported(tmp_path, log), MemberGone)
    assert gone.how == "join_expired"


def test_members_that_did_not_join_in_time_are_dropped(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(5, 1, f"Leader {A} re-joining group during Stable; client reason: not provided")
    log.say(65, f"Group g removed dynamic members who haven't joined: Set({B})")
    log.stabilized(65, 2, 1)
    lines = imported(tmp_path, log)
    assert [gone.how for gone in events(lines, MemberGone)] == ["rebalance_expired"]
    assert events(lines, PhaseJoined)[-1].dropped == (B,)


def test_member_that_never_asked_for_its_assignment_is_gone(tmp_path: Path) -> None:
    # The next rebalance begins where the assignment should have been.
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(70, 1, f"Removing Set({B}) on pending sync request expiration")
    lines = imported(tmp_path, log)
    assert [gone.how for gone in events(lines, MemberGone)] == ["sync_expired"]
    assert events(lines, RebalanceStarted)[-1].cause == "sync_expired"


def test_rebalance_that_overtakes_another_comes_from_its_second_phase(tmp_path: Path) -> None:
    log = OldLog()
    log.preparing(0, 0, f"Adding new member {A} with group instance id None")
    log.stabilized(1, 1, 1)
    log.preparing(1.5, 1, f"Adding new member {B} with group instance id None")
    lines = imported(tmp_path, log)
    assert events(lines, RebalanceStarted)[-1].from_state == "CompletingRebalance"
    assert not events(lines, RebalanceCompleted)


def test_last_member_leaves_the_group_empty(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A)
    log.preparing(5, 1, f"Removing member {A} on LeaveGroup")
    log.say(5, "Group g with generation 2 is now empty (__consumer_offsets-7)")
    log.preparing(9, 2, f"Adding new member {B} with group instance id None")
    lines = imported(tmp_path, log)
    assert events(lines, GroupEmptied) == [GroupEmptied(group="g", generation=2)]
    assert events(lines, RebalanceStarted)[-1].from_state == "Empty"


def test_static_member_that_comes_back_is_named_by_the_rebalance_it_starts(tmp_path: Path) -> None:
    # The line about its coming does not say its new id; the next one may.
    log = OldLog()
    first_generation(log, A)
    text = f"Created a new member id {S} for this member and add to the group."
    log.say(2, _STATIC.format("Stable") + text)
    log.say(
        9,
        _STATIC.format("Stable")
        + f"Replacing previously mapped member {S} with this groupInstanceId.",
    )
    reason = f"Group's selectedProtocol will change because static member {S2} with instance id s "
    log.preparing(9, 1, f"{reason}joined with change of protocol; client reason: not provided")
    lines = imported(tmp_path, log)
    (replaced,) = events(lines, MemberReplaced)
    assert (replaced.instance, replaced.former_member, replaced.member) == ("s", S, S2)
    assert events(lines, RebalanceStarted)[-1].cause == "static_replaced"


def test_static_member_whose_id_is_not_said_gets_one_made_up(tmp_path: Path) -> None:
    log = OldLog()
    text = f"Created a new member id {S} for this member and add to the group."
    log.say(0, _STATIC.format("Empty") + text)
    log.preparing(0, 0, f"Adding new member {S} with group instance id Some(s)")
    log.stabilized(1, 1, 1)
    log.assigned(1, 1, S)
    real = "s-00000000-1111-2222-3333-444444444444"
    log.say(
        5,
        _STATIC.format("Stable")
        + f"Replacing previously mapped member {S} with this groupInstanceId.",
    )
    log.say(5, f"{_STABLE}trigger rebalance.")
    log.say(20, f"Member {real} in group g has failed, removing it from the group")
    log.preparing(20, 1, f"removing member {real} on heartbeat expiration")
    lines = imported(tmp_path, log)
    (replaced,) = events(lines, MemberReplaced)
    (gone,) = events(lines, MemberGone)
    assert replaced.member == gone.member == f"s-{ms(5)}"
    assert gone.instance == "s"


def test_made_up_id_ends_with_its_member(tmp_path: Path) -> None:
    # The next one of that name comes with an id of its own, which is said.
    log = OldLog()
    text = "Created a new member id {} for this member and add to the group."
    log.say(0, _STATIC.format("Empty") + text.format(S))
    log.preparing(0, 0, f"Adding new member {S} with group instance id Some(s)")
    log.say(
        5,
        _STATIC.format("Stable")
        + f"Replacing previously mapped member {S} with this groupInstanceId.",
    )
    real = "s-00000000-1111-2222-3333-444444444444"
    log.say(20, f"Member {real} in group g has failed, removing it from the group")
    again = "s-99999999-1111-2222-3333-444444444444"
    log.say(30, _STATIC.format("Empty") + text.format(again))
    joined = events(imported(tmp_path, log), MemberJoined)
    assert [event.member for event in joined] == [S, again]


def test_early_versions_name_the_new_id_and_not_the_group(tmp_path: Path) -> None:
    # The group is the one in which the former id is a member.
    log = OldLog()
    log.preparing(0, 0, f"Adding new member {S} with group instanceid Some(s)")
    text = f"assigning new member id {S2}, while old member {S} will be removed."
    log.say(5, f"Static member Some(s) with unknown member id rejoins, {text}")
    (replaced,) = events(imported(tmp_path, log), MemberReplaced)
    assert (replaced.group, replaced.member) == ("g", S2)


def test_request_under_an_instance_id_that_is_taken_is_fenced(tmp_path: Path) -> None:
    log = OldLog()
    log.preparing(0, 0, f"Adding new member {S} with group instance id Some(s)")
    text = f"Request memberId={S2} for static member with groupInstanceId=s is fenced by current "
    log.say(3, f"{text}memberId={S} during operation offset-commit")
    (fenced,) = events(imported(tmp_path, log), MemberFenced)
    assert (fenced.group, fenced.member, fenced.holder) == ("g", S2, S)
    assert fenced.request == "OffsetCommit"


def test_group_that_is_read_back_has_the_members_of_its_last_generation(tmp_path: Path) -> None:
    # All generations go by as a coordinator reads; of a name, the latest holder counts.
    log = OldLog()
    log.say(0, "Startup complete.")
    for generation, name, instance in [(4, A, None), (5, B, None), (5, S, "s"), (5, S2, "s")]:
        text = f"Loaded member {_metadata(name, instance)} in group g with generation {generation}."
        log.raw(1, f"INFO {text} (kafka.coordinator.group.GroupMetadata$)")
    log.say(1, "Loading group metadata for g with generation 5")
    lines = imported(tmp_path, log)
    (recovered,) = events(lines, GroupRecovered)
    assert (recovered.state, recovered.generation) == ("Stable", 5)
    assert recovered.members == (B, S2)


def test_version_is_that_of_the_broker(tmp_path: Path) -> None:
    # It is logged a moment after the coordinator is ready.
    log = OldLog()
    log.say(0, "Startup complete.")
    log.say(0, "Removed 0 expired offsets in 2 milliseconds.")
    log.raw(0, "INFO Kafka version: 3.9.1 (org.apache.kafka.common.utils.AppInfoParser)")
    log.say(60, "Shutting down.")
    lines = imported(tmp_path, log)
    assert kinds(lines) == ["node_started", "node_stopped"]
    assert events(lines, NodeStarted)[0].version == "Kafka 3.9.1"


def test_group_can_be_deleted_or_expire(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A)
    log.say(5, "The following groups were deleted: g. A total of 3 offsets were removed.")
    first_generation(log, A, at=10)
    log.say(15, "Group g transitioned to Dead in generation 1")
    lines = imported(tmp_path, log)
    assert [gone.how for gone in events(lines, GroupDeleted)] == ["requested", "expired"]
    assert [s.from_state for s in events(lines, RebalanceStarted)] == ["Empty", "Empty"]


def test_offsets_deleted_on_request_are_an_event(tmp_path: Path) -> None:
    log = OldLog()
    text = "The following offsets of the group g were deleted: t-0, t-2. A total of 2 offsets were "
    log.say(0, f"{text}removed.")
    deleted = OffsetsDeleted(group="g", partitions={"t": (0, 2)}, how="requested")
    assert events(imported(tmp_path, log), OffsetsDeleted) == [deleted]


def test_unknown_reason_gets_the_likeliest_cause(tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, A, B)
    log.say(9, f"Member {B} in group g has failed, removing it from the group")
    log.preparing(9, 1, "The moon is full")
    counts, lines = run(tmp_path, log)
    started = events(lines, RebalanceStarted)[-1]
    assert (started.cause, started.detail) == ("session_expired", "The moon is full")
    assert counts.unknown_reasons == {"The moon is full": 1}


def test_rebalance_without_its_beginning_gives_no_events(tmp_path: Path) -> None:
    # The log was cut there; what it says of the group is taken note of all the same.
    log = OldLog()
    log.stabilized(0, 6, 2)
    log.assigned(1, 6, A)
    log.preparing(5, 6, f"Adding new member {B} with group instance id None")
    lines = imported(tmp_path, log)
    assert kinds(lines) == ["member_joined", "rebalance_started"]
    assert events(lines, RebalanceStarted)[0].from_state == "Stable"


def test_early_leader_that_joins_again_is_known_by_its_id(tmp_path: Path) -> None:
    # Before 2.7 the reason is the same as for other members.
    log = OldLog()
    first_generation(log, A, B)
    log.preparing(5, 1, f"Updating metadata for member {A}")
    assert events(imported(tmp_path, log), RebalanceStarted)[-1].cause == "leader_rejoined"
