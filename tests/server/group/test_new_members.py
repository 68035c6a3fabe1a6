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
def test_a_new_members_parked_join_is_given_up_after_five_minutes(version: int) -> None:
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


def test_a_lone_new_member_is_given_up_within_a_long_delay() -> None:
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


def test_once_the_join_is_answered_the_session_timeout_counts() -> None:
    world = World()
    (member,) = formed(world, "a")
    world.live(5 * MINUTE, member)
    assert world.state() is GroupState.STABLE
    world.sleep(10_000)
    assert world.state() is GroupState.EMPTY


@pytest.mark.parametrize("syncs", [False, True])
def test_a_member_that_joined_has_its_session_timeout_to_show_itself(*, syncs: bool) -> None:
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


def test_a_member_silent_for_its_session_timeout_is_dropped() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(9_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert world.state() is GroupState.PREPARING
    assert world.causes[-1] == "session_expired"
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_heartbeat_begins_the_session_anew() -> None:
    world = World()
    clients = formed(world, "a", "b")
    for _ in range(5):
        world.sleep(9_999)
        assert [client.heartbeat() for client in clients] == [ErrorCode.NONE] * 2
    assert world.group().generation == 1


def test_a_commit_begins_the_session_anew() -> None:
    world = World()
    (member,) = formed(world, "a")
    for _ in range(3):
        world.sleep(9_999)
        assert member.commit({("t", 0): 1}).part_errors == [ErrorCode.NONE]
    world.sleep(10_000)
    assert world.state() is GroupState.EMPTY


def test_a_member_slow_to_join_is_waited_for_while_it_sends_heartbeats() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.live(30_000, follower)
    assert join.is_parked
    assert follower.id in world.group().members


def test_a_member_that_is_silent_in_the_first_phase_is_dropped_which_ends_it() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.sleep(9_999)
    assert join.is_parked
    world.sleep(1)
    assert join.reply.generation_id == 2
    assert list(leader.roster) == [leader.id]
    assert follower.id not in world.group().members


def test_a_member_whose_join_is_parked_does_not_expire() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    join = leader.join()
    world.live(59_000, follower)
    assert join.is_parked
    assert leader.id in world.group().members


def test_a_member_whose_sync_is_parked_does_not_expire() -> None:
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
def test_the_session_begins_anew_when_a_parked_request_is_answered(how: str) -> None:
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


def test_the_expiry_of_the_last_awaited_member_ends_the_first_phase() -> None:
    world = World()
    clients = formed(world, "a", "b", "c")
    joins = [client.join() for client in clients[:2]]
    world.sleep(10_000)
    assert [join.error for join in joins] == [ErrorCode.NONE, ErrorCode.NONE]
    assert set(clients[0].roster) == {clients[0].id, clients[1].id}


def test_when_the_leader_dies_in_the_second_phase_another_one_leads() -> None:
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


def test_when_the_last_member_expires_the_group_keeps_its_type() -> None:
    world = World()
    (member,) = formed(world, "a")
    world.sleep(10_000)
    row = world.group().row
    assert (row.state, row.generation, row.protocol_type) == ("Empty", 2, "consumer")
    assert (row.protocol_name, row.leader) == (None, None)
    assert row.changed_at_ms == world.now_ms
    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_journal_tells_how_long_a_member_was_silent_and_what_it_had() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(2_000, leader, follower)
    world.live(10_000, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.how, gone.silent_ms) == (follower.id, "session_expired", 10_000)
    assert gone.session_timeout_ms == 10_000
    assert gone.owned == {"t": (1, 3)}


def test_a_join_is_a_sign_of_life_but_does_not_prolong_the_session() -> None:
    world = World()
    leader, follower = formed(world, "a", "b")
    world.live(4_000, leader)
    follower.join()
    world.live(6_000, leader)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.silent_ms) == (follower.id, 6_000)


def test_after_a_long_standstill_all_that_was_due_is_done_in_order() -> None:
    world = World()
    clients = formed(world, "a", "b")
    clients[0].join()
    world.now_ms += 10 * MINUTE
    world.sleep(0)
    assert list(world.group().members) == [clients[0].id]
