"""What brokers store in `__consumer_offsets`, and what it adds to their logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_pipeline.kafka_logs.offsets_topic import read_value
from coterie_protocol.journal import (
    GroupDeleted,
    GroupRecovered,
    MemberFenced,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    OffsetsCommitted,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.pipeline.kafka_logs.broker_logs import (
    NewLog,
    OldLog,
    Segment,
    commit_key,
    commit_value,
    events,
    first_generation,
    group_key,
    group_value,
    imported,
    kinds,
    member,
    ms,
    run,
    stored_member,
)

A, B, C, S, S2 = member("a"), member("b"), member("c"), member("s"), member("s2")

T0, T1, T2, T3 = (("t", number) for number in range(4))

_GZIP, _TRANSACTIONAL, _CONTROL = 1, 0x10, 0x20
_COMMIT, _ABORT = b"\0\0\0\1", b"\0\0\0\0"


def _two_generations() -> tuple[OldLog, Segment]:
    """A has all, then B comes and gets half of it."""
    log, stored = OldLog(), Segment()
    first_generation(log, A)
    stored.generation(1, 1, stored_member(A, [T0, T1]))
    log.preparing(5, 1, f"Adding new member {B} with group instance id None")
    log.stabilized(7, 2, 2)
    log.assigned(7.1, 2, A)
    stored.generation(7.1, 2, stored_member(A, [T0]), stored_member(B, [T1]))
    return log, stored


@pytest.mark.parametrize("version", range(5))
def test_group_of_every_version_is_read(version: int) -> None:
    members = [stored_member(A, [T0], instance="x"), stored_member(B, [T1], topics=["t", "u"])]
    generation = read_value(group_value(6, members, leader=A, version=version))
    assert generation is not None
    assert (generation.number, generation.leader, generation.protocol) == (6, A, "range")
    assert generation.given == {A: frozenset([T0]), B: frozenset([T1])}
    info = generation.members[B].info
    assert (info.client_id, info.host, info.topics) == ("app", "/10.0.0.5", ("t", "u"))
    assert (info.session_ms, info.rebalance_ms) == (10_000, 300_000 if version else 10_000)
    assert generation.members[A].info.instance == ("x" if version >= 3 else None)


def test_values_of_newer_versions_or_cut_off_are_not_read() -> None:
    assert read_value(group_value(6, [], version=5)) is None
    assert read_value(group_value(6, [stored_member(A)])[:-3]) is None


def test_assignment_has_what_moved(tmp_path: Path) -> None:
    log, stored = _two_generations()
    first, second = events(imported(tmp_path, log, stored=stored), RebalanceCompleted)
    assert first.assigned == {A: {"t": (0, 1)}}
    assert (first.moved, first.revoked) == (0, 0)
    assert second.assigned == {A: {"t": (0,)}, B: {"t": (1,)}}
    assert (second.moved, second.revoked) == (1, 1)


def test_partitions_of_a_member_that_went_have_moved(tmp_path: Path) -> None:
    log, stored = _two_generations()
    log.preparing(9, 2, f"removing member {B} on LeaveGroup")
    log.stabilized(9.1, 3, 1)
    log.assigned(9.1, 3, A)
    stored.generation(9.1, 3, stored_member(A, [T0, T1]))
    third = events(imported(tmp_path, log, stored=stored), RebalanceCompleted)[-1]
    assert (third.generation, third.moved, third.revoked) == (3, 1, 0)


def test_members_have_all_that_is_stored_from_their_joins_on(tmp_path: Path) -> None:
    log, stored = _two_generations()
    lines = imported(tmp_path, log, stored=stored)
    joined = events(lines, MemberJoined)[-1]
    assert (joined.member, joined.client_id, joined.host) == (B, "app", "/10.0.0.5")
    assert (joined.session_timeout_ms, joined.rebalance_timeout_ms) == (10_000, 300_000)
    assert (joined.protocols, joined.topics) == (("range",), ("t",))
    phase = events(lines, PhaseJoined)[-1]
    assert (phase.protocol_type, phase.protocol, phase.leader) == ("consumer", "range", A)
    assert events(lines, RebalanceStarted)[-1].deadline == ms(305)


def test_members_missing_in_the_log_come_with_their_stored_generation(tmp_path: Path) -> None:
    # They come with the generation that has them, and joined by the end of its phase.
    log, stored = OldLog(), Segment()
    log.preparing(0, 0, f"Adding new member {A} with group instance id None")
    log.stabilized(1, 1, 2)
    stored.generation(1, 1, stored_member(A), stored_member(B))
    counts, lines = run(tmp_path, log, stored=stored)
    assert [event.member for event in events(lines, MemberJoined)] == [A, B]
    (phase,) = events(lines, PhaseJoined)
    assert [m.joined_after_ms for m in phase.members] == [0, 1000]
    assert counts.generations_in_part == 0


def test_members_missing_in_the_stored_generation_were_too_late(tmp_path: Path) -> None:
    # 2.4 drops members that do not join in time without a line.
    log, stored = OldLog(), Segment()
    first_generation(log, A, B)
    stored.generation(1, 1, stored_member(A, [T0]), stored_member(B, [T1]))
    log.preparing(5, 1, f"Updating metadata for member {A}")
    log.stabilized(65, 2, 1)
    stored.generation(65, 2, stored_member(A, [T0, T1]))
    lines = imported(tmp_path, log, stored=stored)
    (gone,) = events(lines, MemberGone)
    assert (gone.member, gone.how, gone.owned) == (B, "rebalance_expired", {"t": (1,)})
    assert events(lines, PhaseJoined)[-1].dropped == (B,)


def test_silence_is_at_least_the_timeout(tmp_path: Path) -> None:
    # That much is certain of a member whose session expired.
    log, stored = _two_generations()
    log.say(30, f"Member {B} in group g has failed, removing it from the group")
    (gone,) = events(imported(tmp_path, log, stored=stored), MemberGone)
    assert (gone.silent_ms, gone.session_timeout_ms) == (10_000, 10_000)
    assert gone.owned == {"t": (1,)}


def test_rebalance_for_what_has_to_be_given_back_is_a_follow_up(tmp_path: Path) -> None:
    # Known by what members own and are given, where the client gives no reason.
    log, stored = OldLog(), Segment()
    first_generation(log, A)
    stored.generation(1, 1, stored_member(A, [T0, T1]), protocol="cooperative-sticky")
    log.preparing(5, 1, f"Adding new member {B} with group instance id None")
    log.stabilized(6, 2, 2)
    log.assigned(6, 2, A)
    owner = stored_member(A, [T0], owned=[T0, T1])
    stored.generation(6, 2, owner, stored_member(B), protocol="cooperative-sticky")
    log.preparing(6.1, 2, f"Leader {A} re-joining group during Stable; client reason: not provided")
    lines = imported(tmp_path, log, stored=stored)
    started = events(lines, RebalanceStarted)[-1]
    assert (started.cause, started.follows) == ("revocation_follow_up", 2)
    completed = events(lines, RebalanceCompleted)[-1]
    assert (completed.moved, completed.revoked) == (0, 1)
    assert events(lines, PhaseJoined)[-1].members[0].owned == {"t": (0, 1)}


def test_partition_given_away_while_it_is_owned_is_a_conflict(tmp_path: Path) -> None:
    log, stored = OldLog(), Segment()
    first_generation(log, A, B)
    stored.generation(1, 1, stored_member(A, owned=[T0]), stored_member(B, [T0]))
    lines = imported(tmp_path, log, stored=stored)
    (conflict,) = events(lines, OwnershipConflict)
    assert (conflict.topic, conflict.partition) == ("t", 0)
    assert (conflict.holder, conflict.given_to, conflict.withheld) == (A, B, False)
    assert kinds(lines)[-2:] == ["ownership_conflict", "rebalance_completed"]


def test_new_id_of_a_static_member_is_found(tmp_path: Path) -> None:
    log, stored = NewLog(), Segment()
    log.preparing(0, 0, f"Adding new member {S} with group instance id s; client reason: no")
    log.stabilized(1, 1, 1)
    log.assigned(1, 1, S)
    stored.generation(1, 1, stored_member(S, [T0], instance="s"))
    text = "Static member with groupInstanceId=s and unknown member id joins group g in Stable "
    log.say(5, f"{text}state. Replacing previously mapped member {S} with this groupInstanceId.")
    stored.generation(5.1, 1, stored_member(S2, [T0], instance="s"))
    log.say(60, f"Member {S2} in group g has failed, removing it from the group.")
    lines = imported(tmp_path, log, stored=stored)
    (replaced,) = events(lines, MemberReplaced)
    assert (replaced.member, replaced.host) == (S2, "/10.0.0.5")
    (gone,) = events(lines, MemberGone)
    assert (gone.member, gone.owned) == (S2, {"t": (0,)})


def test_refused_request_has_the_address_of_its_member(tmp_path: Path) -> None:
    # Two processes have one name, and it helps to know where they are.
    log, stored = NewLog(), Segment()
    log.preparing(0, 0, f"Adding new member {S} with group instance id s; client reason: no")
    log.stabilized(1, 1, 1)
    stored.generation(1, 1, stored_member(S, [T0], instance="s"))
    text = "Static member with groupInstanceId=s and unknown member id joins group g in Stable "
    log.say(5, f"{text}state. Replacing previously mapped member {S} with this groupInstanceId.")
    stored.generation(5.1, 1, stored_member(S2, [T0], instance="s"))
    text = f"Request memberId={S} for static member with groupInstanceId=s is fenced by existing "
    log.say(6, f"{text}memberId={S2} during operation heartbeat")
    (fenced,) = events(imported(tmp_path, log, stored=stored), MemberFenced)
    assert (fenced.host, fenced.holder_host) == ("/10.0.0.5", "/10.0.0.5")


def test_group_from_before_the_log_is_introduced(tmp_path: Path) -> None:
    # So that it is known what the first rebalance changes.
    log, stored = OldLog(), Segment()
    stored.generation(-600, 6, stored_member(A, [T0, T1]))
    log.preparing(0, 6, f"Adding new member {B} with group instance id None")
    log.stabilized(1, 7, 2)
    log.assigned(1, 7, A)
    stored.generation(1, 7, stored_member(A, [T0]), stored_member(B, [T1]))
    lines = imported(tmp_path, log, stored=stored)
    (recovered,) = events(lines, GroupRecovered)
    assert (recovered.generation, recovered.assigned) == (6, {A: {"t": (0, 1)}})
    assert events(lines, RebalanceStarted)[0].awaited == (A,)
    assert events(lines, RebalanceCompleted)[0].moved == 1


def test_assignment_that_the_log_begins_with_is_what_the_next_one_changes(tmp_path: Path) -> None:
    # Though the rebalance itself is not told, as its beginning is missing.
    log, stored = OldLog(), Segment()
    log.stabilized(0, 6, 1)
    log.assigned(0.1, 6, A)
    stored.generation(0.1, 6, stored_member(A, [T0, T1]))
    log.preparing(5, 6, f"Adding new member {B} with group instance id None")
    log.stabilized(6, 7, 2)
    log.assigned(6.1, 7, A)
    stored.generation(6.1, 7, stored_member(A, [T0]), stored_member(B, [T1]))
    (completed,) = events(imported(tmp_path, log, stored=stored), RebalanceCompleted)
    assert (completed.generation, completed.moved) == (7, 1)


def test_stored_state_of_another_generation_is_not_taken_over(tmp_path: Path) -> None:
    log, stored = OldLog(), Segment()
    stored.generation(-600, 5, stored_member(A, [T0, T1]))
    log.preparing(0, 6, f"Adding new member {B} with group instance id None")
    assert not events(imported(tmp_path, log, stored=stored), GroupRecovered)


def test_group_that_is_read_back_has_what_is_stored(tmp_path: Path) -> None:
    # The newer coordinator says no more than a count.
    log, stored = NewLog(), Segment()
    stored.generation(-600, 5, stored_member(A, [T0]), stored_member(B, [T1]))
    log.say(0, "Loaded classic group g with 2 members.")
    (recovered,) = events(imported(tmp_path, log, stored=stored), GroupRecovered)
    assert (recovered.generation, recovered.members) == (5, (A, B))
    assert recovered.assigned == {A: {"t": (0,)}, B: {"t": (1,)}}


def test_commits_of_one_batch_are_one_event_at_their_time(tmp_path: Path) -> None:
    # Those of one batch together; whose they are is not stored.
    log, stored = _two_generations()
    stored.commit(3, {T0: 17, T1: 18})
    stored.commit(9, {T1: 20})
    lines = imported(tmp_path, log, stored=stored)
    commits = [line for line in lines if isinstance(line.event, OffsetsCommitted)]
    assert [line.ts for line in commits] == [ms(3), ms(9)]
    first = OffsetsCommitted(group="g", member="", generation=-1, offsets={"t": {"0": 17, "1": 18}})
    assert commits[0].event == first


def test_commits_can_be_left_out(tmp_path: Path) -> None:
    log, stored = _two_generations()
    stored.commit(3, {T0: 17})
    counts, lines = run(tmp_path, log, stored=stored, commits=False)
    assert not events(lines, OffsetsCommitted)
    assert counts.dump.commits == 1


def test_commits_of_a_transaction_count_when_it_is_committed(tmp_path: Path) -> None:
    log, stored = _two_generations()
    for producer, offset in ((1, 11), (2, 22)):
        record = (commit_key("g", "t", 0), commit_value(offset))
        stored.add(3, record, attributes=_TRANSACTIONAL, producer=producer)
    for producer, end in ((1, _ABORT), (2, _COMMIT)):
        attributes = _TRANSACTIONAL | _CONTROL
        stored.add(4, (end, b""), attributes=attributes, producer=producer)
    commits = [
        (line.ts, line.event.offsets)
        for line in imported(tmp_path, log, stored=stored)
        if isinstance(line.event, OffsetsCommitted)
    ]
    assert commits == [(ms(4), {"t": {"0": 22}})]


def test_group_that_expired_without_a_line_is_deleted(tmp_path: Path) -> None:
    # The newer coordinator does not log that a group expired.
    log, stored = _two_generations()
    stored.add(600, (group_key("g"), None))
    deleted = GroupDeleted(group="g", generation=2, how="expired")
    assert events(imported(tmp_path, log, stored=stored), GroupDeleted) == [deleted]


def test_group_deleted_on_request_did_not_expire(tmp_path: Path) -> None:
    # The line about that comes a moment after it was stored.
    log, stored = _two_generations()
    stored.add(600, (group_key("g"), None))
    log.say(600.01, "The following groups were deleted: g. A total of 1 offsets were removed.")
    (deleted,) = events(imported(tmp_path, log, stored=stored), GroupDeleted)
    assert deleted.how == "requested"


def test_offsets_that_are_gone_are_counted(tmp_path: Path) -> None:
    log, stored = _two_generations()
    stored.add(9, (commit_key("g", "t", 0), None))
    counts, _ = run(tmp_path, log, stored=stored)
    assert counts.dump.offsets_gone == 1


def test_groups_of_newer_kinds_are_counted(tmp_path: Path) -> None:
    log, stored = _two_generations()
    stored.add(9, (group_key("n", version=3), b"\0\0"))
    counts, _ = run(tmp_path, log, stored=stored)
    assert counts.dump.newer == 1


def test_bytes_of_another_protocol_give_no_assignment(tmp_path: Path) -> None:
    # What members of other types tell each other can't be read.
    log, stored = OldLog(), Segment()
    first_generation(log, A)
    stored.generation(1, 1, stored_member(A, [T0]), protocol_type="connect")
    lines = imported(tmp_path, log, stored=stored)
    assert events(lines, RebalanceCompleted)[0].assigned is None
    assert events(lines, PhaseJoined)[0].protocol_type == "connect"


def test_member_that_the_leader_left_out_has_nothing(tmp_path: Path) -> None:
    # An assignment of no bytes is one of no partitions.
    log, stored = OldLog(), Segment()
    first_generation(log, A, B)
    stored.generation(1, 1, stored_member(A, [T0]), stored_member(B, assignment=b""))
    (completed,) = events(imported(tmp_path, log, stored=stored), RebalanceCompleted)
    assert completed.assigned == {A: {"t": (0,)}, B: {}}


def test_replicas_of_a_partition_count_once(tmp_path: Path) -> None:
    log, stored = _two_generations()
    stored.commit(3, {T0: 17})
    for broker in ("one", "two"):
        stored.write(tmp_path / "data" / broker)
    counts, _ = run(tmp_path, log, stored=stored)
    assert counts.dump.commits == 1


def test_packed_batches_are_read_or_counted(tmp_path: Path) -> None:
    log, stored = _two_generations()
    record = (commit_key("g", "t", 0), commit_value(17))
    stored.add(3, record, attributes=_GZIP)
    stored.add(4, record, attributes=2)
    counts, _ = run(tmp_path, log, stored=stored)
    assert counts.dump.commits == 1
    assert counts.dump.unreadable == {"packed by snappy": 1}


def test_segment_that_is_cut_off_is_read_so_far(tmp_path: Path) -> None:
    log, stored = _two_generations()
    stored.commit(3, {T0: 17})
    stored.data = stored.data[:-5]
    counts, _ = run(tmp_path, log, stored=stored)
    assert (counts.dump.generations, counts.dump.commits) == (2, 0)


def test_damaged_batch_is_counted(tmp_path: Path) -> None:
    log, stored = OldLog(), Segment()
    first_generation(log, A)
    stored.generation(1, 1, stored_member(A, [T0]))
    broken = bytearray(stored.data)
    broken[57:61] = (2).to_bytes(4, "big")  # as if there were two records
    stored.data = bytes(broken)
    stored.commit(3, {T0: 17})
    counts, _ = run(tmp_path, log, stored=stored)
    assert (counts.dump.commits, counts.dump.unreadable) == (1, {"damaged": 1})
