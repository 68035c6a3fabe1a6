"""Static members keep their place while they are away; only the end of a session takes it."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone, PhaseJoined
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World

FENCED = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def pair(world: World, **attributes: object) -> tuple[Client, Client]:
    """A stable group of a static leader and a static follower."""
    values = {"session_ms": 60_000, "rebalance_ms": 5_000} | attributes
    leader = world.member("a", static="i1", **values)
    follower = world.member("b", static="i2", **values)
    world.form(leader, follower)
    return leader, follower


# -- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "instance", "error"),
    [
        ("i2-2", "i1", FENCED),
        ("i1-1", "i2", FENCED),
        ("made-up", "i1", FENCED),
        ("i1-1", "i9", UNKNOWN),
        ("made-up", None, UNKNOWN),
    ],
)
def test_a_wrong_pair_of_ids_is_refused_and_changes_nothing(
    member_id: str, instance: str | None, error: ErrorCode
) -> None:
    world = World()
    leader, _ = pair(world)
    given: dict[str, Any] = {"member_id": member_id, "group_instance_id": instance}
    join = leader.join_once(**given)
    assert (join.error, join.reply.member_id) == (error, member_id)
    assert leader.sync(**given).error is error
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_a_fenced_member_can_not_commit() -> None:
    world = World()
    leader, _ = pair(world)
    for member_id, error in (("", FENCED), ("made-up", FENCED), (leader.id, ErrorCode.NONE)):
        assert leader.commit({("t", 0): 1}, member_id=member_id).part_errors == [error]


# -- joining again with the right id -----------------------------------------------------------


def test_a_static_leaders_join_starts_a_rebalance() -> None:
    world = World()
    leader, follower = pair(world)
    leader.join()
    assert world.state() is GroupState.PREPARING
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unchanged_static_followers_join_is_answered_at_once() -> None:
    world = World()
    leader, follower = pair(world)
    reply = follower.join().reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)


def test_an_unchanged_join_in_the_second_phase_is_answered_and_the_sync_parked() -> None:
    world = World()
    leader, follower = world.member("a", static="i1"), world.member("b", static="i2")
    for client in (leader, follower):
        client.join()
    world.sleep(6_000)
    assert follower.join().error is ErrorCode.NONE
    assert follower.sync().is_parked
    assert leader.join().reply.members != ()


def test_a_changed_static_followers_join_starts_a_rebalance() -> None:
    world = World()
    leader, follower = pair(world)
    follower.topics = ("u",)
    join = follower.join()
    world.sleep(5_000)
    assert join.error is ErrorCode.NONE
    assert follower.leads
    assert set(follower.roster) == {leader.id, follower.id}


# -- away --------------------------------------------------------------------------------------


def test_an_absent_static_follower_is_in_the_next_generation() -> None:
    world = World()
    leader, follower = pair(world)
    join = leader.join()
    world.sleep(4_999)
    assert join.is_parked
    world.sleep(1)
    assert leader.roster == {c.id: c.subscription() for c in (leader, follower)}
    assert world.seen(MemberGone) == []


def test_the_journal_shows_who_did_not_join() -> None:
    world = World()
    leader, follower = pair(world)
    leader.join()
    world.sleep(5_000)
    phase = world.seen(PhaseJoined)[-1]
    joined = {member.member: member.joined_after_ms for member in phase.members}
    assert joined == {leader.id: 0, follower.id: None}
    assert (phase.last, phase.dropped) == (leader.id, ())


def test_absent_member_has_missed_a_generation() -> None:
    """It learns that from its next heartbeat, and can come back without another round."""
    world = World()
    leader, follower = pair(world)
    leader.join()
    world.sleep(5_000)
    leader.sync({follower: b"yours"})
    assert follower.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert follower.join().error is ErrorCode.NONE
    assert follower.sync().reply.assignment == b"yours"
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 2)


def test_an_absent_members_session_runs_on() -> None:
    world = World()
    leader, follower = pair(world)
    world.live(30_000, leader)
    leader.join()
    world.live(5_000, leader)
    leader.sync({})
    world.live(24_999, leader)
    assert follower.id in world.group().members
    world.sleep(1)
    assert follower.id not in world.group().members
    assert world.causes[-1] == "session_expired"


def test_an_expired_static_member_costs_one_rebalance_and_no_more() -> None:
    world = World()
    leader, _ = pair(world)
    world.live(60_000, leader)
    world.rejoin(leader)
    world.live(300_000, leader)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 2)


def test_a_dynamic_newcomer_leads_absent_static_members() -> None:
    world = World()
    leader, follower = pair(world)
    newcomer = world.member("c", rebalance_ms=5_000)
    newcomer.join()
    world.sleep(5_000)
    assert newcomer.leads
    assert set(newcomer.roster) == {leader.id, follower.id, newcomer.id}


def test_only_an_absent_static_member_is_left() -> None:
    """The group can't go on until a member joins: it waits, in the same generation."""
    world = World()
    leader, follower = pair(world)
    newcomer = world.member("c", rebalance_ms=5_000)
    newcomer.join()
    world.sleep(5_000)
    newcomer.sync({})
    follower.leave()
    world.live(20_000, newcomer)
    assert list(world.group().members) == [leader.id]
    assert (world.state(), world.group().generation) == (GroupState.PREPARING, 2)


@pytest.mark.parametrize("comes_back", [True, False])
def test_the_wait_for_the_last_static_member_ends_with_its_return_or_its_session(
    *, comes_back: bool
) -> None:
    world = World()
    leader, follower = pair(world)
    world.force_rebalance()
    follower.leave()
    world.sleep(20_000)
    assert world.state() is GroupState.PREPARING
    if comes_back:
        join = leader.join()
        assert join.reply.generation_id == 2
        assert leader.leads
    else:
        world.sleep(40_000)
        row = world.group().row
        assert (row.state, row.generation, row.leader) == ("Empty", 2, None)


def test_in_one_group_dynamic_members_are_dropped_and_static_ones_are_not() -> None:
    world = World()
    attributes = {"rebalance_ms": 5_000, "session_ms": 60_000}
    leader = world.member("a", **attributes)
    dynamic = world.member("b", **attributes)
    static = world.member("c", static="i1", **attributes)
    world.form(leader, dynamic, static)
    leader.join()
    world.sleep(5_000)
    assert set(leader.roster) == {leader.id, static.id}


def test_an_instance_id_is_a_name_within_a_group() -> None:
    world = World()
    first, second = world.member("a", static="i1"), world.member("b", static="i1", group="h")
    world.form(first)
    world.form(second)
    assert [c.heartbeat() for c in (first, second)] == [ErrorCode.NONE] * 2


def test_an_instance_id_is_free_when_its_member_is_gone() -> None:
    world = World()
    leader, follower = pair(world)
    follower.leave()
    world.rejoin(leader)
    newcomer = follower.restarted()
    assert newcomer.join().is_parked
    assert world.causes[-1] == "member_joined"
