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


def test_same_join_in_the_second_phase() -> None:
    """A member that missed the answer gets it again; only the leader is told of the others."""
    world = World()
    leader, follower = joined(world)
    for client, others in ((leader, 2), (follower, 0)):
        reply = client.join().reply
        assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
        assert len(reply.members) == others
    assert world.state() is GroupState.COMPLETING


def test_same_join_does_not_prolong_the_session() -> None:
    """It may be a repetition that was long under way: only heartbeats show life."""
    world = World()
    leader, follower = joined(world)
    leader.sync({})
    world.sleep(9_000)
    follower.join()
    leader.heartbeat()
    world.sleep(1_000)
    assert follower.id not in world.group().members


def test_same_join_leaves_the_timeouts() -> None:
    """Timeouts are taken over by joins that start or take part in a rebalance."""
    world = World()
    _, follower = joined(world)
    follower.session_ms = 20_000
    follower.join()
    assert world.group().members[follower.id].row.session_timeout_ms == 10_000


def test_changed_join_in_the_second_phase() -> None:
    """What the leader works on is out of date, so everybody joins again."""
    world = World()
    leader, follower = joined(world)
    follower.topics = ("u",)
    assert follower.join().is_parked
    assert world.state() is GroupState.PREPARING
    assert leader.sync({}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_parked_sync_is_sent_back() -> None:
    """Whoever waits for the leader hears that there is another round."""
    world = World()
    leader, follower = joined(world)
    sync = follower.sync()
    leader.topics = ("u",)
    leader.join()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert sync.reply.assignment == b""


def test_end_of_a_phase_can_be_asked_for() -> None:
    """Whoever shows a group can say until when its present phase lasts at most."""
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


def test_leader_joins_again() -> None:
    """The leader joins again when it has seen something that changes the assignment."""
    world = World()
    leader, follower = formed(world)
    assert leader.join().is_parked
    assert world.state() is GroupState.PREPARING
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_lone_leader_joins_again() -> None:
    """Nobody is waited for: the next generation is there at once."""
    world = World()
    (leader,) = formed(world, 1)
    answer = leader.join()
    assert (answer.error, answer.reply.generation_id) == (ErrorCode.NONE, 2)


def test_follower_joins_again_without_a_change() -> None:
    """It is told what is: nobody else notices."""
    world = World()
    leader, follower = formed(world)
    reply = follower.join().reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
    assert reply.members == ()
    assert world.state() is GroupState.STABLE


@pytest.mark.parametrize(
    "change", [{"topics": ("u",)}, {"protocols": ("range", "x")}, {"metadata": b"?"}]
)
def test_follower_joins_again_with_a_change(change: dict[str, object]) -> None:
    """Other topics, other protocols, other bytes: the leader has to know."""
    world = World()
    _, follower = formed(world)
    for name, value in change.items():
        setattr(follower, name, value)
    assert follower.join().is_parked
    assert world.causes[-1] == "subscription_changed"


def test_order_of_protocols_is_a_change() -> None:
    """It is how members vote."""
    world = World()
    _, follower = formed(world, protocols=("x", "y"))
    follower.protocols = ("y", "x")
    assert follower.join().is_parked


def test_new_member_starts_a_round() -> None:
    """The leader joins again and leads on; every round adds one to the generation."""
    world = World()
    leader, follower = formed(world)
    newcomer = world.member("new")
    assert newcomer.join().is_parked
    assert leader.join().is_parked
    assert follower.join().error is ErrorCode.NONE
    assert leader.leads
    assert set(leader.roster) == {leader.id, follower.id, newcomer.id}
    assert {c.generation for c in (leader, follower, newcomer)} == {2}


def test_each_round_adds_one() -> None:
    """Generations are counted without gaps."""
    world = World()
    clients = formed(world)
    for generation in range(2, 6):
        world.rejoin(*clients)
        assert world.group().generation == generation


# -- the first phase ---------------------------------------------------------------------------


def test_second_join_replaces_the_first() -> None:
    """A member waits once; the earlier request, perhaps on a dead connection, is sent back."""
    world = World()
    leader, follower = formed(world)
    first = leader.join()
    second = leader.join()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.reply.member_id == leader.id
    follower.join()
    assert second.error is ErrorCode.NONE


def test_join_in_the_first_phase_takes_the_new_word() -> None:
    """Whatever a member said last counts in the next generation."""
    world = World()
    leader, follower = formed(world)
    leader.join()
    follower.topics, follower.session_ms, follower.rebalance_ms = ("u",), 20_000, 7_000
    follower.join()
    row = world.group().members[follower.id].row
    assert (row.session_timeout_ms, row.rebalance_timeout_ms) == (20_000, 7_000)
    assert leader.roster[follower.id] == follower.subscription()


def test_member_that_does_not_join_is_dropped() -> None:
    """A dynamic member has as long as the rebalance timeout, however alive it is."""
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


def test_time_of_the_first_phase_is_that_of_the_most_patient() -> None:
    """The longest rebalance timeout counts."""
    world = World()
    leader, patient = world.member("a", rebalance_ms=5_000), world.member("b", rebalance_ms=9_000)
    world.form(leader, patient)
    join = leader.join()
    world.live(8_999, patient)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_later_patience_does_not_prolong_the_phase() -> None:
    """The time is set when the phase begins."""
    world = World()
    (leader,) = formed(world, 1, rebalance_ms=5_000)
    join = world.member("new", rebalance_ms=5_000).join()
    world.member("patient", rebalance_ms=50_000).join()
    world.live(4_999, leader)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_leader_that_joins_in_time_leads_on() -> None:
    """It need not be the first to join."""
    world = World()
    leader, follower = formed(world)
    world.member("new").join()
    follower.join()
    leader.join()
    assert world.group().row.leader == leader.id


def test_static_members_are_waited_for_again_and_again() -> None:
    """If nobody at all joins there is nobody to lead: the phase goes on until somebody does."""
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
