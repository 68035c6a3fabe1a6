"""What workers with state must not do, and how the checker says so."""

from __future__ import annotations

from coterie_assignors import WarmSettings
from coterie_client import Role
from coterie_testing.sim.state import Logs, StateDisk, StateOptions
from tests.testing.sim.invariants.checked import Checked, FakeWorker, Held, Owned


def settled(checked: Checked, *workers: FakeWorker) -> str:
    """What is wrong in the end, with one partition."""
    checked.checker.check_settled(workers, [("t", 0)])  # type: ignore[arg-type]
    return checked.violation


def disk(standbys: int) -> StateDisk:
    """A disk in a group with so many standbys."""
    return StateDisk(StateOptions(WarmSettings(num_standbys=standbys)), Logs(100))


def at_work(checked: Checked) -> None:
    """Ann works on the one partition."""
    checked.do("started", checked.ann, Owned())
    checked.ann.owned = [Owned()]


def test_restore_and_then_work_is_right() -> None:
    checked = Checked()
    checked.do("restoring", checked.ann, Held())
    checked.do("restored", checked.ann, Held())
    checked.do("restore_ended", checked.ann, Held())
    checked.do("started", checked.ann, Owned())
    assert checked.violation == ""


def test_work_must_not_begin_beside_its_restore() -> None:
    checked = Checked()
    checked.do("restoring", checked.ann, Held())
    checked.do("started", checked.ann, Owned())
    assert "works on it while it still restores it" in checked.violation


def test_restore_must_not_begin_beside_work() -> None:
    checked = Checked()
    at_work(checked)
    checked.do("restoring", checked.ann, Held())
    assert "restores it while it works on it" in checked.violation


def test_others_may_restore_what_one_works_on() -> None:
    checked = Checked()
    at_work(checked)
    checked.do("restoring", checked.bob, Held())
    assert checked.violation == ""


def test_one_restore_at_a_time() -> None:
    checked = Checked()
    checked.do("restoring", checked.ann, Held())
    checked.do("restoring", checked.ann, Held())
    assert "restores it twice at once" in checked.violation


def test_restore_goes_on_only_while_it_is_held() -> None:
    checked = Checked()
    checked.do("restoring", checked.ann, Held())
    checked.do("restored", checked.ann, Held(is_held=False))
    assert "restores what its own client does not hold" in checked.violation


def test_restores_of_a_dead_process_have_ended() -> None:
    checked = Checked()
    checked.do("restoring", checked.ann, Held())
    checked.checker.died(checked.ann)  # type: ignore[arg-type]
    checked.do("started", checked.ann, Owned())
    assert checked.violation == ""


def test_standby_must_not_commit() -> None:
    checked = Checked()
    checked.do("committed_standby", checked.ann, Held())
    assert "committed for a standby" in checked.violation


def test_standby_that_is_not_restored_is_found_in_the_end() -> None:
    checked = Checked()
    at_work(checked)
    checked.bob.standbys = [Held()]
    assert "bob holds [('t', 0)], but restores []" in settled(checked, checked.ann, checked.bob)


def test_warm_up_in_the_end_is_wrong() -> None:
    checked = Checked()
    at_work(checked)
    checked.do("restoring", checked.bob, Held())
    checked.bob.standbys = [Held(role=Role.WARM_UP)]
    assert "bob still warms up" in settled(checked, checked.ann, checked.bob)


def test_missing_standby_is_found_in_the_end() -> None:
    checked = Checked()
    at_work(checked)
    checked.ann.state = checked.bob.state = disk(1)
    assert "has 0 standbys and not 1" in settled(checked, checked.ann, checked.bob)


def test_one_worker_has_no_place_for_standbys() -> None:
    checked = Checked()
    at_work(checked)
    checked.ann.state = disk(2)
    assert settled(checked, checked.ann) == ""


def test_starts_are_counted_by_what_their_state_is_like() -> None:
    checked = Checked()
    checked.ann.state = disk(0)
    checked.do("started", checked.ann, Owned())
    checked.ann.state.positions["t", 1] = 100
    checked.do("started", checked.ann, Owned(number=1))
    counts = checked.checker.counts
    assert (counts["cold starts"], counts["warm starts"]) == (1, 1)
