"""Ids that were handed out and whose owners have not come back yet."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import IdUnclaimed, RebalanceStarted
from coterie_protocol.messages import LeaveGroupRequest, MemberIdentity
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World


def going_on(world: World) -> tuple[Client, Client, Client]:
    """Two members, one of which has joined again, and one who was just told its id."""
    first, second, ghost = world.member("a"), world.member("b"), world.member("ghost")
    world.form(first, second)
    ghost.join_once()
    assert first.join().is_parked
    return first, second, ghost


def test_an_unused_id_is_forgotten_after_its_session_timeout() -> None:
    world = World()
    client = world.member("a", session_ms=7_000)
    client.join_once()
    world.sleep(6_999)
    assert world.group().pending_joins == {client.id}
    world.sleep(1)
    assert world.group().pending_joins == set()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_phase_waits_for_a_pending_id() -> None:
    world = World()
    _, second, _ = going_on(world)
    assert second.join().is_parked
    assert world.state() is GroupState.PREPARING


def test_a_pending_id_that_joins_ends_the_first_phase() -> None:
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    assert ghost.join_once().error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id, ghost.id}


def test_a_pending_id_that_expires_ends_the_first_phase() -> None:
    world = World()
    first, second, _ = going_on(world)
    join = second.join()
    world.sleep(9_999)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}


def test_a_pending_id_that_leaves_ends_the_first_phase() -> None:
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    assert ghost.leave() is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}


def test_a_pending_id_is_not_waited_for_beyond_the_rebalance_timeout() -> None:
    world = World()
    first, second, _ = going_on(world)
    slow = world.member("slow", session_ms=1_000_000)
    slow.join_once()
    join = second.join()
    world.sleep(60_000)
    assert join.error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}
    assert world.group().pending_joins == {slow.id}


def test_an_unused_id_starts_no_rebalance_of_a_stable_group() -> None:
    world = World()
    first = world.member("a")
    world.form(first)
    world.member("ghost").join_once()
    world.live(20_000, first)
    assert world.group().pending_joins == set()
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_an_id_given_back_starts_no_rebalance_of_a_stable_group() -> None:
    world = World()
    first, ghost = world.member("a"), world.member("ghost")
    world.form(first)
    ghost.join_once()
    assert ghost.leave() is ErrorCode.NONE
    assert world.state() is GroupState.STABLE
    assert world.group().pending_joins == set()


@pytest.mark.parametrize("how", ["expires", "leaves"])
def test_an_unused_id_is_in_the_journal(how: str) -> None:
    world = World()
    _, _, ghost = going_on(world)
    if how == "leaves":
        ghost.leave()
    else:
        world.sleep(10_000)
    assert [(e.group, e.member) for e in world.seen(IdUnclaimed)] == [("g", ghost.id)]


def test_with_a_pending_id_a_client_can_only_join() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    assert client.heartbeat(generation_id=0) is ErrorCode.UNKNOWN_MEMBER_ID
    sync = client.sync(generation_id=0, protocol_name="range")
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID
    commit = client.commit({("t", 0): 1}, generation_id_or_member_epoch=0)
    assert commit.part_errors == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_with_nothing_but_pending_ids_is_shown_as_empty() -> None:
    world = World()
    world.member("a").join_once()
    described = world.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")
    assert described.members == ()


def test_a_refused_join_keeps_the_id_pending() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    refused = client.join_once(protocols=())
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group().pending_joins == {client.id}
    assert client.join_once().is_parked
    assert world.group().pending_joins == set()


def test_the_ids_own_deadline_ends_with_the_join() -> None:
    world = World(initial_rebalance_delay_ms=20_000)
    client = world.member("a", session_ms=6_000)
    join = client.join()
    world.sleep(19_999)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_a_pending_id_and_a_member_leave_in_one_step() -> None:
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    members = tuple(MemberIdentity(member_id=client.id) for client in (ghost, second))
    answer = world.request(LeaveGroupRequest(group_id="g", members=members), 5)
    assert answer.part_errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.group().generation == 2
    assert set(first.roster) == {first.id}
    assert len(world.seen(RebalanceStarted)) == 2


def test_a_deleted_group_forgets_its_pending_ids() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    world.delete("g")
    world.member("b").join()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_ids_are_forgotten_in_a_crash() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    world.crash()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID
    client.id = ""
    assert client.join().is_parked
