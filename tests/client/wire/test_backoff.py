"""The pace of attempts, in time that the test hands in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_client.errors import ConfigurationError
from coterie_client.wire import Backoff, RetryOptions

MIDDLE = 0.5  # the chance that leaves a delay as it is


def test_delays_double_up_to_the_maximum() -> None:
    options = RetryOptions(base_ms=100, max_ms=1_000)
    delays_ms = [options.delay_ms(failures, MIDDLE) for failures in range(7)]
    assert delays_ms == [0, 100, 200, 400, 800, 1_000, 1_000]


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_a_fifth(failures: int, chance: float) -> None:
    options = RetryOptions(base_ms=100, max_ms=1_000, jitter=0.2)
    expected_ms = options.delay_ms(failures, MIDDLE)
    assert 0.8 * expected_ms <= options.delay_ms(failures, chance) <= 1.2 * expected_ms


def test_jitter_spreads_clients() -> None:
    options = RetryOptions(base_ms=100, max_ms=100, jitter=0.5)
    assert (options.delay_ms(1, 0.0), options.delay_ms(1, 0.999)) == (50, 150)


@pytest.mark.parametrize(
    "options",
    [
        {"base_ms": 0},
        {"base_ms": 2, "max_ms": 1},
        {"jitter": 1.0},
        {"jitter": -0.1},
    ],
)
def test_invalid_retry_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RetryOptions(**options)


def test_wait_shrinks_with_time() -> None:
    backoff = Backoff(RetryOptions(base_ms=100, max_ms=1_000), lambda: MIDDLE)
    backoff.failed(10.0)
    waits_s = [backoff.wait_s(now_s) for now_s in (10.0, 10.04, 10.1, 11.0)]
    assert waits_s == pytest.approx([0.1, 0.06, 0.0, 0.0])


def test_success_resets_the_back_off() -> None:
    backoff = Backoff(RetryOptions(base_ms=100, max_ms=1_000), lambda: MIDDLE)
    for _ in range(3):
        backoff.failed(10.0)
    backoff.succeeded()
    assert backoff.wait_s(10.0) == 0
    backoff.failed(20.0)
    assert backoff.wait_s(20.0) == pytest.approx(0.1)
