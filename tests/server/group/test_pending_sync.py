"""Members that joined a generation and do not ask what they are given."""

from __future__ import annotations

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone, RebalanceStarted
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World


def joined(world: World, *clients: Client) -> None:
    """Let clients join an empty group."""
    for client in clients:
        client.join()
    world.sleep(0)
    assert world.state() is GroupState.COMPLETING


def patient(world: World, *names: str, **attributes: object) -> list[Client]:
    """Clients with a short time to rebalance and a long session."""
    return [
        world.member(name, rebalance_ms=5_000, session_ms=60_000, **attributes) for name in names
    ]


def test_members_that_do_not_sync_are_gone_though_they_send_heartbeats() -> None:
    world = World(initial_rebalance_delay_ms=0)
    clients = patient(world, "a", "b")
    joined(world, *clients)
    world.live(4_999, *clients)
    assert world.state() is GroupState.COMPLETING
    world.sleep(1)
    assert (world.state(), world.group().generation) == (GroupState.EMPTY, 2)
    assert [client.heartbeat() for client in clients] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert [gone.how for gone in world.seen(MemberGone)] == ["sync_expired"] * 2


def test_followers_that_do_not_sync_are_lost_to_a_stable_group() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a", "b")
    joined(world, leader, follower)
    leader.sync({})
    world.sleep(4_999)
    assert world.state() is GroupState.STABLE
    world.sleep(1)
    assert world.state() is GroupState.PREPARING
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_sync_is_dropped_and_the_others_join_again() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a", "b")
    joined(world, leader, follower)
    sync = follower.sync()
    world.sleep(5_000)
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(world.group().members) == [follower.id]
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_nothing_happens_at_the_deadline_if_all_have_synced() -> None:
    world = World(initial_rebalance_delay_ms=0)
    clients = patient(world, "a", "b")
    joined(world, *clients)
    world.share(*clients)
    world.live(10_000, *clients)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_each_generation_has_its_own_time_to_sync() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a", "b")
    joined(world, leader, follower)
    world.sleep(4_000)
    newcomer = world.member("c", rebalance_ms=5_000, session_ms=60_000)
    newcomer.join()
    leader.join()
    follower.join()
    assert world.state() is GroupState.COMPLETING
    world.sleep(4_999)
    assert world.state() is GroupState.COMPLETING
    world.sleep(1)
    assert world.state() is GroupState.EMPTY


def test_member_that_leaves_is_not_waited_for() -> None:
    """When all that remain have synced, the deadline is void."""
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a", "b")
    joined(world, leader, follower)
    leader.sync({})
    follower.leave()
    world.rejoin(leader)
    world.live(10_000, leader)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 2)


# -- static members ----------------------------------------------------------------------------


def test_a_static_follower_that_does_not_sync_keeps_its_place() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a")[0], patient(world, "b", static="i1")[0]
    joined(world, leader, follower)
    leader.sync({})
    world.live(20_000, leader)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)
    assert follower.id in world.group().members


def test_a_static_leader_that_does_not_sync_keeps_its_place_and_another_leads() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, follower = patient(world, "a", static="i1")[0], patient(world, "b")[0]
    joined(world, leader, follower)
    sync = follower.sync()
    world.sleep(5_000)
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group().row.leader == follower.id
    leader.join()
    follower.join()
    assert follower.leads
    assert set(follower.roster) == {leader.id, follower.id}


def test_a_lone_static_member_that_does_not_sync_is_waited_for_until_its_session_ends() -> None:
    world = World(initial_rebalance_delay_ms=0)
    (lone,) = patient(world, "a", static="i1")
    joined(world, lone)
    world.sleep(59_999)
    assert world.state() is GroupState.PREPARING
    world.sleep(1)
    assert (world.state(), world.group().generation) == (GroupState.EMPTY, 2)


def test_a_static_member_that_was_away_owes_no_sync() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader = world.member("a", rebalance_ms=5_000)
    away = world.member("b", rebalance_ms=5_000, session_ms=600_000, static="i1")
    world.form(leader, away)
    leader.join()
    world.live(5_000, leader)
    leader.join()
    leader.sync({})
    world.live(60_000, leader)
    assert world.state() is GroupState.STABLE
    assert away.id in world.group().members
    assert world.group().generation == 2


def test_a_replaced_static_members_sync_is_awaited_under_its_new_id() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, old = patient(world, "a")[0], patient(world, "b", static="i1")[0]
    joined(world, leader, old)
    leader.sync({})
    new = old.restarted()
    assert new.join().error is ErrorCode.NONE
    assert world.group().pending_syncs == {new.id}
    new.sync()
    world.live(20_000, leader, new)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_a_mixed_group_loses_only_its_dynamic_members() -> None:
    world = World(initial_rebalance_delay_ms=0)
    leader, dynamic = patient(world, "a", "b")
    static = patient(world, "c", static="i1")[0]
    joined(world, leader, dynamic, static)
    leader.sync({})
    world.live(5_000, leader)
    assert set(world.group().members) == {leader.id, static.id}
    started = world.seen(RebalanceStarted)[-1]
    assert started.cause == "sync_expired"
    assert dynamic.id in started.detail
