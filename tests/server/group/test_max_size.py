"""`group.max.size`: how many get in, and who has to go."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def clients(world: World, count: int, *, static: bool = False, version: int = 9) -> list[Client]:
    """So many clients."""
    return [
        world.member(f"c{n}", version=version, static=f"i{n}" if static else None)
        for n in range(count)
    ]


def test_the_join_beyond_the_limit_is_refused_and_gets_no_id() -> None:
    world = World(max_size=3)
    joins = [client.join() for client in clients(world, 4, version=3)]
    assert [join.is_parked for join in joins] == [True, True, True, False]
    assert joins[3].error is FULL
    assert joins[3].reply.member_id == ""


def test_ids_do_not_count_but_the_last_to_use_one_finds_no_place() -> None:
    world = World(max_size=2)
    members = clients(world, 3)
    for client in members:
        assert client.join_once().error is ErrorCode.MEMBER_ID_REQUIRED
    joins = [client.join_once() for client in members]
    assert [join.is_parked for join in joins] == [True, True, False]
    assert joins[2].error is FULL
    assert world.group().pending_joins == set()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("state", [GroupState.COMPLETING, GroupState.STABLE])
def test_members_of_a_full_group_may_join_again_and_strangers_may_not(
    state: GroupState, *, static: bool
) -> None:
    world = World(max_size=2)
    members = clients(world, 2, static=static)
    for member in members:
        member.join()
    world.sleep(6_000)
    if state is GroupState.STABLE:
        world.share(*members)
    stranger = world.member("x", static="ix" if static else None)
    assert stranger.join().error is FULL
    assert members[1].join().error is ErrorCode.NONE
    assert world.state() is state


def test_a_member_whose_join_is_parked_keeps_its_place() -> None:
    world = World(max_size=2)
    members = clients(world, 3)
    joins = [client.join() for client in members]
    assert joins[2].error is FULL
    assert members[0].join().is_parked
    assert members[2].join().error is not ErrorCode.NONE


def test_a_static_member_comes_back_into_a_full_group() -> None:
    world = World(max_size=2)
    members = clients(world, 2, static=True)
    world.form(*members)
    assert members[1].restarted().join().error is ErrorCode.NONE


def test_a_static_member_comes_back_in_the_first_phase_of_a_full_group() -> None:
    world = World(max_size=2)
    members = clients(world, 2, static=True)
    world.form(*members)
    members[0].join()
    assert world.state() is GroupState.PREPARING
    assert members[0].restarted().join().is_parked
    back = members[1].restarted().join()
    assert back.error is ErrorCode.NONE
    assert len(world.group().members) == 2


def lowered(world: World, members: list[Client]) -> None:
    """Start again with room for two only."""
    world.form(*members)
    world.crash(max_size=2)


def test_a_group_read_back_too_large_rebalances_and_drops_nobody_yet() -> None:
    world = World()
    members = clients(world, 3)
    lowered(world, members)
    assert world.state() is GroupState.PREPARING
    assert world.causes[-1] == "over_capacity"
    assert len(world.group().members) == 3
    assert members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_first_to_join_again_stay_and_the_rest_are_turned_away() -> None:
    world = World()
    members = clients(world, 4)
    lowered(world, members)
    joins = [member.join() for member in reversed(members)]
    assert [join.error for join in joins] == [ErrorCode.NONE, ErrorCode.NONE, FULL, FULL]
    assert set(world.group().members) == {members[3].id, members[2].id}
    assert [gone.how for gone in world.seen(MemberGone)] == ["turned_away", "turned_away"]


def test_a_limit_lowered_in_the_second_phase_counts_as_well() -> None:
    world = World()
    for client in clients(world, 3):
        client.join()
    world.sleep(6_000)
    assert world.state() is GroupState.COMPLETING
    world.crash(max_size=2)
    assert world.state() is GroupState.PREPARING


def test_a_group_read_back_at_exactly_the_limit_is_left_alone() -> None:
    world = World()
    world.form(*clients(world, 2))
    world.crash(max_size=2)
    assert world.state() is GroupState.STABLE


def test_an_empty_group_always_takes_the_first_member() -> None:
    assert World(max_size=1).member("a").join().is_parked


def test_pending_ids_are_bounded_until_they_expire() -> None:
    world = World(max_pending_members=3)
    ids = [client.join_once() for client in clients(world, 4)]
    assert [answer.error for answer in ids] == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [FULL]
    world.sleep(10_000)
    assert world.member("x").join_once().error is ErrorCode.MEMBER_ID_REQUIRED
