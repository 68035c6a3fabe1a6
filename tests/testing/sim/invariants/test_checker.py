"""The invariant checker finds each violation, and exempts workers that can't know better."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coterie_client import Partition
from coterie_client.membership.events import CoordinatorLost, GroupJoined
from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    MemberGone,
    MemberReplaced,
    OwnershipConflict,
)
from coterie_testing.sim.invariants.checker import InvariantChecker
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Scheduler


@dataclass(frozen=True)
class Owned:
    """A partition, as a worker owns it."""

    token: int = 1
    topic: str = "t"
    number: int = 0
    is_owned: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number


@dataclass(eq=False)
class FakeWorker:
    """A worker, as far as the checker looks at it."""

    name: str
    instance: str | None = None
    owned: list[Owned] = field(default_factory=list)
    group_id: str = "g"
    is_running: bool = True

    @property
    def options(self) -> SimpleNamespace:
        return SimpleNamespace(instance=self.instance, session_timeout=10.0)

    @property
    def group(self) -> SimpleNamespace:
        return SimpleNamespace(owned=self.owned, member_id=self.name)


class Checked:
    """A checker, and two workers that it is told of."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.checker = InvariantChecker(self.scheduler)
        self.ann, self.bob = FakeWorker("ann"), FakeWorker("bob")
        #: The members, by the journal.
        self.members = {"ann", "bob"}
        self.checker.__dict__["_journal"].members = lambda _: self.members

    def do(self, what: str, who: FakeWorker, partition: Owned, *offset: int) -> None:
        """Tell the checker what a worker does."""
        getattr(self.checker, what)(cast(Worker, who), cast(Partition, partition), *offset)

    def joined(self, who: FakeWorker, generation: int = 0) -> None:
        """Have a worker's client tell that it is in a generation."""
        event = GroupJoined(
            member_id=who.name, generation=generation, is_leader=False, assignor="range"
        )
        self.checker.client_event(cast(Worker, who), event)

    def journal(self, event: Event) -> None:
        """Journal an event."""
        self.checker.journalled(self.scheduler.now_ms, event)

    @property
    def violation(self) -> str:
        """The first violation; empty if there is none."""
        return str(self.checker.violation or "")


@pytest.fixture
def checked() -> Checked:
    """A checker and two workers."""
    return Checked()


def gone(member: str, how: str) -> MemberGone:
    """A member is gone."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="",
        how=how,
        silent_ms=10_000,
        session_timeout_ms=10_000,
    )


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


def replaced(former: str) -> MemberReplaced:
    """Another process took over a name."""
    return MemberReplaced(
        group="g",
        instance="i",
        member="x",
        host="",
        former_member=former,
        former_host="",
        silent_ms=0,
    )


def recovered(*members: str) -> GroupRecovered:
    """A coordinator read the group back."""
    return GroupRecovered(group="g", state="Stable", generation=0, members=members)


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
    checked.journal(gone("nobody", "left"))
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


@pytest.mark.parametrize("is_calm", [True, False])
def test_losing_a_healthy_coordinator_is_a_violation(checked: Checked, *, is_calm: bool) -> None:
    checked.checker.is_calm = is_calm
    lost = CoordinatorLost(node="n", reason="r", had_served=True)
    checked.checker.client_event(cast(Worker, checked.ann), lost)
    assert bool(checked.violation) == is_calm


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
    """Have somebody own a partition and work on it."""
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
