"""What administrators' orders forbid, and how the checker says so."""

from __future__ import annotations

from collections import defaultdict

from coterie_protocol.journal import Event, MemberPhase, OperationStarted
from coterie_testing.sim.invariants.operations import OperationChecker
from tests.support.journal_events import completed, phase_joined

DRAIN = OperationStarted(
    group="g",
    operation="drain",
    member="m2",
    instance=None,
    partitions=None,
    at_a_time=1,
    until=None,
    by="",
    reason="",
)


def member(name: str) -> MemberPhase:
    """A member that has joined."""
    return MemberPhase(member=name, instance=None, host="/h", joined_after_ms=0, topics=("t",))


def told(*events: Event) -> list[str]:
    """What is wrong about a journal."""
    checker = OperationChecker(defaultdict(int))
    return [fault for event in events for fault in checker.journalled(0, event)]


def test_drained_member_is_given_nothing_while_another_can_have_it() -> None:
    both = phase_joined(member("m1"), member("m2"), generation=3)
    (fault,) = told(DRAIN, both, completed(generation=3, assigned={"m2": {"t": (0,)}}))
    assert fault == "m2 is drained, and is given ('t', 0)"


def test_members_of_another_generation_count_for_nothing() -> None:
    """A node that was killed may have formed one without a line, and another goes on with that."""
    both = phase_joined(member("m1"), member("m2"), generation=3)
    assert told(DRAIN, both, completed(generation=4, assigned={"m2": {"t": (0,)}})) == []
