"""Warm-ups that make no progress let others have their turn."""

from __future__ import annotations

from coterie_assignors import STALLED, UNKNOWN
from coterie_client.membership.stalls import Stalls
from tests.client.membership.test_standbys import T0, T1, T2, again, orders, reported, working

INTERVAL_MS = 600_000


def stalls() -> Stalls:
    found = Stalls(INTERVAL_MS)
    found.watch([T0], now_ms=0)
    return found


def stalled(found: Stalls, now_ms: int) -> bool:
    found.look(now_ms)
    return T0 in found.stalled


def test_one_that_tells_no_lag_has_stalled_after_an_interval() -> None:
    found = stalls()
    assert not stalled(found, INTERVAL_MS - 1)
    assert stalled(found, INTERVAL_MS)


def test_one_whose_lag_falls_has_not() -> None:
    found = stalls()
    for turn in range(1, 10):
        found.note_lag(T0, 1_000 - turn)
        assert not stalled(found, turn * INTERVAL_MS)


def test_one_whose_lag_does_not_fall_has() -> None:
    found = stalls()
    found.note_lag(T0, 500)
    assert not stalled(found, INTERVAL_MS)
    found.note_lag(T0, 500)
    assert stalled(found, 2 * INTERVAL_MS)


def test_one_that_fails_again_and_again_has_at_once() -> None:
    found = stalls()
    for _ in range(3):
        assert not stalled(found, 0)
        found.note_lag(T0, 500)
        found.note_failure(T0)
    assert stalled(found, 0)


def test_failures_with_progress_between_them_are_forgiven() -> None:
    found = stalls()
    for turn in range(10):
        found.note_lag(T0, 500 - turn)
        found.note_failure(T0)
        assert not stalled(found, 0)


def test_one_that_has_stalled_has_until_it_makes_progress() -> None:
    found = stalls()
    found.look(INTERVAL_MS)
    found.watch([], INTERVAL_MS)
    found.watch([T0], INTERVAL_MS)
    found.note_lag(T0, 500)
    assert T0 in found.stalled
    found.note_lag(T0, 400)
    assert T0 not in found.stalled


def test_what_is_worked_on_has_not_stalled() -> None:
    found = stalls()
    found.look(INTERVAL_MS)
    found.forget([T0, T1])
    assert not found.stalled


# -- what the leader is told -------------------------------------------------------------------


def test_warm_up_whose_restore_keeps_failing_is_reported_as_stalled() -> None:
    script = working(warming=(T1, T2))
    script.lag(T1, 5_000)
    script.lag(T2, 5_000)
    for _ in range(3):
        script.machine.note_failure(T1)
    again(script)
    assert reported(script) == {T1: STALLED, T2: 5_000}


def test_it_still_is_when_others_have_its_turn() -> None:
    script = working(warming=(T1,))
    for _ in range(3):
        script.machine.note_failure(T1)
    again(script)
    script.join(6)
    script.sync(orders=orders(warming=(T2,)))
    script.beat()
    again(script)
    assert reported(script) == {T1: STALLED, T2: UNKNOWN}


def test_standby_or_copy_that_has_caught_up_is_not() -> None:
    script = working(standbys=(T1,), warming=(T2,))
    for _ in range(3):
        script.machine.note_failure(T1)
        script.machine.note_failure(T2)
    script.lag(T2, 100)  # so it joins again
    assert reported(script) == {T1: UNKNOWN, T2: 100}
