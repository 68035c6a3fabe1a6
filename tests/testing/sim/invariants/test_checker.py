"""The invariant checker finds each violation."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coterie_client.membership.events import CoordinatorLost
from coterie_protocol.journal import (
    OwnershipConflict,
)
from coterie_testing.sim.worker import Worker
from tests.testing.sim.invariants.checked import Checked, FakeWorker, Owned, gone, replaced

# -- two owners ------------------------------------------------------------------------------------


def test_two_workers_at_once_are_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("started", checked.bob, Owned(2))
    assert "two workers: bob and ann" in checked.violation


@pytest.mark.parametrize("how", ["ended", "died"])
def test_worker_may_begin_when_the_owner_ended_or_died(checked: Checked, how: str) -> None:
    checked.do("started", checked.ann, Owned(1))
    if how == "ended":
        checked.do("ended", checked.ann, Owned(1))
    else:
        checked.checker.died(cast(Worker, checked.ann))
    checked.do("started", checked.bob, Owned(2))
    assert checked.violation == ""


@pytest.mark.parametrize("what", ["started", "acted"])
def test_work_without_membership_is_a_violation(checked: Checked, what: str) -> None:
    """Its lease ought to have ended before its membership."""
    checked.members = {"ann"}
    checked.do("started", checked.ann, Owned(1))
    assert checked.violation == ""
    checked.members = set()
    checked.do(what, checked.ann, Owned(2), *([1] if what == "acted" else []))
    assert "ann works on it, but 'ann' is no member" in checked.violation


def test_work_on_a_lost_partition_is_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("acted", checked.ann, Owned(1, is_owned=False), 1)
    assert "ann works on what its own client says it lost" in checked.violation


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_ended", [True, False])
def test_owner_may_resume_with_its_token_but_not_begin_twice(
    checked: Checked, *, has_ended: bool
) -> None:
    checked.do("started", checked.ann, Owned(5))
    if has_ended:
        checked.do("ended", checked.ann, Owned(5))
    checked.do("started", checked.ann, Owned(5))
    assert bool(checked.violation) != has_ended


@pytest.mark.parametrize("token", [4, 5])
def test_token_that_is_not_newer_is_a_violation(checked: Checked, token: int) -> None:
    checked.do("started", checked.ann, Owned(5))
    checked.do("ended", checked.ann, Owned(5))
    checked.do("started", checked.bob, Owned(token))
    assert f"token {token} after 5" in checked.violation


def test_successor_with_the_same_instance_id_needs_a_newer_token(checked: Checked) -> None:
    checked.ann.instance = checked.bob.instance = "i"
    checked.do("started", checked.ann, Owned(5))
    checked.do("ended", checked.ann, Owned(5))
    checked.do("started", checked.bob, Owned(5))
    assert "token 5 after 5" in checked.violation


@pytest.mark.parametrize("token", [2, 3])
def test_unaware_worker_with_a_newer_token_is_a_violation(checked: Checked, token: int) -> None:
    """Being unaware excuses no token as high as the successor's (seed 1004235 of brief)."""
    checked.joined(checked.ann)
    checked.journal(replaced("ann"))
    checked.do("started", checked.bob, Owned(2))
    checked.do("started", checked.ann, Owned(token))
    assert "ann" in checked.violation or f"token {token} after 2" in checked.violation


# -- offsets ---------------------------------------------------------------------------------------


def test_forgotten_commit_is_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("acted", checked.ann, Owned(1), 7)
    checked.do("committed", checked.ann, Owned(1), 7)
    checked.do("ended", checked.ann, Owned(1))
    checked.do("started", checked.bob, Owned(2))
    checked.do("resumed", checked.bob, Owned(2), 6)
    assert "told offset 6, but 7 was stored" in checked.violation


def test_offset_that_was_never_committed_is_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("resumed", checked.ann, Owned(1), 3)
    assert "offset 3 was never committed" in checked.violation


