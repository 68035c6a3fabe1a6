"""SyncGroup: the leader brings the assignment, everybody is told their part."""

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


def test_follower_before_leader() -> None:
    """A follower's sync is parked and answered with its part when the leader brings it."""
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync()
    assert sync.is_parked
    own = leader.sync({leader: b"one", follower: b"two"})
    assert (own.reply.assignment, sync.reply.assignment) == (b"one", b"two")
    assert world.state() is GroupState.STABLE


def test_follower_after_leader() -> None:
    """A follower that is late is answered at once."""
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    assert world.state() is GroupState.STABLE
    assert follower.sync().reply.assignment == b"two"


def test_assignment_can_be_asked_for_again() -> None:
    """As often as a member likes."""
    world = World()
    (leader,) = joined(world, "a")
    leader.sync({leader: b"one"})
    assert [leader.sync().reply.assignment for _ in range(2)] == [b"one", b"one"]


def test_leaders_second_word_does_not_count() -> None:
    """An assignment stands for its whole generation."""
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    assert leader.sync({leader: b"other"}).reply.assignment == b"one"
    assert follower.sync().reply.assignment == b"two"


def test_followers_word_does_not_count() -> None:
    """Only the leader assigns."""
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync({follower: b"all of it"})
    leader.sync({leader: b"one", follower: b"two"})
    assert sync.reply.assignment == b"two"


def test_members_that_the_leader_leaves_out() -> None:
    """Whoever is not mentioned gets nothing, the leader itself too; that is no error."""
    world = World()
    leader, follower = joined(world, "a", "b")
    own = leader.sync({})
    for answer in (own, follower.sync()):
        assert (answer.error, answer.reply.assignment) == (ErrorCode.NONE, b"")


def test_members_that_do_not_exist() -> None:
    """What the leader brings for others than the members is passed over."""
    world = World()
    (leader,) = joined(world, "a")
    stranger = world.member("x", id="nobody")
    assert leader.sync({leader: b"one", stranger: b"two"}).reply.assignment == b"one"
    assert list(world.group().members) == [leader.id]


def test_member_named_twice() -> None:
    """The last word counts."""
    world = World()
    (leader,) = joined(world, "a")
    entries = tuple(
        SyncGroupRequestAssignment(member_id=leader.id, assignment=data)
        for data in (b"one", b"two")
    )
    assert leader.sync(assignments=entries).reply.assignment == b"two"


def test_assignment_is_stored_before_it_is_told() -> None:
    """What a member was told, it is told again after a crash."""
    world = World()
    leader, follower = joined(world, "a", "b")
    leader.sync({leader: b"one", follower: b"two"})
    stored = {row.member_id: row.assignment for row in world.rows if isinstance(row, MemberRow)}
    assert stored == {leader.id: b"one", follower.id: b"two"}
    world.crash()
    assert follower.sync().reply.assignment == b"two"


@pytest.mark.parametrize("version", range(6))
def test_shape_of_an_answer(version: int) -> None:
    """From version 5 on the answer says which protocol it is of, to everybody."""
    world = World()
    leader, follower = joined(world, "a", "b")
    sync = follower.sync(version=version)
    for answer in (leader.sync({}, version=version), sync):
        named = (answer.reply.protocol_type, answer.reply.protocol_name)
        assert named == ("consumer", "range")


def test_second_sync_replaces_the_first() -> None:
    """A member waits once; the earlier request, perhaps on a dead connection, is sent back."""
    world = World()
    leader, follower = joined(world, "a", "b")
    first = follower.sync()
    second = follower.sync()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.sync({follower: b"two"})
    assert second.reply.assignment == b"two"


def test_member_that_leaves_while_its_sync_is_parked() -> None:
    """Its request is answered: it is no member any more."""
    world = World()
    _, follower = joined(world, "a", "b")
    sync = follower.sync()
    assert follower.leave() is ErrorCode.NONE
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_completed_rebalance_is_written_down() -> None:
    """The journal has one line for an assignment, with who was given what."""
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


def test_empty_group_id() -> None:
    """A sync needs a group."""
    sync = World().member("a", group="", id="a-1", protocol="range").sync()
    assert sync.error is ErrorCode.INVALID_GROUP_ID


def test_unknown_group() -> None:
    """Nobody is a member of a group that does not exist."""
    sync = World().member("a", id="a-1", protocol="range").sync()
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_protocol_left_out(field: str) -> None:
    """From version 5 on a sync says which protocol it means, even to a group that is not there."""
    world = World()
    (leader,) = joined(world, "a")
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert leader.sync({}, **{field: None}).error is inconsistent
    assert leader.sync({}, group_id="", **{field: None}).error is inconsistent
    assert world.state() is GroupState.COMPLETING


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_other_protocol(field: str) -> None:
    """A sync that means another protocol than the one chosen is out of date."""
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, **{field: "x"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() is GroupState.COMPLETING


@pytest.mark.parametrize("version", range(5))
def test_protocol_left_out_before_version_5(version: int) -> None:
    """Older clients do not say it, and need not."""
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, version=version).error is ErrorCode.NONE


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_other_generation(generation: int) -> None:
    """A sync for another generation changes nothing."""
    world = World()
    (leader,) = joined(world, "a")
    assert leader.sync({}, generation_id=generation).error is ErrorCode.ILLEGAL_GENERATION
    assert (world.state(), world.group().generation) == (GroupState.COMPLETING, 1)


def test_id_is_looked_at_before_the_generation() -> None:
    """A stranger is told that it is one, whatever else is wrong."""
    world = World()
    joined(world, "a")
    stranger = world.member("x", id="nobody", generation=9, protocol="range")
    assert stranger.sync().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_shape_of_a_refusal() -> None:
    """A refusal has an empty assignment, never none, and no protocol."""
    message = SyncGroupRequest(group_id="g", generation_id=1, member_id="a", assignments=())
    answer = World().request(message, 4)
    reply = answer.reply
    assert (reply.protocol_type, reply.protocol_name, reply.assignment) == (None, None, b"")
