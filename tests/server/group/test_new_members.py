"""How long a member may be silent: before it knows that it is one, and afterwards."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone
from coterie_server.group import GroupState
from coterie_server.group.records import GroupRow
from tests.support.group_harness import Client, World

MINUTE = 60_000


def formed(world: World, *names: str, **attributes: object) -> list[Client]:
    """A stable group."""
    clients = [world.member(name, **attributes) for name in names]
    world.form(*clients)
    return clients


# -- new members -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 9])
def test_new_member_is_given_up_after_five_minutes(version: int) -> None:
    """Its client has given up long ago; the members that were there before stay."""
    world = World()
    (old,) = formed(world, "a", rebalance_ms=20 * MINUTE)
    join = world.member("b", version=version).join()
    world.live(5 * MINUTE - 1, old)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert join.reply.member_id == ""
    assert list(world.group().members) == [old.id]
    assert [gone.how for gone in world.seen(MemberGone)] == ["join_expired"]


def test_lone_new_member_in_a_long_delay() -> None:
    """It is given up, but the group waits for others until the delay is over."""
    world = World(initial_rebalance_delay_ms=8 * MINUTE)
    join = world.member("a", rebalance_ms=20 * MINUTE).join()
    world.sleep(5 * MINUTE)
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state() is GroupState.PREPARING
    world.sleep(3 * MINUTE)
    row = GroupRow(
        group_id="g",
        state="Empty",
        generation=1,
        protocol_type="consumer",
        changed_at_ms=world.now_ms,
        cause="member_joined",
        renewals=0,
    )
    assert world.rows == [row]


def test_limit_for_new_members_ends_with_the_join() -> None:
    """From then on the session timeout counts."""
    world = World()
    (member,) = formed(world, "a")
    world.live(5 * MINUTE, member)
    assert world.state() is GroupState.STABLE
    world.sleep(10_000)
    assert world.state() is GroupState.EMPTY


@pytest.mark.parametrize("syncs", [False, True])
def test_member_that_joined_and_is_silent(*, syncs: bool) -> None:
    """Once a member knows that it is one, it has its session timeout to show itself."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    if syncs:
        world.share(leader, follower)
    world.live(9_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert follower.id not in world.group().members


# -- sessions ----------------------------------------------------------------------------------


def test_silent_member_is_dropped() -> None:
    """After its session timeout a member is gone, and the others share what it had."""
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(9_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert world.state() is GroupState.PREPARING
    assert world.causes[-1] == "session_expired"
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member() -> None:
    """Each heartbeat begins the session anew."""
    world = World()
    clients = formed(world, "a", "b")
    for _ in range(5):
        world.sleep(9_999)
        assert [client.heartbeat() for client in clients] == [ErrorCode.NONE] * 2
    assert world.group().generation == 1


def test_commits_keep_a_member() -> None:
    """Whoever commits is alive."""
    world = World()
    (member,) = formed(world, "a")
    for _ in range(3):
        world.sleep(9_999)
        assert member.commit({("t", 0): 1}).part_errors == [ErrorCode.NONE]
    world.sleep(10_000)
    assert world.state() is GroupState.EMPTY


def test_heartbeats_in_the_first_phase_keep_a_member() -> None:
    """A member that is slow to join is waited for as long as it shows itself."""
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.live(30_000, follower)
    assert join.is_parked
    assert follower.id in world.group().members


def test_silence_in_the_first_phase() -> None:
    """A member that neither joins nor shows itself is dropped; that ends the phase."""
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.sleep(9_999)
    assert join.is_parked
    world.sleep(1)
    assert join.reply.generation_id == 2
    assert list(leader.roster) == [leader.id]
    assert follower.id not in world.group().members


def test_parked_join_is_as_good_as_a_heartbeat() -> None:
    """A member that waits for others does not expire."""
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.live(59_000, follower)
    assert join.is_parked
    assert leader.id in world.group().members


def test_parked_sync_is_as_good_as_a_heartbeat() -> None:
    """The same for a member that waits for the leader."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    sync = follower.sync()
    world.live(50_000, leader)
    assert sync.is_parked
    assert follower.id in world.group().members


@pytest.mark.parametrize("how", ["completed", "sent back"])
def test_session_begins_anew_with_the_answer(how: str) -> None:
    """A member that was parked for long has a whole session from when it is answered."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    sync = follower.sync()
    world.live(50_000, leader)
    if how == "completed":
        leader.sync({})
    else:
        world.member("c").join()
    assert not sync.is_parked
    world.live(9_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert follower.id not in world.group().members


def test_expiry_of_one_ends_the_first_phase() -> None:
    """If all the others have joined, nobody is left to wait for."""
    world = World()
    clients = formed(world, "a", "b", "c")
    joins = [client.join() for client in clients[:2]]
    world.sleep(10_000)
    assert [join.error for join in joins] == [ErrorCode.NONE, ErrorCode.NONE]
    assert set(clients[0].roster) == {clients[0].id, clients[1].id}


def test_leader_that_dies_in_the_second_phase() -> None:
    """Who waits for its assignment joins again, and another member leads."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    sync = follower.sync()
    world.sleep(10_000)
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.id not in world.group().members
    follower.join()
    assert follower.leads


def test_last_member_expires() -> None:
    """The group is empty, of the same type, and has used up a generation."""
    world = World()
    (member,) = formed(world, "a")
    world.sleep(10_000)
    row = world.group().row
    assert (row.state, row.generation, row.protocol_type) == ("Empty", 2, "consumer")
    assert (row.protocol_name, row.leader) == (None, None)
    assert row.changed_at_ms == world.now_ms
    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_silence_is_written_down() -> None:
    """The journal says how long a member had not been heard of, and what it had."""
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(2_000, leader, follower)
    world.live(10_000, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.how, gone.silent_ms) == (follower.id, "session_expired", 10_000)
    assert gone.session_timeout_ms == 10_000
    assert gone.owned == {"t": (1, 3)}


def test_join_is_heard() -> None:
    """A join shows that a member is there, though it does not prolong its session."""
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(4_000, leader)
    follower.join()
    world.live(6_000, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.silent_ms) == (follower.id, 6_000)


def test_time_may_jump() -> None:
    """After a long standstill everything that was due is done at once, in order."""
    world = World()
    clients = formed(world, "a", "b")
    clients[0].join()
    world.now_ms += 10 * MINUTE
    world.sleep(0)
    assert list(world.group().members) == [clients[0].id]