def test_unacknowledged_commit_may_be_stored_or_not(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("acted", checked.ann, Owned(1), 7)
    checked.do("resumed", checked.ann, Owned(1), 7)
    checked.do("resumed", checked.ann, Owned(1), 0)
    assert checked.violation == ""


def test_commit_accepted_with_an_old_token_is_a_violation(checked: Checked) -> None:
    checked.do("started", checked.ann, Owned(1))
    checked.do("ended", checked.ann, Owned(1))
    checked.do("started", checked.bob, Owned(2))
    checked.do("committed", checked.ann, Owned(1), 1)
    assert "a commit of ann was accepted with an old token" in checked.violation


def test_commit_may_be_acknowledged_late_to_a_paused_worker(checked: Checked) -> None:
    """A run found it: the answer was on its way when its worker was paused and then removed."""
    checked.do("started", checked.ann, Owned(1))
    checked.checker.exemptions.paused(cast(Worker, checked.ann))
    checked.do("started", checked.bob, Owned(2))
    checked.do("committed", checked.ann, Owned(1), 1)
    assert checked.violation == ""


# -- the journal -----------------------------------------------------------------------------------


def test_contradiction_in_the_journal_is_a_violation(checked: Checked) -> None:
    checked.journal(gone("unknown", "left"))
    assert "was not in the group" in checked.violation


def test_generation_that_is_not_in_the_journal_is_a_violation(checked: Checked) -> None:
    checked.joined(checked.ann, 1)
    assert "ann is in generation 1, after 0" in checked.violation


@pytest.mark.parametrize("how", ["session_expired", "rebalance_expired"])
def test_dropping_a_healthy_member_is_a_violation(checked: Checked, how: str) -> None:
    checked.checker.is_calm = True
    checked.joined(checked.ann)
    checked.checker._expired(gone("ann", how))  # noqa: SLF001  # without a story around it
    assert "ann was dropped although nothing is wrong with it" in checked.violation


def test_dead_member_may_be_dropped(checked: Checked) -> None:
    checked.checker.is_calm = True
    checked.joined(checked.ann)
    checked.ann.is_running = False
    checked.checker._expired(gone("ann", "session_expired"))  # noqa: SLF001
    assert checked.violation == ""


@pytest.mark.parametrize("is_steady", [True, False])
def test_losing_a_healthy_coordinator_is_a_violation(checked: Checked, *, is_steady: bool) -> None:
    checked.checker.is_steady = is_steady
    lost = CoordinatorLost(node="n", reason="r", had_served=True)
    checked.checker.client_event(cast(Worker, checked.ann), lost)
    assert bool(checked.violation) == is_steady


@pytest.mark.parametrize("expected", [True, False])
def test_conflict_is_a_violation_unless_the_assignor_is_broken(
    checked: Checked, *, expected: bool
) -> None:
    if expected:
        checked.checker.expects_conflicts = True
    conflict = OwnershipConflict(
        group="g", generation=1, topic="t", partition=0, holder="a", given_to="b", withheld=True
    )
    checked.journal(conflict)
    assert bool(checked.violation) != expected


def test_conflict_that_is_not_withheld_is_a_violation(checked: Checked) -> None:
    checked.checker.expects_conflicts = True
    conflict = OwnershipConflict(
        group="g", generation=1, topic="t", partition=0, holder="a", given_to="b", withheld=False
    )
    checked.journal(conflict)
    assert "what another member owns" in checked.violation


def test_first_violation_is_kept(checked: Checked) -> None:
    checked.joined(checked.ann, 1)
    first = checked.violation
    checked.joined(checked.bob, 2)
    assert checked.violation == first


# -- when all is calm ------------------------------------------------------------------------------


def settled(checked: Checked, *partitions: tuple[str, int]) -> str:
    """Look at a group that has calmed down; what is wrong with it."""
    workers = cast(Any, [checked.ann, checked.bob])
    checked.checker.check_settled(workers, partitions)
    return checked.violation


def at_work(checked: Checked, who: FakeWorker, partition: Owned) -> None:
    """Have a worker own a partition and work on it."""
    who.owned.append(partition)
    checked.do("started", who, partition)


def test_settled_group_has_no_violation(checked: Checked) -> None:
    at_work(checked, checked.ann, Owned(1))
    at_work(checked, checked.bob, Owned(1, number=1))
    assert settled(checked, ("t", 0), ("t", 1)) == ""


def test_partition_without_an_owner_is_a_violation(checked: Checked) -> None:
    at_work(checked, checked.ann, Owned(1))
    assert "without an owner" in settled(checked, ("t", 0), ("t", 1))


def test_owning_what_does_not_exist_is_a_violation(checked: Checked) -> None:
    at_work(checked, checked.ann, Owned(1))
    assert "without existing" in settled(checked)


def test_partition_with_two_owners_is_a_violation(checked: Checked) -> None:
    at_work(checked, checked.ann, Owned(1))
    checked.bob.owned.append(Owned(2))
    assert "is owned by ann and bob" in settled(checked, ("t", 0))


def test_idle_owner_is_a_violation(checked: Checked) -> None:
    at_work(checked, checked.ann, Owned(1))
    checked.do("ended", checked.ann, Owned(1))
    assert "ann owns t[0] but does not work" in settled(checked, ("t", 0)).replace(
        str(Owned(1)), "t[0]"
    )


def test_owning_other_than_the_assignment_is_a_violation(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work(checked, checked.ann, Owned(1))
    journal = checked.checker.__dict__["_journal"]
    monkeypatch.setattr(
        journal, "assignment", lambda _group, name: {("t", 0)} if name == "bob" else set()
    )
    assert "ann owns [('t', 0)], but was assigned []" in settled(checked, ("t", 0))
