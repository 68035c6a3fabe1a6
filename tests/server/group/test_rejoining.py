"""Members that join again: when that starts a rebalance, and when the answer is known already."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World


def formed(world: World, count: int = 2, **attributes: object) -> list[Client]:
    """A stable group."""
    clients = [world.member(f"c{number}", **attributes) for number in range(count)]
    world.form(*clients)
    return clients


def joined(world: World, count: int = 2) -> list[Client]:
    """A group in the second phase."""
    clients = [world.member(f"c{number}") for number in range(count)]
    for client in clients:
        client.join()
    world.sleep(6_000)
    assert world.state() is GroupState.COMPLETING
    return clients


# -- in the second phase -----------------------------------------------------------------------


def test_an_unchanged_join_in_the_second_phase_is_answered_again() -> None:
    world = World()
    leader, follower = joined(world)
    for client, others in ((leader, 2), (follower, 0)):
        reply = client.join().reply
        assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
        assert len(reply.members) == others
    assert world.state() is GroupState.COMPLETING


def test_same_join_does_not_prolong_the_session() -> None:
    """It may be a repetition that was delayed: only heartbeats show life."""
    world = World()
    leader, follower = joined(world)
    leader.sync({})
    world.sleep(9_000)
    follower.join()
    leader.heartbeat()
    world.sleep(1_000)
    assert follower.id not in world.group().members


def test_an_unchanged_join_leaves_the_timeouts_as_they_are() -> None:
    world = World()
    _, follower = joined(world)
    follower.session_ms = 20_000
    follower.join()
    assert world.group().members[follower.id].row.session_timeout_ms == 10_000


def test_a_changed_join_in_the_second_phase_starts_another_rebalance() -> None:
    world = World()
    leader, follower = joined(world)
    follower.topics = ("u",)
    assert follower.join().is_parked
    assert world.state() is GroupState.PREPARING
    assert leader.sync({}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_parked_sync_is_sent_back_when_another_rebalance_starts() -> None:
    world = World()
    leader, follower = joined(world)
    sync = follower.sync()
    leader.topics = ("u",)
    leader.join()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sync.reply.assignment == b""


def test_the_latest_end_of_the_present_phase_can_be_asked_for() -> None:
    world = World()
    client = world.member("a")
    client.join()
    assert world.coordinator.phase_deadline(world.group()) == world.now_ms + 3_000
    world.sleep(3_000)
    assert world.state() is GroupState.COMPLETING
    assert world.coordinator.phase_deadline(world.group()) == world.now_ms + 60_000
    client.sync({})
    assert world.coordinator.phase_deadline(world.group()) is None


# -- in a stable group -------------------------------------------------------------------------


def test_a_leaders_join_in_a_stable_group_starts_a_rebalance() -> None:
    world = World()
    leader, follower = formed(world)
    assert leader.join().is_parked
    assert world.state() is GroupState.PREPARING
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_lone_leader_that_joins_again_has_its_next_generation_at_once() -> None:
    world = World()
    (leader,) = formed(world, 1)
    answer = leader.join()
    assert (answer.error, answer.reply.generation_id) == (ErrorCode.NONE, 2)


def test_an_unchanged_followers_join_is_answered_with_the_present_generation() -> None:
    world = World()
    leader, follower = formed(world)
    reply = follower.join().reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
    assert reply.members == ()
    assert world.state() is GroupState.STABLE


@pytest.mark.parametrize(
    "change", [{"topics": ("u",)}, {"protocols": ("range", "x")}, {"metadata": b"?"}]
)
def test_a_changed_followers_join_starts_a_rebalance(change: dict[str, object]) -> None:
    world = World()
    _, follower = formed(world)
    for name, value in change.items():
        setattr(follower, name, value)
    assert follower.join().is_parked
    assert world.causes[-1] == "subscription_changed"


def test_another_order_of_protocols_is_a_change() -> None:
    world = World()
    _, follower = formed(world, protocols=("x", "y"))
    follower.protocols = ("y", "x")
    assert follower.join().is_parked


def test_a_new_member_starts_a_rebalance_and_the_leader_leads_on() -> None:
    world = World()
    leader, follower = formed(world)
    newcomer = world.member("new")
    assert newcomer.join().is_parked
    assert leader.join().is_parked
    assert follower.join().error is ErrorCode.NONE
    assert leader.leads
    assert set(leader.roster) == {leader.id, follower.id, newcomer.id}
    assert {c.generation for c in (leader, follower, newcomer)} == {2}


def test_each_rebalance_adds_one_to_the_generation() -> None:
    world = World()
    clients = formed(world)
    for generation in range(2, 6):
        world.rejoin(*clients)
        assert world.group().generation == generation


# -- the first phase ---------------------------------------------------------------------------


def test_a_second_join_replaces_the_parked_one() -> None:
    world = World()
    leader, follower = formed(world)
    first = leader.join()
    second = leader.join()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.reply.member_id == leader.id
    follower.join()
    assert second.error is ErrorCode.NONE


def test_the_last_join_of_a_member_counts_in_the_next_generation() -> None:
    world = World()
    leader, follower = formed(world)
    leader.join()
    follower.topics, follower.session_ms, follower.rebalance_ms = ("u",), 20_000, 7_000
    follower.join()
    row = world.group().members[follower.id].row
    assert (row.session_timeout_ms, row.rebalance_timeout_ms) == (20_000, 7_000)
    assert leader.roster[follower.id] == follower.subscription()


def test_a_dynamic_member_that_does_not_join_in_time_is_dropped() -> None:
    world = World()
    leader, follower = formed(world, rebalance_ms=5_000)
    world.member("new", rebalance_ms=5_000).join()
    world.sleep(1_000)
    join = follower.join()
    world.live(4_000, leader)
    assert join.error is ErrorCode.NONE
    assert leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert follower.leads
    assert [gone.how for gone in world.seen(MemberGone)] == ["rebalance_expired"]


def test_the_first_phase_lasts_for_the_longest_rebalance_timeout() -> None:
    world = World()
    leader, patient = world.member("a", rebalance_ms=5_000), world.member("b", rebalance_ms=9_000)
    world.form(leader, patient)
    join = leader.join()
    world.live(8_999, patient)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_a_longer_timeout_that_comes_later_does_not_prolong_the_phase() -> None:
    world = World()
    (leader,) = formed(world, 1, rebalance_ms=5_000)
    join = world.member("new", rebalance_ms=5_000).join()
    world.member("patient", rebalance_ms=50_000).join()
    world.live(4_999, leader)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_a_leader_that_joins_in_time_leads_on() -> None:
    world = World()
    leader, follower = formed(world)
    world.member("new").join()
    follower.join()
    leader.join()
    assert world.group().row.leader == leader.id


def test_static_members_are_waited_for_again_and_again() -> None:
    """If no member joins there is none to lead: the phase goes on until one does."""
    world = World()
    first = world.member("a", static="i1", session_ms=1_000_000, rebalance_ms=5_000)
    second = world.member("b", static="i2", session_ms=1_000_000, rebalance_ms=5_000)
    world.form(first, second)
    world.force_rebalance()
    world.sleep(17_000)
    assert (world.state(), world.group().generation) == (GroupState.PREPARING, 1)
    join = second.join()
    world.sleep(2_999)
    assert join.is_parked
    world.sleep(1)
    assert join.reply.generation_id == 2
    assert second.leads
