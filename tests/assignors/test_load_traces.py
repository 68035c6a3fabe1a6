"""Groups through hours of loads: more even than by number, with few moves and none to and fro.

`GroupOverTime` checks that no partition goes back to a member that it has left before it has
rested, and that every rebalance comes to rest.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import CooperativeStickyAssignor, StickyAssignor, Weights
from tests.assignors.load_traces import (
    GENERATED,
    RECORDED,
    Trace,
    diurnal,
    recorded,
    spikes,
    wandering,
    zipf,
)
from tests.assignors.load_world import GroupOverTime, Outcome, follow
from tests.support.profiles import by_profile, examples

MEMBERS = 6
MAX_MOVES = 4
WEIGHTS = Weights(max_moves=MAX_MOVES)
#: Of recordings a step is a second, and what a second takes varies much.
FAST_WEIGHTS = Weights(max_moves=MAX_MOVES, rest=10.0, smoothing=3.0)


def excess(outcome: Outcome) -> float:
    """How far the highest load is above the mean, on average over time."""
    return outcome.mean_ratio - 1


def assert_better(trace: Trace, part: float, weights: Weights = WEIGHTS) -> None:
    """Loads are more even than by number, by so much or to within most of the tolerance.

    Moves stay within their limits.
    """
    by_number, by_load = follow(trace, MEMBERS, None), follow(trace, MEMBERS, weights)
    assert by_number.moves == []
    within = 0.75 * weights.tolerance
    assert excess(by_load) <= max(within, part * excess(by_number))
    assert excess(by_load) < excess(by_number)
    assert max(by_load.moves, default=0) <= MAX_MOVES
    rests = len(trace.loads) * trace.step_s / weights.rest
    assert by_load.rebalances <= rests + 1


@pytest.mark.parametrize("seed", range(by_profile(quick=1, long=3)))
@pytest.mark.parametrize(
    ("generator", "part"),
    [
        (zipf, 0.6),
        pytest.param(diurnal, 0.4, marks=pytest.mark.slow),
        (wandering, 0.6),
        pytest.param(spikes, 0.8, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_loads_are_clearly_more_even_than_by_number(
    generator: Callable[[int], Trace], part: float, seed: int
) -> None:
    assert_better(generator(seed), part)


def test_there_are_recordings() -> None:
    assert len(RECORDED) >= 2


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_loads_are_more_even_than_by_number(name: str) -> None:
    assert_better(recorded(name), 0.75, FAST_WEIGHTS)


def test_steady_loads_come_to_rest() -> None:
    """What is uneven is mended in the first rests, and then nothing moves for hours."""
    outcome = follow(zipf(7), MEMBERS, WEIGHTS)
    assert outcome.rebalances <= 4
    assert max(outcome.ratios[-60:]) <= 1.25


def test_short_spikes_move_nothing() -> None:
    """A partition that is ten times as busy for a minute in each ten is smoothed over."""
    loads = [
        [10.0 if step % 10 == 5 and number == step // 10 % 12 else 1.0 for number in range(12)]
        for step in range(240)
    ]
    outcome = follow(Trace("blinks", 60.0, loads), 3, Weights(smoothing=600.0))
    assert outcome.moves == []


@given(
    seed=st.integers(0, 10**6),
    generator=st.sampled_from(GENERATED),
    tolerance=st.sampled_from([0.05, 0.2, 0.5]),
    rest=st.sampled_from([60.0, 300.0, 1200.0]),
    comings=st.lists(st.sampled_from(["join", "leave", "rejoin", "wait"]), max_size=12),
    eager=st.booleans(),
)
@examples(15)
def test_members_come_and_go_and_nothing_swings(
    seed: int,
    generator: Callable[[int], Trace],
    tolerance: float,
    rest: float,
    comings: list[str],
    *,
    eager: bool,
) -> None:
    """Rebalances of any cause move no more than allowed, but for who has nothing and who left."""
    trace = generator(seed)
    weights = Weights(tolerance=tolerance, rest=rest, max_moves=2)
    kind = StickyAssignor if eager else CooperativeStickyAssignor
    group = GroupOverTime({"t": trace.partitions}, weights, kind)
    group.join("m0", "m1", "m2")
    for step, what in enumerate(comings):
        for minute in range(4):
            group.pass_time(60.0, trace.at(4 * step + minute))
        if what == "join":
            group.join(f"m{step + 3}")
            totals = group.loads_of(trace.at(4 * step + 3))
            assert totals[f"m{step + 3}"] > 0
        elif what == "leave" and len(group.members) > 3:
            group.leave(sorted(group.members)[seed % len(group.members)])
        elif what == "rejoin":
            assert group.rebalance() <= 2
