"""The diary that tells how long nobody worked on a partition."""

from __future__ import annotations

from bench.support.standstill_crew import Diary


def test_time_before_and_between_is_stopped() -> None:
    """Of each partition that somebody worked on."""
    diary = Diary(2)
    diary.begin("a", 0, 1.0)
    diary.begin("a", 1, 3.0)
    diary.end("a", 0, 4.0)
    diary.begin("b", 0, 4.5)
    assert diary.stopped_s(0.0, 10.0) == 1.0 + 3.0 + 0.5


def test_only_what_is_asked_for_counts() -> None:
    """Whatever was before or after."""
    diary = Diary(1)
    diary.begin("a", 0, 1.0)
    diary.end("a", 0, 4.0)
    assert diary.stopped_s(2.0, 5.0) == 1.0


def test_death_ends_all_work() -> None:
    """And nobody else's."""
    diary = Diary(2)
    diary.begin("a", 0, 0.0)
    diary.begin("b", 1, 0.0)
    diary.die("a", 2.0)
    assert diary.owners == {1: "b"}
    assert diary.stopped_s(0.0, 3.0) == 1.0


def test_two_at_one_time_are_counted() -> None:
    """The end of the first does not end the work of the second."""
    diary = Diary(1)
    diary.begin("a", 0, 0.0)
    diary.begin("b", 0, 1.0)
    diary.end("a", 0, 2.0)
    assert diary.overlaps == 1
    assert diary.owners == {0: "b"}
