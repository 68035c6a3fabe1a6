"""The log from which the standstill benchmarks compute how long no member worked."""

from __future__ import annotations

from bench.support.standstill_group import WorkLog


def test_time_before_and_between_is_stopped() -> None:
    log = WorkLog(2)
    log.begin("a", 0, 1.0)
    log.begin("a", 1, 3.0)
    log.end("a", 0, 4.0)
    log.begin("b", 0, 4.5)
    assert log.stopped_s(0.0, 10.0) == 1.0 + 3.0 + 0.5


def test_only_the_time_asked_for_counts() -> None:
    log = WorkLog(1)
    log.begin("a", 0, 1.0)
    log.end("a", 0, 4.0)
    assert log.stopped_s(2.0, 5.0) == 1.0


def test_death_ends_the_work_of_that_member_only() -> None:
    log = WorkLog(2)
    log.begin("a", 0, 0.0)
    log.begin("b", 1, 0.0)
    log.die("a", 2.0)
    assert log.owners == {1: "b"}
    assert log.stopped_s(0.0, 3.0) == 1.0


def test_the_first_of_two_workers_does_not_end_the_work_of_the_second() -> None:
    log = WorkLog(1)
    log.begin("a", 0, 0.0)
    log.begin("b", 0, 1.0)
    log.end("a", 0, 2.0)
    assert log.overlaps == 1
    assert log.owners == {0: "b"}
