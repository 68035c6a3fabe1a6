"""The loads that a member tells: smoothed over time, with since when it has each partition."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import CooperativeStickyAssignor, RangeAssignor, StickyAssignor, Weights
from coterie_client.membership.loads import Loads
from coterie_client.membership.smoothing import SmoothedLoad
from coterie_protocol.loads import Load, LoadReport

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)

MINUTE = 60_000


def about(load: float) -> Any:
    """A load as good as this one."""
    return pytest.approx(load)


def weighted(rest: float = 300.0) -> Loads:
    """The loads of a member whose assignor wants to know."""
    return Loads([CooperativeStickyAssignor(Weights(rest=rest, smoothing=60.0))])


# Smoothing


def test_load_is_not_known_before_the_time_that_is_smoothed_over() -> None:
    load = SmoothedLoad(MINUTE, 5.0, 1000)
    assert load.mean(1000) is None
    assert load.mean(1000 + MINUTE - 1) is None
    assert load.mean(1000 + MINUTE) == pytest.approx(5.0)


def test_what_was_a_minute_ago_counts_for_a_third() -> None:
    load = SmoothedLoad(MINUTE, 0.0, 0)
    load.add(1.0, 100 * MINUTE)
    assert load.mean(101 * MINUTE) == pytest.approx(1 - exp(-1))


def test_how_often_a_load_is_told_makes_no_difference() -> None:
    seldom, often = SmoothedLoad(MINUTE, 2.0, 0), SmoothedLoad(MINUTE, 2.0, 0)
    for ms in range(0, 2 * MINUTE, 50):
        often.add(2.0, ms)
    for each in (seldom, often):
        each.add(8.0, 2 * MINUTE)
    assert often.mean(3 * MINUTE) == pytest.approx(seldom.mean(3 * MINUTE))


def test_clock_that_stands_still_does_no_harm() -> None:
    load = SmoothedLoad(MINUTE, 1.0, 5 * MINUTE)
    load.add(9.0, 5 * MINUTE)
    load.add(3.0, 4 * MINUTE)
    assert load.mean(7 * MINUTE) == pytest.approx(3.0)


@given(
    told=st.lists(st.tuples(st.integers(0, 10 * MINUTE), st.floats(0, 1e15)), min_size=1),
    smoothing_ms=st.floats(1, 1e7),
)
def test_mean_is_within_what_was_told(told: list[tuple[int, float]], smoothing_ms: float) -> None:
    now_ms, load = 0, SmoothedLoad(smoothing_ms, told[0][1], 0)
    for passed_ms, value in told[1:]:
        now_ms += passed_ms
        load.add(value, now_ms)
    mean = load.mean(now_ms)
    values = [value for _, value in told]
    if mean is not None:
        assert min(values) * (1 - 1e-6) <= mean <= max(values) * (1 + 1e-6)


# What is told


def test_partitions_are_told_with_their_loads_and_ages() -> None:
    loads = weighted()
    loads.assigned({T0, T1}, 0)
    loads.add(T0, 4.0, 0)
    assert loads.report(2 * MINUTE) == LoadReport(
        {T0: Load(about(4.0), 2 * MINUTE), T1: Load(None, 2 * MINUTE)}
    )


def test_partition_that_stays_keeps_its_age_and_load() -> None:
    loads = weighted()
    loads.assigned({T0}, 0)
    loads.add(T0, 4.0, 0)
    loads.assigned({T0, T1}, MINUTE)
    owned = loads.report(2 * MINUTE).owned
    assert owned[T0] == Load(about(4.0), 2 * MINUTE)
    assert owned[T1] == Load(None, MINUTE)


def test_partition_that_left_is_told_until_it_has_rested() -> None:
    loads = weighted(rest=180.0)
    loads.assigned({T0}, 0)
    loads.add(T0, 4.0, 0)
    loads.assigned(set(), 2 * MINUTE)
    assert loads.report(4 * MINUTE) == LoadReport({}, {T0: Load(about(4.0), 2 * MINUTE)})
    assert loads.report(5 * MINUTE) == LoadReport()


def test_partition_that_came_back_has_not_left_and_begins_anew() -> None:
    loads = weighted()
    loads.assigned({T0}, 0)
    loads.add(T0, 4.0, 0)
    loads.assigned(set(), MINUTE)
    loads.assigned({T0}, 2 * MINUTE)
    assert loads.report(2 * MINUTE) == LoadReport({T0: Load(None, 0)})


def test_member_that_lost_its_place_has_nothing_and_remembers_what_left() -> None:
    loads = weighted()
    loads.assigned({T0, T1}, 0)
    loads.assigned({T0}, MINUTE)
    loads.forget()
    assert loads.report(2 * MINUTE) == LoadReport({}, {T1: Load(None, MINUTE)})


def test_smoothing_is_that_of_the_settings() -> None:
    loads = Loads([StickyAssignor(Weights(smoothing=1.0))])
    loads.assigned({T0}, 0)
    loads.add(T0, 4.0, 0)
    loads.add(T0, 8.0, 1000)
    assert loads.report(20_000).owned[T0].value == pytest.approx(8.0)


def test_without_weights_nothing_is_kept() -> None:
    loads = Loads([RangeAssignor(), CooperativeStickyAssignor()])
    loads.add(T0, 4.0, 0)
    assert loads._loads == {}  # noqa: SLF001  # it must not grow


def test_only_assignors_with_weights_are_told() -> None:
    plain, heavy = CooperativeStickyAssignor(), StickyAssignor(Weights())
    loads = Loads([plain, heavy])
    loads.assigned({T2}, 0)
    loads.tell([plain, heavy], 0)
    assert plain.subscription_user_data(["t"], (), 3) == b"\x00\x00\x00\x03"
    assert (heavy.subscription_user_data(["t"], (), 3) or b"").endswith(b"lOAD")
