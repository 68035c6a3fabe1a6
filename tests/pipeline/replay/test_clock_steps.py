"""How long something took, by the dates of a clock that was set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.replay import ClockSteps, clocks_of
from coterie_server.serving.clock import TICK_MS, Clock
from tests.support.profiles import examples

#: Between two ticks, the date may have gone on faster or slower for as long as one lasts.
_OFF_MS = 2 * TICK_MS


@examples(100)
@given(
    st.lists(
        st.tuples(st.integers(1, 80), st.integers(-30_000, 30_000).filter(lambda it: abs(it) > 999))
    )
)
def test_a_nodes_dates_and_steps_tell_how_long_it_ran(steps: list[tuple[int, int]]) -> None:
    times = {"elapsed": 0, "ahead": 100_000_000}
    clock = Clock(
        lambda: times["elapsed"] * 1_000_000,
        lambda: (times["elapsed"] + times["ahead"]) * 1_000_000,
    )
    clock.start()
    found, seen = ClockSteps(), [(0, clock.date_ms())]
    for ticks, step_ms in steps:
        for _ in range(ticks):
            times["elapsed"] += TICK_MS
            assert not clock.tick().stepped_ms
        seen.append((times["elapsed"], clock.date_ms()))
        times["ahead"] += step_ms
        stepped_ms = clock.tick().stepped_ms
        found.note(clock.date_ms(), stepped_ms)
        seen.append((times["elapsed"], clock.date_ms()))
    for begun, begun_ms in seen:
        for ended, ended_ms in seen:
            if begun_ms <= ended_ms:
                lasted_ms = found.lasted_ms(begun_ms, ended_ms)
                assert abs(lasted_ms - (ended - begun)) <= _OFF_MS * (len(steps) + 1)


def test_time_that_was_skipped_did_not_pass() -> None:
    clock = ClockSteps()
    clock.note(70_000, 60_000)
    assert clock.lasted_ms(9_000, 71_000) == 2_000
    assert clock.lasted_ms(70_000, 71_000) == 1_000
    assert clock.after(71_000, -2_000) == 9_000
    assert clock.after(9_000, 2_000) == 71_000


def test_time_in_which_dates_ran_slowly_counts_twice() -> None:
    clock = ClockSteps()
    clock.note(10_000, -5_000)
    assert clock.lasted_ms(9_000, 12_000) == 5_000
    assert clock.lasted_ms(9_000, 16_000) == 12_000
    assert clock.after(16_000, -12_000) == 9_000
    assert clock.after(9_000, 5_000) == 12_000


def test_clock_that_is_set_right_again_ends_the_slowness() -> None:
    clock = ClockSteps()
    clock.note(10_000, -5_000)
    clock.note(12_000, 2_000)
    assert clock.lasted_ms(10_000, 14_000) == 7_000
    clock.note(24_000, 10_000)
    assert clock.lasted_ms(13_000, 25_000) == 2_000


def test_dates_follow_the_clock_after_a_restart() -> None:
    steps = [("n", 9, 12_000, None), ("n", 3, 10_000, -5_000), ("other", 1, 500, None)]
    (clock,) = clocks_of(steps).values()
    assert clock.lasted_ms(10_000, 14_000) == 6_000
