"""The demo's diary: who worked on what, and when nobody did."""

from __future__ import annotations

import math

import pytest

from coterie_cli.demonstrating.diary import Diary, Stop
from coterie_cli.demonstrating.lines import Line, What

BEGINS, ENDING, ENDED = What.BEGINS, What.ENDING, What.ENDED


def diary(*notes: tuple[str, What, int, float]) -> Diary:
    """A diary with these notes."""
    written = Diary()
    for who, what, partition, at_s in notes:
        written.note(who, Line(what, partition, at_s))
    return written


def test_time_between_two_workers_is_a_stop() -> None:
    """From the end of the first one's work to the begin of the other's."""
    written = diary(
        ("ann", BEGINS, 3, 1.0),
        ("ann", ENDING, 3, 2.0),
        ("ann", ENDED, 3, 2.5),
        ("ben", BEGINS, 3, 4.0),
    )
    assert list(written.stops()) == [Stop(3, 2.5, 4.0)]
    assert {number: stint.who for number, stint in written.current.items()} == {3: "ben"}


def test_time_before_the_first_is_none() -> None:
    """Nothing was at work that could have stopped."""
    assert list(diary(("ann", BEGINS, 0, 100.0)).stops()) == []


def test_work_that_ends_still_counts_as_work() -> None:
    """Until it has ended."""
    written = diary(("ann", BEGINS, 0, 1.0), ("ann", ENDING, 0, 2.0))
    assert list(written.stops()) == []
    assert written.current[0].is_ending


def test_stop_goes_on_while_nobody_comes() -> None:
    """So its end is not known yet."""
    written = diary(("ann", BEGINS, 0, 1.0), ("ann", ENDED, 0, 2.0))
    assert list(written.stops()) == [Stop(0, 2.0, math.inf)]
    assert written.idle == {0}


def test_death_ends_all_that_somebody_had() -> None:
    """And nobody else's."""
    written = diary(("ann", BEGINS, 0, 1.0), ("ann", BEGINS, 1, 1.0), ("ben", BEGINS, 2, 1.0))
    written.die("ann", 5.0)
    assert written.idle == {0, 1}
    assert sorted(written.endings()) == [5.0, 5.0]


def test_workers_may_be_heard_in_another_order_than_they_spoke() -> None:
    """Each has a pipe of its own; what counts is when it was."""
    written = diary(("ann", BEGINS, 0, 1.0), ("ben", BEGINS, 0, 3.0), ("ann", ENDED, 0, 2.0))
    assert written.overlaps() == 0
    assert list(written.stops()) == [Stop(0, 2.0, 3.0)]


def test_two_at_one_time_are_counted() -> None:
    """Whatever the order in which they end."""
    written = diary(
        ("ann", BEGINS, 0, 1.0),
        ("ben", BEGINS, 0, 2.0),
        ("ben", ENDED, 0, 3.0),
        ("ann", ENDED, 0, 4.0),
    )
    assert written.overlaps() == 1
    assert list(written.stops()) == [Stop(0, 4.0, math.inf)]


@pytest.mark.parametrize(
    ("span", "lasted_s"), [((0.0, 10.0), 2.0), ((3.0, 10.0), 1.0), ((5.0, 9.0), 0.0)]
)
def test_only_what_is_asked_for_counts(span: tuple[float, float], lasted_s: float) -> None:
    """Of a stop that lies before, in or after a span of time."""
    assert Stop(0, 2.0, 4.0).lasted_s(*span) == lasted_s


def test_what_is_no_line_is_told_from_one() -> None:
    """A traceback comes down the same pipe."""
    assert Line.of_text("ended 3 1.5") == Line(ENDED, 3, 1.5)
    assert Line.of_text("ValueError: nothing here") is None
    assert Line.of_text("sings 3 1.5") is None
