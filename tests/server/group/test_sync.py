"""SyncGroup: the leader brings the assignment, each member is told its part."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import RebalanceCompleted
from coterie_protocol.messages import SyncGroupRequest, SyncGroupRequestAssignment
from coterie_server.group import GroupState
from coterie_server.group.records import MemberRow
from tests.support.group_harness import Client, World, assigned


def joined(world: World, *names: str, **attributes: object) -> list[Client]:
    """A group in the second phase."""
    clients = [world.member(name, **attributes) for name in names]
    for client in clients:
        client.join()
    world.sleep(6_000)
    assert world.state() is GroupState.COMPLETING
    return clients


# -- the assignment ----------------------------------------------------------------------------


def test_a_followers_sync_is_parked_until_the_leader_brings_the_assignment() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync()
    assert sync.is_parked
    own = leader.sync({leader: b"one", follower: b"two"})
    assert (own.reply.assignment, sync.reply.assignment) == (b"one", b"two")
    assert world.state() is GroupState.STABLE


def test_a_follower_that_comes_after_the_leader_is_answered_at_once() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    assert world.state() is GroupState.STABLE
    assert follower.sync().reply.assignment == b"two"


def test_a_member_can_ask_for_its_assignment_as_often_as_it_likes() -> None:
    world = World()
    (leader,) = joined(world, "a")
    leader.sync({leader: b"one"})
    assert [leader.sync().reply.assignment for _ in range(2)] == [b"one", b"one"]


def test_sync_that_is_answered_at_once_does_not_prolong_the_session() -> None:
    """As with Kafka's brokers, by which clients reckon: only heartbeats do."""
    world = World()
    leader, follower = joined(world, "a", "b", session_ms=10_000)
    leader.sync({leader: b"one", follower: b"two"})
    world.sleep(9_000)
    leader.heartbeat()
    assert follower.sync().error == 0
    world.sleep(2_000)
    assert follower.id not in world.group().members


def test_an_assignment_stands_for_its_whole_generation() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    assert leader.sync({leader: b"other"}).reply.assignment == b"one"
    assert follower.sync().reply.assignment == b"two"


def test_a_followers_assignments_do_not_count() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync({follower: b"all of it"})
    leader.sync({leader: b"one", follower: b"two"})
    assert sync.reply.assignment == b"two"


def test_members_that_the_leader_leaves_out_get_nothing() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    own = leader.sync({})
    for answer in (own, follower.sync()):
        assert (answer.error, answer.reply.assignment) == (ErrorCode.NONE, b"")


def test_assignments_for_strangers_are_passed_over() -> None:
    world = World()
    (leader,) = joined(world, "a")
    stranger = world.member("x", id="nobody")
    assert leader.sync({leader: b"one", stranger: b"two"}).reply.assignment == b"one"
    assert list(world.group().members) == [leader.id]


def test_of_a_member_named_twice_the_last_assignment_counts() -> None:
    world = World()
    (leader,) = joined(world, "a")
    entries = tuple(
        SyncGroupRequestAssignment(member_id=leader.id, assignment=data)
        for data in (b"one", b"two")
    )
    assert leader.sync(assignments=entries).reply.assignment == b"two"


def test_a_member_is_told_the_same_assignment_after_a_crash() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    stored = {row.member_id: row.assignment for row in world.rows if isinstance(row, MemberRow)}
    assert stored == {leader.id: b"one", follower.id: b"two"}
    world.crash()
    assert follower.sync().reply.assignment == b"two"


@pytest.mark.parametrize("version", range(6))
def test_from_version_5_on_the_answer_names_the_protocol(version: int) -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync(version=version)
    for answer in (leader.sync({}, version=version), sync):
        named = (answer.reply.protocol_type, answer.reply.protocol_name)
        assert named == ("consumer", "range")


def test_a_second_sync_replaces_the_parked_one() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    first = follower.sync()
    second = follower.sync()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.sync({follower: b"two"})
    assert second.reply.assignment == b"two"


def test_the_parked_sync_of_a_member_that_leaves_is_answered() -> None:
    world = World()
    _, follower = joined(world, "a", "b")
    sync = follower.sync()
    assert follower.leave() is ErrorCode.NONE
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_journal_has_one_line_for_an_assignment() -> None:
    world = World()
    leader, follower = joined(world, "a", "b")
    world.sleep(500)
    leader.sync({leader: assigned("t", 0), follower: assigned("t", 1, 2)})
    follower.sync()
    (completed,) = world.seen(RebalanceCompleted)
    assert completed.assigned == {leader.id: {"t": (0,)}, follower.id: {"t": (1, 2)}}
    assert (completed.generation, completed.cause) == (1, "member_joined")
    assert (completed.took_ms, completed.total_ms) == (500, 6_500)


# -- refused -----------------------------------------------------------------------------------


def test_a_sync_needs_a_group_id() -> None:
    sync = World().member("a", group="", id="a-1", protocol="range").sync()
    assert sync.error is ErrorCode.INVALID_GROUP_ID


def test_a_sync_for_an_unknown_group_finds_no_member() -> None:
    sync = World().member("a", id="a-1", protocol="range").sync()
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_has_to_name_its_protocol(field: str) -> None:
    world = World()
    (leader,) = joined(world, "a")
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert leader.sync({}, **{field: None}).error is inconsistent
    assert leader.sync({}, group_id="", **{field: None}).error is inconsistent
    assert world.state() is GroupState.COMPLETING


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_a_sync_for_another_protocol_is_refused(field: str) -> None:
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, **{field: "x"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.COMPLETING


@pytest.mark.parametrize("version", range(5))
def test_before_version_5_a_sync_need_not_name_its_protocol(version: int) -> None:
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, version=version).error is ErrorCode.NONE


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_sync_for_another_generation_changes_nothing(generation: int) -> None:
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, generation_id=generation).error is ErrorCode.ILLEGAL_GENERATION
    assert (world.state(), world.group().generation) == (GroupState.COMPLETING, 1)


def test_an_unknown_id_is_told_before_a_wrong_generation() -> None:
    world = World()
    joined(world, "a")
    stranger = world.member("x", id="nobody", generation=9, protocol="range")
    assert stranger.sync().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_sync_has_an_empty_assignment_and_no_protocol() -> None:
    message = SyncGroupRequest(group_id="g", generation_id=1, member_id="a", assignments=())
    answer = World().request(message, 4)
    reply = answer.reply
    assert (reply.protocol_type, reply.protocol_name, reply.assignment) == (None, None, b"")
