"""The settings of warm scaling, and the time of the next probing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import WarmSettings, next_probing_ms

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_the_defaults_are_those_of_kip_441() -> None:
    settings = WarmSettings()
    assert settings.acceptable_recovery_lag == 10_000
    assert settings.num_standbys == 0
    assert settings.max_warmup_replicas == 2
    assert settings.probing_rebalance_interval_ms == 10 * MINUTE
    assert settings.balance_factor == 1


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("acceptable_recovery_lag", 0),
        ("num_standbys", 0),
        ("max_warmup_replicas", 1),
        ("probing_rebalance_interval_ms", MINUTE),
        ("balance_factor", 1),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, least: int) -> None:
    def settings(value: Any) -> WarmSettings:
        return WarmSettings(**{name: value})

    assert getattr(settings(least), name) == least
    for value in (least - 1, float(least), str(least), True, None):
        with pytest.raises(ValueError, match=f"{name} must be a whole number, at least {least}"):
            settings(value)


def test_short_intervals_have_to_be_allowed() -> None:
    settings = WarmSettings(probing_rebalance_interval_ms=50, allow_short_probing=True)
    assert settings.probing_rebalance_interval_ms == 50
    with pytest.raises(ValueError, match="at least 1, got 0"):
        WarmSettings(probing_rebalance_interval_ms=0, allow_short_probing=True)


@pytest.mark.parametrize(
    ("now", "minutes", "expected"),
    [
        ("2026-03-01T11:53:20", 10, "2026-03-01T12:00:00"),
        ("2026-03-01T12:00:00", 10, "2026-03-01T12:10:00"),
        ("2026-03-01T23:59:59.999", 10, "2026-03-02T00:00:00"),
        # Seven hours: 00, 07, 14, 21, and again from midnight.
        ("2026-03-01T20:00:00", 7 * 60, "2026-03-01T21:00:00"),
        ("2026-03-01T21:00:00", 7 * 60, "2026-03-02T00:00:00"),
        ("2026-03-01T21:00:00", 24 * 60, "2026-03-02T00:00:00"),
    ],
)
def test_probing_is_tied_to_the_time_of_day(now: str, minutes: int, expected: str) -> None:
    assert next_probing_ms(at(now), minutes * MINUTE) == at(expected)


@given(now=st.integers(0, 10**13), interval=st.integers(1, 3 * DAY), later=st.integers(0, 3 * DAY))
def test_all_leaders_mean_the_same_time(now: int, interval: int, later: int) -> None:
    first = next_probing_ms(now, interval)
    assert now < first <= now + interval
    # A member that leads later on, but before that time, says the same.
    another = min(now + later, first - 1)
    assert next_probing_ms(another, interval) == first
