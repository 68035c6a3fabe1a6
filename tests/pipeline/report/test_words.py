"""Numbers, times and names as people read them."""

from __future__ import annotations

import pytest

from coterie_pipeline.report import words
from coterie_pipeline.report.model import Some
from tests.pipeline.report.samples import START_MS


@pytest.mark.parametrize(
    ("length_ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (2_117, "2.12 s"),
        (59_990, "60 s"),
        (60_000, "1 min"),
        (192_000, "3 min 12 s"),
        (7_500_000, "2 h 5 min"),
        (100_000_000, "1 d 3 h"),
        (None, "?"),
    ],
)
def test_durations_have_two_units_at_most(length_ms: int | None, said: str) -> None:
    assert words.duration(length_ms) == said


def test_times_are_utc() -> None:
    # A moment is told in UTC, whatever zone this machine is in.
    assert words.clock_ms(START_MS + 3_723_045) == "01:02:03.045"
    assert words.date(START_MS) == "19 Nov 2025"


@pytest.mark.parametrize(
    ("length_ms", "said"), [(0, "0"), (9, "0.009"), (18_070, "18.1"), (1_234_567, "1,234.6")]
)
def test_a_little_is_more_than_nothing(length_ms: int, said: str) -> None:
    # A figure that is not zero does not look like zero.
    assert words.seconds(length_ms) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [(1.0, "100.0 %"), (0.5, "50.0 %"), (0.99996, "99.996 %"), (1 - 1e-9, "just below 100 %")],
)
def test_no_share_is_rounded_up_to_a_whole(share: float, said: str) -> None:
    assert words.percent(share) == said


def test_a_share_of_nothing_is_told_as_none() -> None:
    assert words.percent(None) == words.NONE


def test_names_lose_their_uuid() -> None:
    # A member id keeps what a person chose, and enough to tell it from others.
    assert words.short_name("app-1-3f2a8c1e-1111-2222-3333-444455556666") == "app-1-3f2a…"
    assert words.short_name("app-1-3f2a8c1e1111") == "app-1-3f2a…"
    assert words.short_name("3f2a8c1e-1111-2222-3333-444455556666") == "3f2a…"


def test_long_names_keep_both_ends() -> None:
    assert words.short_name("a" * 40 + "-the-end-07") == "aaaaaaaaaaaaaa…the-end-07"


def test_lists_say_how_many_they_leave_out() -> None:
    assert words.some(Some(7, ("a", "b"))) == "a, b and 5 more"
    assert words.some(Some(2, ("a", "b"))) == "a, b"


def test_a_cause_that_is_not_known_is_told_as_it_is() -> None:
    # A newer journal may have causes that this version does not know.
    assert words.cause("moon_phase") == "moon phase"
    assert words.cause("") == "not known"
