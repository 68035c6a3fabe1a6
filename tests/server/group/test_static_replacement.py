"""A static member comes back in a new process: it joins with its instance id and no member id."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberReplaced, RebalanceStarted
from coterie_server.group import GroupState
from coterie_server.group.records import MemberRow
from tests.server.group.ownership import bring, claims
from tests.support.group_harness import Client, World, assigned
from tests.support.warm_groups import ordered, report, reported

FENCED = ErrorCode.FENCED_INSTANCE_ID


def pair(world: World, **attributes: object) -> tuple[Client, Client]:
    """A stable group of a static leader and a static follower."""
    leader = world.member("a", static="i1", **attributes)
    follower = world.member("b", static="i2", **attributes)
    world.form(leader, follower)
    return leader, follower


def stored_members(world: World) -> dict[str, MemberRow]:
    """The members on disk."""
    return {row.member_id: row for row in world.rows if isinstance(row, MemberRow)}


# -- in a stable group -------------------------------------------------------------------------


def test_a_static_follower_that_comes_back_is_answered_without_a_rebalance() -> None:
    world = World()
    leader, old = pair(world)
    new = old.restarted()
    reply = new.join().reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
    assert (reply.members, reply.skip_assignment) == ((), False)
    assert new.sync().reply.assignment == assigned("t", 1, 3)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_since_version_9_a_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    world = World()
    old, follower = pair(world)
    new = old.restarted()
    reply = new.join().reply
    assert reply.leader == new.id
    assert {member.member_id for member in reply.members} == {new.id, follower.id}
    assert reply.skip_assignment is True
    assert world.group().row.leader == new.id


@pytest.mark.parametrize("version", [5, 7, 8])
def test_leader_comes_back_before_version_9(version: int) -> None:
    """It must not learn that it leads, or it would send an assignment that nothing asked for."""
    world = World()
    old, _ = pair(world)
    new = old.restarted(version=version)
    reply = new.join().reply
    assert (reply.leader, reply.members, reply.skip_assignment) == (old.id, (), False)
    assert world.group().row.leader == new.id
    assert world.state() is GroupState.STABLE


def test_the_former_process_is_fenced() -> None:
    world = World()
    _, old = pair(world)
    old.restarted().join()
    join = old.join_once()
    assert (join.error, join.reply.member_id) == (FENCED, old.id)
    assert join.reply.protocol_name is None
    assert old.sync().error is FENCED
    assert old.heartbeat() is FENCED
    assert old.leave() is FENCED
    assert old.commit({("t", 0): 1}).part_errors == [FENCED]
    assert old.sync(group_instance_id=None).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_return_has_another_id() -> None:
    world = World()
    _, old = pair(world)
    ids = {old.id}
    for _ in range(3):
        old = old.restarted()
        old.join()
        ids.add(old.id)
    assert len(ids) == 4
    assert len(world.group().members) == 2


def test_the_replacement_survives_a_crash() -> None:
    world = World()
    _, old = pair(world)
    times = {"session_ms": 20_000, "rebalance_ms": 7_000}
    new = old.restarted(host="/10.0.0.8", owned=[("t", 1)], **times)
    new.join()
    row = stored_members(world)[new.id]
    assert old.id not in stored_members(world)
    assert (row.client_host, row.session_timeout_ms, row.rebalance_timeout_ms) == (
        "/10.0.0.8",
        20_000,
        7_000,
    )
    assert row.protocols[0].metadata == new.subscription()
    assert row.assignment == assigned("t", 1, 3)
    world.crash()
    assert new.heartbeat() is ErrorCode.NONE


def test_a_member_that_comes_back_for_other_topics_starts_one_rebalance() -> None:
    world = World()
    leader, old = pair(world)
    new = old.restarted(topics=("u",))
    assert new.join().is_parked
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.causes[-1] == "subscription_changed"
    world.rejoin(leader)
    assert world.state() is GroupState.STABLE
    assert world.group().topics() == frozenset({"t", "u"})


def test_other_bytes_for_the_same_topics_start_no_rebalance() -> None:
    world = World()
    leader, old = pair(world)
    new = old.restarted(metadata=b"?")
    assert new.join().error is ErrorCode.NONE
    described = {member.member_id: member for member in world.describe().members}
    assert described[new.id].member_metadata == b"?"
    assert leader.heartbeat() is ErrorCode.NONE


def test_protocols_that_change_the_vote_start_a_rebalance_and_the_leader_leads_on() -> None:
    world = World()
    old, follower = pair(world, protocols=("x", "y"))
    new = old.restarted(protocols=("y",))
    assert new.join().is_parked
    assert world.causes[-1] == "static_replaced"
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    follower.join()
    assert new.leads
    assert new.protocol == "y"


def test_a_lone_member_that_changes_the_vote_is_answered_once_in_the_next_generation() -> None:
    world = World()
    old = world.member("a", static="i1", protocols=("x", "y"))
    world.form(old)
    new = old.restarted(protocols=("y",))
    reply = new.join().reply
    assert (reply.generation_id, reply.protocol_name) == (2, "y")
    assert world.state() is GroupState.COMPLETING


def test_protocols_that_do_not_change_the_vote_start_no_rebalance() -> None:
    world = World()
    _, old = pair(world, protocols=("x", "y"))
    new = old.restarted(protocols=("x", "z"))
    assert new.join().error is ErrorCode.NONE
    assert world.state() is GroupState.STABLE


def test_a_process_whose_protocols_do_not_fit_is_refused_and_the_old_one_stays() -> None:
    world = World()
    _, old = pair(world)
    refused = old.restarted(protocols=("z",)).join()
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert old.heartbeat() is ErrorCode.NONE


def test_the_new_process_has_a_session_of_its_own() -> None:
    world = World()
    leader, old = pair(world)
    world.live(9_000, leader)
    new = old.restarted(session_ms=20_000)
    new.join()
    world.live(19_999, leader)
    assert new.id in world.group().members
    world.sleep(1)
    assert new.id not in world.group().members


def test_the_journal_tells_who_replaced_whom() -> None:
    world = World()
    leader, old = pair(world)
    world.live(5_000, leader)
    new = old.restarted(host="/10.0.0.8")
    new.join()
    (replaced,) = world.seen(MemberReplaced)
    assert (replaced.instance, replaced.member, replaced.host) == ("i2", new.id, "/10.0.0.8")
    assert (replaced.former_member, replaced.former_host) == (old.id, "/10.0.0.1")
    assert replaced.silent_ms == 5_000


# -- in the first phase ------------------------------------------------------------------------


def test_the_former_processs_parked_join_is_fenced() -> None:
    world = World()
    leader, old = pair(world)
    world.force_rebalance()
    waiting = old.join()
    new = old.restarted()
    join = new.join()
    assert (waiting.error, waiting.reply.member_id) == (FENCED, old.id)
    assert (waiting.reply.generation_id, waiting.reply.leader) == (-1, "")
    assert join.is_parked
    leader.join()
    assert set(leader.roster) == {leader.id, new.id}


def test_the_process_that_comes_last_has_the_place() -> None:
    world = World()
    leader, old = pair(world)
    world.force_rebalance()
    new = old.restarted()
    new.join()
    assert old.join_once().error is FENCED
    leader.join()
    assert set(leader.roster) == {leader.id, new.id}


def test_the_return_of_the_last_awaited_member_ends_the_first_phase() -> None:
    world = World()
    leader, old = pair(world)
    join = leader.join()
    new = old.restarted()
    assert new.join().error is ErrorCode.NONE
    assert join.reply.generation_id == 2


def test_place_outlives_a_crash_in_the_first_phase() -> None:
    world = World()
    leader, old = pair(world)
    world.member("c", version=3).join()
    old.restarted(topics=("u",)).join()
    new_id = world.group().static["i2"]
    world.crash()
    assert set(stored_members(world)) == {leader.id, new_id}
    assert stored_members(world)[new_id].protocols[0].metadata == old.subscription()
    assert world.group().static["i2"] == new_id


def test_a_replaced_new_member_waits_as_long_as_its_predecessor() -> None:
    world = World()
    leader = world.member("a", session_ms=60_000, rebalance_ms=100_000)
    world.form(leader)
    first = world.member("b", static="i2", session_ms=6_000)
    first.join()
    again = first.restarted().join()
    world.live(50_000, leader)
    assert again.is_parked
    leader.join()
    world.sleep(10_000)
    assert again.error is ErrorCode.NONE


# -- in the second phase -----------------------------------------------------------------------


def completing(world: World) -> tuple[Client, Client]:
    """A static leader and a static follower that have joined and not synced."""
    leader, follower = world.member("a", static="i1"), world.member("b", static="i2")
    leader.join()
    follower.join()
    world.sleep(6_000)
    assert world.state() is GroupState.COMPLETING
    return leader, follower


def test_parked_sync_of_the_old_process() -> None:
    """It is refused; the leader had the old id in its list, so there is another round."""
    world = World()
    leader, old = completing(world)
    sync = old.sync()
    new = old.restarted()
    assert new.join().is_parked
    assert sync.error is FENCED
    assert world.causes[-1] == "static_replaced"
    assert leader.sync({old: b"lost"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    leader.sync({new: b"yours"})
    assert new.sync().reply.assignment == b"yours"


def test_a_return_in_the_second_phase_sends_parked_syncs_back() -> None:
    world = World()
    leader, follower = completing(world)
    sync = follower.sync()
    new = leader.restarted()
    new.join()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_lone_member_that_comes_back_in_the_second_phase_is_answered_at_once() -> None:
    world = World()
    old = world.member("a", static="i1")
    old.join()
    world.sleep(3_000)
    new = old.restarted()
    assert new.join().reply.generation_id == 2
    assert new.leads


# -- in the middle of a cooperative rebalance ----------------------------------------------------


def between_rounds(world: World, **given_to: tuple[int, ...]) -> Client:
    """A static member that claimed partitions 1 and 3, and was given what it is to keep."""
    protocols = ("cooperative-sticky",)
    leader = world.member("leader", protocols=protocols)
    static = world.member("static", static="i1", protocols=protocols)
    world.form(leader, static)
    claims(leader, 0, 2)
    claims(static, 1, 3)
    leader.join()
    static.join()
    bring(leader, {leader: given_to["leader"], static: given_to["static"]})
    return static


def test_restart_before_it_has_given_up_a_partition_starts_the_round_for_that() -> None:
    """No other member knows that it waits for anything."""
    world = World()
    static = between_rounds(world, leader=(0, 2), static=(1,))
    assert static.restarted(owned=()).join().is_parked
    assert world.causes[-1] == "revocation_follow_up"


def test_restart_when_all_partitions_have_owners_starts_none() -> None:
    world = World()
    static = between_rounds(world, leader=(0, 2, 3), static=(1,))
    assert static.restarted(owned=()).join().error is ErrorCode.NONE


# -- its state ---------------------------------------------------------------------------------


def kept_by_another(world: World, number: int = 1) -> Client:
    """The static owner of partition 1, where another member keeps a copy of one partition."""
    leader, owner, keeper = (
        world.member(name, static=static, metadata=reported(report({})))
        for name, static in (("leader", None), ("owner", "i1"), ("keeper", None))
    )
    for client in (leader, owner, keeper):
        client.join()
    world.sleep(9_000)
    plan = {leader: ordered((0,)), owner: ordered((1,)), keeper: ordered((2,), (number,))}
    assert leader.sync(plan).error is ErrorCode.NONE
    owner.sync()
    keeper.sync()
    return owner


@pytest.mark.parametrize("lags", [{}, {1: -3}, {0: 5}])
def test_one_that_has_lost_its_state_is_not_left_cold_beside_a_copy(lags: dict[int, int]) -> None:
    world = World()
    owner = kept_by_another(world)
    assert owner.restarted(metadata=reported(report(lags))).join().is_parked
    started = world.seen(RebalanceStarted)[-1]
    assert (started.cause, started.follows) == ("static_replaced", None)
    assert "keep copies of state that it no longer has" in started.detail


@pytest.mark.parametrize("lag", [0, 1_234_567])
def test_one_that_has_its_state_goes_on_in_place(lag: int) -> None:
    world = World()
    owner = kept_by_another(world)
    assert owner.restarted(metadata=reported(report({1: lag}))).join().error is ErrorCode.NONE


def test_one_without_state_goes_on_in_place_where_no_other_keeps_a_copy() -> None:
    world = World()
    owner = kept_by_another(world, number=0)
    assert owner.restarted(metadata=reported(report({}))).join().error is ErrorCode.NONE


def test_one_that_needs_no_state_any_more_goes_on_in_place() -> None:
    world = World()
    owner = kept_by_another(world)
    assert owner.restarted(metadata=None, topics=("t",)).join().error is ErrorCode.NONE
