"""The demo's log of work: which worker worked on what, and when no worker did."""

from __future__ import annotations

import math

import pytest

from coterie_cli.demo.messages import WorkEvent, WorkEventKind
from coterie_cli.demo.work_log import Stop, WorkLog

BEGINS, ENDING, ENDED = WorkEventKind


def log_of(*events: tuple[str, WorkEventKind, int, float]) -> WorkLog:
    log = WorkLog()
    for worker, kind, partition, at_s in events:
        log.add(worker, WorkEvent(kind, partition, at_s))
    return log


def test_time_between_two_workers_is_a_stop() -> None:
    log = log_of(
        ("ann", BEGINS, 3, 1.0),
        ("ann", ENDING, 3, 2.0),
        ("ann", ENDED, 3, 2.5),
        ("ben", BEGINS, 3, 4.0),
    )
    assert list(log.stops()) == [Stop(3, 2.5, 4.0)]
    assert {number: stint.worker for number, stint in log.current.items()} == {3: "ben"}


def test_time_before_the_first_stint_is_no_stop() -> None:
    assert list(log_of(("ann", BEGINS, 0, 100.0)).stops()) == []


def test_work_that_is_ending_still_counts_as_work() -> None:
    log = log_of(("ann", BEGINS, 0, 1.0), ("ann", ENDING, 0, 2.0))
    assert list(log.stops()) == []
    assert log.current[0].is_ending


def test_stop_is_open_until_another_worker_begins() -> None:
    log = log_of(("ann", BEGINS, 0, 1.0), ("ann", ENDED, 0, 2.0))
    assert list(log.stops()) == [Stop(0, 2.0, math.inf)]
    assert log.idle == {0}


def test_death_ends_only_the_stints_of_that_worker() -> None:
    log = log_of(("ann", BEGINS, 0, 1.0), ("ann", BEGINS, 1, 1.0), ("ben", BEGINS, 2, 1.0))
    log.end_all("ann", 5.0)
    assert log.idle == {0, 1}
    assert sorted(log.endings()) == [5.0, 5.0]


def test_events_may_come_in_another_order_than_they_happened() -> None:
    # Each worker has a pipe of its own.
    log = log_of(("ann", BEGINS, 0, 1.0), ("ben", BEGINS, 0, 3.0), ("ann", ENDED, 0, 2.0))
    assert log.overlaps() == 0
    assert list(log.stops()) == [Stop(0, 2.0, 3.0)]


def test_two_workers_at_one_time_are_counted() -> None:
    log = log_of(
        ("ann", BEGINS, 0, 1.0),
        ("ben", BEGINS, 0, 2.0),
        ("ben", ENDED, 0, 3.0),
        ("ann", ENDED, 0, 4.0),
    )
    assert log.overlaps() == 1
    assert list(log.stops()) == [Stop(0, 4.0, math.inf)]


@pytest.mark.parametrize(
    ("span", "lasted_s"), [((0.0, 10.0), 2.0), ((3.0, 10.0), 1.0), ((5.0, 9.0), 0.0)]
)
def test_only_the_part_of_a_stop_within_the_span_counts(
    span: tuple[float, float], lasted_s: float
) -> None:
    assert Stop(0, 2.0, 4.0).lasted_s(*span) == lasted_s


def test_line_of_a_traceback_is_no_event() -> None:
    assert WorkEvent.of_text("ended 3 1.5") == WorkEvent(ENDED, 3, 1.5)
    assert WorkEvent.of_text("ValueError: nothing here") is None
    assert WorkEvent.of_text("sings 3 1.5") is None
