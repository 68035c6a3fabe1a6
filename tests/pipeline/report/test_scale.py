"""Times become places."""

from __future__ import annotations

from coterie_pipeline.report.model import Span
from coterie_pipeline.report.scale import Scale
from tests.pipeline.report.samples import SPAN, START_MS, at

SCALE = Scale(SPAN)


def test_a_moment_lies_where_its_share_of_the_time_is() -> None:
    assert (SCALE.at(at(0)), SCALE.at(at(0.25)), SCALE.at(at(1))) == ("0%", "25%", "100%")


def test_what_is_outside_lies_on_the_edge() -> None:
    assert SCALE.at(START_MS - 1) == "0%"
    assert SCALE.width(START_MS - 500_000, at(0.5)) == "50%"
    assert SCALE.width(at(2), at(3)) == "0%"


def test_a_millisecond_of_a_day_has_a_place_of_its_own() -> None:
    day = Scale(Span(START_MS, START_MS + 86_400_000))
    assert day.at(START_MS + 1) != day.at(START_MS + 2)


def test_ticks_are_round_and_few() -> None:
    day = Scale(Span(START_MS + 1_800_000, START_MS + 86_400_000))
    named = [name for _, name in day.ticks()]
    assert named == ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "20 Nov"]


def test_ticks_of_a_short_time_have_seconds() -> None:
    named = [name for _, name in Scale(Span(START_MS + 1, START_MS + 12_000)).ticks()]
    assert named == ["00:00:02", "00:00:04", "00:00:06", "00:00:08", "00:00:10", "00:00:12"]


def test_years_have_ticks() -> None:
    years = Scale(Span(START_MS, START_MS + 5 * 365 * 86_400_000))
    assert 3 <= len([*years.ticks()]) <= 9
