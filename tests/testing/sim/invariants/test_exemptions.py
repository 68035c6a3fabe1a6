"""Workers that can't know that they were removed are exempt, for as long as they must be."""

from __future__ import annotations

from typing import cast

import pytest

from coterie_protocol.journal import (
    Event,
)
from coterie_testing.sim.worker import Worker
from tests.testing.sim.invariants.checked import (
    Checked,
    FakeWorker,
    Owned,
    gone,
    recovered,
    replaced,
)


def test_paused_owner_is_exempt_until_the_moment_it_resumes(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.checker.exemptions.paused(cast(Worker, checked.ann))
    checked.do("started", checked.bob, Owned(2))
    checked.scheduler.run(20.0)
    checked.checker.exemptions.resumed(cast(Worker, checked.ann))
    checked.do("acted", checked.ann, Owned(1), 1)
    assert checked.violation == ""
    assert checked.checker.counts["fenced side effects"] == 1


def test_old_token_after_that_moment_is_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.checker.exemptions.paused(cast(Worker, checked.ann))
    checked.do("started", checked.bob, Owned(2))
    checked.checker.exemptions.resumed(cast(Worker, checked.ann))
    checked.scheduler.run(0.001)
    checked.do("acted", checked.ann, Owned(1), 1)
    assert "ann works on it with an old token" in checked.violation


def overlap(checked: Checked, *events: Event, after_s: float = 0.0) -> str:
    """Have bob begin what ann is at, after the journal told something; what is wrong with that."""
    checked.joined(checked.ann)
    checked.do("started", checked.ann, Owned(1))
    checked.checker.__dict__["_journal"].journalled = lambda *_: ()
    for event in events:
        checked.journal(event)
    checked.scheduler.run(after_s)
    checked.do("started", checked.bob, Owned(2))
    return checked.violation


def test_replaced_owner_is_exempt(checked: Checked) -> None:
    assert overlap(checked, replaced("ann")) == ""


def test_removed_owner_is_exempt(checked: Checked) -> None:
    checked.checker.exemptions.removal_asked("ann")
    assert overlap(checked, gone("ann", "left")) == ""


def test_member_that_left_by_itself_is_not_exempt(checked: Checked) -> None:
    assert "two workers" in overlap(checked, gone("ann", "left"))


def test_member_is_not_exempt_before_its_removal_is_journalled(checked: Checked) -> None:
    checked.checker.exemptions.removal_asked("ann")
    assert "two workers" in overlap(checked)


def test_exemption_ends_with_the_lease(checked: Checked) -> None:
    checked.checker.exemptions.removal_asked("ann")
    assert "two workers" in overlap(checked, gone("ann", "left"), after_s=9.001)


def test_restart_does_not_prolong_an_exemption(checked: Checked) -> None:
    checked.checker.exemptions.removal_asked("ann")
    checked.joined(checked.ann)
    checked.checker.exemptions.journalled(gone("ann", "left"))
    checked.scheduler.run(5.0)
    checked.checker.exemptions.journalled(recovered())
    checked.scheduler.run(4.001)
    assert not checked.checker.exemptions.covers(cast(Worker, checked.ann))


@pytest.mark.parametrize(("paused_s", "is_exempt"), [(8.0, True), (9.001, False)])
def test_member_dropped_in_a_pause_is_exempt_until_its_lease_ends(
    checked: Checked, paused_s: float, *, is_exempt: bool
) -> None:
    """It hears nothing in the pause, and its lease from before may not be over when it resumes."""
    ann = cast(Worker, checked.ann)
    checked.joined(checked.ann)
    checked.checker.exemptions.paused(ann)
    checked.scheduler.run(paused_s)
    checked.checker.exemptions.journalled(gone("ann", "rebalance_expired"))
    checked.checker.exemptions.resumed(ann)
    assert checked.checker.exemptions.is_unaware(ann) == is_exempt


def test_pause_does_not_end_another_exemption(checked: Checked) -> None:
    ann = cast(Worker, checked.ann)
    checked.checker.exemptions.removal_asked("ann")
    checked.joined(checked.ann)
    checked.checker.exemptions.journalled(gone("ann", "left"))
    checked.checker.exemptions.paused(ann)
    checked.checker.exemptions.resumed(ann)
    checked.scheduler.run(1.0)
    assert checked.checker.exemptions.covers(ann)


@pytest.mark.parametrize("names", [(), ("ann",)])
def test_removal_may_be_journalled_by_the_next_life_of_the_node(
    checked: Checked, names: tuple[str, ...]
) -> None:
    """The removal was stored and not journalled, as the node was killed (seed 820446 of brief)."""
    checked.checker.exemptions.removal_asked("ann")
    assert bool(overlap(checked, recovered(*names))) == bool(names)


@pytest.mark.parametrize("is_contested", [True, False])
def test_replacement_may_be_journalled_by_the_next_life_of_the_node(
    checked: Checked, *, is_contested: bool
) -> None:
    checked.ann.instance = "i"
    checked.checker.exemptions.started(cast(Worker, checked.ann))
    if is_contested:
        checked.checker.exemptions.started(cast(Worker, FakeWorker("cho", "i")))
    assert bool(overlap(checked, recovered("x"))) != is_contested


def test_restart_alone_exempts_no_member(checked: Checked) -> None:
    assert "two workers" in overlap(checked, recovered())


def test_unaware_worker_may_begin_with_an_older_token(checked: Checked) -> None:
    """Its assignment was on its way when its membership ended (seed 8062 of brief)."""
    checked.joined(checked.ann)
    checked.journal(replaced("ann"))
    checked.do("started", checked.bob, Owned(2))
    checked.do("started", checked.ann, Owned(1))
    assert checked.violation == ""
    checked.do("started", checked.bob, Owned(1))
    assert "two workers" in checked.violation
