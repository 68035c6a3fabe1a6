"""Moves that wait for a copy of the state, in words."""

from __future__ import annotations

from dataclasses import replace

from coterie_server.history.waiting_moves import waiting_moves
from tests.support.journal_events import completed, phase
from tests.support.warm_groups import warm_pair
from tests.support.watched_world import WatchedWorld


def test_a_move_names_the_owner_the_target_and_how_far_behind_its_copy_was() -> None:
    world = WatchedWorld()
    owner, _ = warm_pair(world, heir_name="i")
    expected = f"t-3 from {owner.id} to i (its copy was 1,234 behind)"
    assert world.last.waiting_moves.names == (expected,)


def test_a_move_whose_copy_is_being_made_or_has_no_turn_yet() -> None:
    event = completed(
        assigned={"a": {"t": (1, 2)}, "b": {}},
        warming={"b": {"t": (1,)}},
        targets={"b": {"t": (1, 2)}, "c": {"u": (0,)}},
    )
    unknown = replace(phase("b", 0), lags={"t": {"1": None}})
    assert waiting_moves(event, [unknown]).names == (
        "t-1 from a to b (its copy is being made)",
        "t-2 from a to b (its turn to make a copy has not come)",
        "u-0 from no member to c (its turn to make a copy has not come)",
    )


def test_of_many_moves_a_few_are_named_and_all_counted() -> None:
    event = completed(assigned={}, targets={"b": {"t": tuple(range(1_000))}})
    waiting = waiting_moves(event, ())
    assert (waiting.count, len(waiting.names)) == (1_000, 10)


def test_a_rebalance_without_orders_has_none() -> None:
    assert not waiting_moves(completed(), ())
