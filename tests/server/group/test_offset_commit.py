"""OffsetCommit: who may commit, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import Line, OffsetsCommitted, write_line
from coterie_protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie_server.group import GroupState, OffsetRow
from tests.support.group_harness import Answer, Client, World

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
T0 = {("t", 0): 5}


def member(world: World, **attributes: object) -> Client:
    """The only member of a stable group."""
    client = world.member("a", **attributes)
    world.form(client)
    return client


def emptied(world: World) -> Client:
    """The former member of an empty group."""
    client = member(world)
    client.leave()
    assert world.state() is GroupState.EMPTY
    return client


# -- who may -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 10))
def test_a_member_commits_in_every_version_that_can_name_one(version: int) -> None:
    world = World()
    assert member(world).commit(T0, version=version).part_errors == [OK]
    assert world.offsets() == T0


@pytest.mark.parametrize("version", range(10))
def test_a_commit_without_a_member_makes_a_group(version: int) -> None:
    world = World()
    assert world.commit(T0, version=version).part_errors == [OK]
    assert world.state() is GroupState.EMPTY
    assert world.group().row.protocol_type is None


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_since_version_9_a_commit_is_told_that_the_group_is_missing(
    version: int, error: int
) -> None:
    answer = World().commit(T0, version=version, generation_id_or_member_epoch=1, member_id="a")
    assert answer.part_errors == [ErrorCode(error)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, UNKNOWN),
        ({"member_id": "nobody", "generation_id_or_member_epoch": 1}, UNKNOWN),
        ({"member_id": "i1-1"}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "i1-1", "generation_id_or_member_epoch": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "i1-1", "generation_id_or_member_epoch": 1}, OK),
        ({"member_id": "i1-1", "group_instance_id": "i9"}, UNKNOWN),
        ({"member_id": "x", "group_instance_id": "i1"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"group_instance_id": "i1"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_only_members_of_the_present_generation_commit_into_a_group_at_work(
    fields: dict[str, object], error: ErrorCode
) -> None:
    world = World()
    member(world, static="i1")
    assert world.commit(T0, **fields).part_errors == [error]
    assert world.offsets() == (T0 if error is OK else {})


@pytest.mark.parametrize("fields", [{}, {"member_id": "x"}, {"group_instance_id": "i9"}])
def test_a_commit_without_a_generation_passes_in_an_empty_group(fields: dict[str, object]) -> None:
    world = World()
    emptied(world)
    assert world.commit(T0, **fields).part_errors == [OK]


def test_a_former_members_generation_is_refused_in_an_empty_group() -> None:
    assert emptied(World()).commit(T0).part_errors == [UNKNOWN]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, ErrorCode.REBALANCE_IN_PROGRESS),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"generation_id_or_member_epoch": 7}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_commits_in_the_second_phase_are_refused(
    fields: dict[str, object], error: ErrorCode
) -> None:
    world = World()
    client = world.member("a")
    client.join()
    world.sleep(3_000)
    assert world.state() is GroupState.COMPLETING
    assert client.commit(T0, **fields).part_errors == [error]


def test_commits_in_the_first_phase_pass() -> None:
    world = World()
    client = member(world)
    world.member("b", version=3).join()
    assert client.commit(T0).part_errors == [OK]


# -- what --------------------------------------------------------------------------------------


def commit_of(*partitions: OffsetCommitRequestPartition, topic: str = "t") -> OffsetCommitRequest:
    """A commit of some partitions of a topic."""
    topics = (OffsetCommitRequestTopic(name=topic, partitions=partitions),)
    return OffsetCommitRequest(group_id="g", topics=topics)


def partition(index: int = 0, offset: int = 1, **fields: object) -> OffsetCommitRequestPartition:
    """A partition in a commit."""
    values: dict[str, Any] = {
        "partition_index": index,
        "committed_offset": offset,
        "committed_metadata": "",
    }
    return OffsetCommitRequestPartition(**values | fields)


def test_commits_after_a_restart_take_the_place_of_none_before() -> None:
    """Offsets are stored under numbers, which go on where they left off."""
    world = World()
    for index in range(3):
        world.request(commit_of(partition(index, 10 + index)), 9)
        world.crash()
    assert {index: row.offset for (_, index), row in world.group().offsets.items()} == {
        0: 10,
        1: 11,
        2: 12,
    }


def test_partition_that_is_named_twice_is_journalled_once() -> None:
    world = World()
    for _ in range(2):
        world.request(commit_of(partition(0, 1), partition(1, 2), partition(0, 3)), 9)
        line = write_line(Line(0, "n", 0, world.seen(OffsetsCommitted)[-1]))
        assert line.endswith('"offsets":{"t":{"0":3,"1":2}}}')


def test_offset_epoch_metadata_and_date_are_kept() -> None:
    world = World()
    entry = partition(3, 77, committed_leader_epoch=4, committed_metadata="note")
    world.request(commit_of(entry), 9)
    row = OffsetRow(
        group_id="g",
        topic="t",
        partition=3,
        offset=77,
        leader_epoch=4,
        metadata="note",
        committed_at_ms=world.now_ms,
        expires_at_ms=-1,
    )
    assert [row for row in world.rows if isinstance(row, OffsetRow)] == [row]


def test_metadata_left_out_is_kept_as_empty_text() -> None:
    world = World()
    world.request(commit_of(partition(committed_metadata=None)), 9)
    assert world.group().offsets["t", 0].metadata == ""


@pytest.mark.parametrize("offset", [0, -1, -7, 2**63 - 1])
def test_any_offset_is_taken(offset: int) -> None:
    world = World()
    assert world.commit({("t", 0): offset}).part_errors == [OK]
    assert world.offsets() == {("t", 0): offset}


def test_of_a_partition_named_twice_the_last_offset_counts() -> None:
    world = World()
    answer = world.request(commit_of(partition(0, 1), partition(0, 2)), 9)
    assert answer.part_errors == [OK, OK]
    assert world.offsets() == {("t", 0): 2}


def test_a_later_commit_replaces_the_earlier_also_going_back() -> None:
    world = World()
    world.commit({("t", 0): 9, ("t", 1): 1})
    world.commit({("t", 0): 5})
    assert world.offsets() == {("t", 0): 5, ("t", 1): 1}


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4_096, OK),
        ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("é" * 4_096, OK),
        ("\N{SMILE}" * 2_048, OK),
        ("\N{GRINNING FACE}" * 2_048, OK),
        ("\N{GRINNING FACE}" * 2_049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_is_measured_in_units_of_utf_16_as_by_kafka(
    metadata: str, error: ErrorCode
) -> None:
    assert World().commit(T0, metadata=metadata).part_errors == [error]


def test_metadata_too_large_for_one_partition_leaves_the_others_stored() -> None:
    world = World(offset_metadata_max=3)
    entries = partition(0, 1, committed_metadata="long"), partition(1, 2, committed_metadata="ok")
    answer = world.request(commit_of(*entries), 9)
    assert answer.part_errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, OK]
    assert world.offsets() == {("t", 1): 2}


# -- topics ------------------------------------------------------------------------------------


def errors_of(answer: Answer) -> dict[tuple[str, int], ErrorCode]:
    """The error of each partition."""
    return {
        (topic.name, p.partition_index): ErrorCode(p.error_code)
        for topic in answer.reply.topics
        for p in topic.partitions
    }


def test_unknown_partitions_are_refused_and_the_others_stored() -> None:
    world = World()
    answer = world.commit({("t", 0): 5, ("t", 4): 1, ("t", -1): 1, ("nowhere", 0): 1})
    assert errors_of(answer) == {
        ("t", 0): OK,
        ("t", 4): NO_TOPIC,
        ("t", -1): NO_TOPIC,
        ("nowhere", 0): NO_TOPIC,
    }
    assert world.offsets() == T0


def test_a_commit_of_nothing_that_exists_makes_no_group() -> None:
    world = World()
    answer = world.commit({("nowhere", 0): 1}, generation_id_or_member_epoch=7, member_id="a")
    assert answer.part_errors == [NO_TOPIC]
    assert world.commit({}).reply.topics == ()
    assert world.state() is GroupState.DEAD


@pytest.mark.parametrize(("topic", "answered"), [("t", []), ("nowhere", ["nowhere"])])
def test_a_topic_without_partitions_is_answered_only_if_it_does_not_exist(
    topic: str, answered: list[str]
) -> None:
    answer = World().request(commit_of(topic=topic), 9)
    assert [(t.name, t.partitions) for t in answer.reply.topics] == [(n, ()) for n in answered]


def test_a_refusal_is_told_for_partitions_that_exist() -> None:
    world = World()
    member(world)
    answer = world.commit({("t", 0): 5, ("nowhere", 0): 1})
    assert errors_of(answer) == {("t", 0): UNKNOWN, ("nowhere", 0): NO_TOPIC}


# -- what is written down ----------------------------------------------------------------------


def test_the_journal_tells_who_committed_what() -> None:
    world = World()
    client = member(world)
    client.commit({("t", 0): 5, ("u", 1): 6, ("u", 9): 7})
    (committed,) = world.seen(OffsetsCommitted)
    assert (committed.member, committed.generation) == (client.id, 1)
    assert committed.offsets == {"t": {"0": 5}, "u": {"1": 6}}


def test_a_refused_commit_is_not_in_the_journal() -> None:
    world = World(offset_metadata_max=1)
    world.commit(T0, metadata="long")
    assert world.seen(OffsetsCommitted) == []


# -- commits of the same partitions again and again ------------------------------------------------


def test_the_same_commit_is_judged_anew_when_its_topic_has_grown_or_gone() -> None:
    world = World()
    last = world.table.topics["t"]
    both = {("t", 0): 5, ("t", last): 6}
    world.commit(both)
    assert world.commit(both).part_errors == [OK, NO_TOPIC]
    world.change_topic("t", "grew", last + 1)
    assert world.commit(both).part_errors == [OK, OK]
    world.change_topic("t", "deleted")
    assert world.commit(both).part_errors == [NO_TOPIC, NO_TOPIC]
    world.change_topic("t", "created", 1)
    assert world.commit(both).part_errors == [OK, NO_TOPIC]
    assert world.offsets() == {("t", 0): 5}


def test_the_same_partitions_with_other_offsets_epochs_and_metadata_are_kept_as_they_are() -> None:
    world = World()
    for number in range(6):
        topic = OffsetCommitRequestTopic(
            name="t",
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=10 * number + index,
                    committed_leader_epoch=number // 2,
                    committed_metadata="x" * (number // 3),
                )
                for index in range(2)
            ),
        )
        world.request(OffsetCommitRequest(group_id="g", topics=(topic,)), 8)
        rows = [world.group().offsets["t", index] for index in range(2)]
        assert [(row.offset, row.leader_epoch, row.metadata) for row in rows] == [
            (10 * number + index, number // 2, "x" * (number // 3)) for index in range(2)
        ]
        assert [row for row in world.rows if isinstance(row, OffsetRow)] == rows
