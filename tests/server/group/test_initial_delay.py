"""The first rebalance of an empty group waits for others to come as well."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import RebalanceStarted
from coterie_server.group import GroupState
from tests.support.group_harness import START_MS, World


def test_a_lone_member_waits_for_the_initial_delay() -> None:
    world = World()
    join = world.member("a").join()
    world.sleep(2_999)
    assert join.is_parked
    assert world.sleep(1) == [join]
    assert join.reply.generation_id == 1


def test_without_a_delay_the_first_phase_ends_at_once() -> None:
    world = World(initial_rebalance_delay_ms=0)
    join = world.member("a").join()
    assert join.is_parked
    assert world.sleep(0) == [join]


def test_a_newcomer_just_before_the_end_adds_one_more_delay() -> None:
    world = World()
    first = world.member("a").join()
    world.sleep(2_999)
    second = world.member("b").join()
    world.sleep(3_000)
    assert first.is_parked
    assert world.sleep(1) == [first, second]


def test_the_delay_ends_with_the_first_step_without_a_newcomer() -> None:
    world = World(initial_rebalance_delay_ms=300)
    first = world.member("a", rebalance_ms=10_000).join()
    world.sleep(250)
    world.member("b").join()
    world.sleep(349)
    assert first.is_parked
    world.sleep(1)
    assert first.at_ms == START_MS + 600


def arrivals(world: World, rebalance_ms: int, at_ms: list[int]) -> int:
    """When the first member is answered if others come at these times."""
    first = world.member("first", rebalance_ms=rebalance_ms).join()
    for number, arrives_ms in enumerate(at_ms):
        world.sleep(START_MS + arrives_ms - world.now_ms)
        world.member(f"m{number}", rebalance_ms=1_000_000).join()
    world.sleep(100_000)
    return first.at_ms - START_MS


@pytest.mark.parametrize(
    ("delay_ms", "rebalance_ms", "at_ms", "answered_ms"),
    [
        (3_000, 20_000, [], 3_000),
        (3_000, 4_000, [500], 4_000),
        (3_000, 20_000, [500], 6_000),
        (300, 1_000, [250, 500], 900),
        (3_000, 10_000, [1_000, 4_000, 7_000, 9_500], 10_000),
        (3_000, 1_000, [500], 3_000),
        (3_000, 3_000, [500], 3_000),
        (0, 10_000, [], 0),
    ],
)
def test_the_delay_grows_up_to_the_first_members_rebalance_timeout(
    delay_ms: int, rebalance_ms: int, at_ms: list[int], answered_ms: int
) -> None:
    world = World(initial_rebalance_delay_ms=delay_ms)
    assert arrivals(world, rebalance_ms, at_ms) == answered_ms


def test_member_that_leaves_does_not_end_the_delay() -> None:
    """All members have joined, but others may still come."""
    world = World()
    stays, goes = world.member("a"), world.member("b")
    join = stays.join()
    goes.join()
    assert goes.leave() is ErrorCode.NONE
    world.sleep(2_999)
    assert join.is_parked
    world.sleep(3_001)
    assert list(stays.roster) == [stays.id]


def test_a_pending_id_that_expires_does_not_end_the_delay() -> None:
    world = World(initial_rebalance_delay_ms=10_000)
    world.member("ghost", session_ms=6_000).join_once()
    join = world.member("a").join()
    world.sleep(9_999)
    assert join.is_parked
    assert world.sleep(1) == [join]


def test_a_pending_id_that_leaves_does_not_end_the_delay() -> None:
    world = World()
    ghost = world.member("ghost")
    ghost.join_once()
    join = world.member("a").join()
    assert ghost.leave() is ErrorCode.NONE
    world.sleep(2_999)
    assert join.is_parked


def test_a_pending_id_does_not_hold_up_the_end_of_the_delay() -> None:
    world = World()
    ghost = world.member("ghost")
    join = world.member("a").join()
    ghost.join_once()
    world.sleep(3_000)
    assert join.error is ErrorCode.NONE
    assert world.group().pending_joins == {ghost.id}


def test_a_member_that_expires_does_not_end_the_delay() -> None:
    world = World(initial_rebalance_delay_ms=10_000, new_member_join_timeout_ms=8_000)
    gone = world.member("a").join()
    world.sleep(4_000)
    stays = world.member("b").join()
    world.sleep(4_000)
    assert gone.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stays.is_parked
    assert world.state() is GroupState.PREPARING


def test_a_group_that_all_left_during_the_delay_has_used_up_a_generation() -> None:
    world = World()
    client = world.member("a")
    client.join()
    client.leave()
    assert world.state() is GroupState.PREPARING
    world.sleep(3_000)
    assert world.state() is GroupState.EMPTY
    assert world.group().generation == 1


def test_a_member_that_comes_after_all_others_left_leads() -> None:
    world = World()
    first, second = world.member("a"), world.member("b", protocol_type="connect")
    first.join()
    first.leave()
    second.join()
    world.sleep(6_000)
    assert second.leads
    assert world.describe().protocol_type == "connect"


def test_a_group_that_was_emptied_has_an_initial_delay_again() -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    first.leave()
    second.leave()
    assert world.state() is GroupState.EMPTY
    join = world.member("c").join()
    world.sleep(2_999)
    assert join.is_parked
    assert world.sleep(1) == [join]


def test_a_static_replacement_waits_in_its_predecessors_place() -> None:
    world = World()
    old = world.member("a", static="i1")
    new = old.restarted()
    first = old.join()
    world.sleep(1_000)
    second = new.join()
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    assert world.sleep(2_000) == [second]
    assert list(new.roster) == [new.id]


def test_a_static_replacement_does_not_lengthen_the_delay() -> None:
    world = World()
    old = world.member("a", static="i1")
    old.join()
    world.sleep(2_900)
    again = old.restarted().join()
    world.sleep(100)
    assert again.error is ErrorCode.NONE


def test_the_journal_tells_until_when_the_delay_lasts() -> None:
    world = World()
    world.member("a").join()
    (started,) = world.seen(RebalanceStarted)
    assert started.deadline == START_MS + 3_000
    assert (started.from_state, started.generation, started.awaited) == ("Empty", 0, ())
