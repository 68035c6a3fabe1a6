"""The journal checker finds each contradiction, and none in a possible history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    GroupRecovered,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    OffsetsCommitted,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_testing.sim.invariants.journal import JournalChecker

Shares = Mapping[str, Sequence[int]]


def came(member: str) -> MemberJoined:
    """A member came, and wants to be waited for 30 s."""
    return MemberJoined(
        group="g",
        member=member,
        instance=None,
        client_id="c",
        host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocols=("range",),
        topics=("t",),
    )


def gone(member: str, how: str = "left", silent_ms: int = 0) -> MemberGone:
    """A member went."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="/h",
        how=how,
        silent_ms=silent_ms,
        session_timeout_ms=10_000,
    )


def replaced(old: str, new: str) -> MemberReplaced:
    """A static member came back."""
    return MemberReplaced(
        group="g",
        instance="i",
        member=new,
        host="/h",
        former_member=old,
        former_host="/h",
        silent_ms=0,
    )


def started(generation: int, cause: str = "member_joined") -> RebalanceStarted:
    """A first phase began."""
    return RebalanceStarted(
        group="g",
        generation=generation,
        from_state="Stable",
        cause=cause,
        detail="",
        awaited=(),
        deadline=None,
    )


def joined(generation: int, *members: str, **others: object) -> PhaseJoined:
    """A first phase was over."""
    phases = tuple(
        MemberPhase(member=name, instance=None, host="/h", joined_after_ms=0) for name in members
    )
    event = PhaseJoined(
        group="g",
        generation=generation,
        protocol_type="consumer",
        protocol="range",
        leader=members[0],
        members=phases,
        dropped=(),
        last=None,
        cause="member_joined",
        took_ms=0,
    )
    return replace(event, **others)  # type: ignore[arg-type]


def shared(generation: int, shares: Shares) -> RebalanceCompleted:
    """An assignment was in place."""
    return RebalanceCompleted(
        group="g",
        generation=generation,
        cause="member_joined",
        assigned={name: {"t": tuple(numbers)} for name, numbers in shares.items()},
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=0,
        total_ms=0,
    )


def recovered(generation: int, shares: Shares, state: str = "Stable") -> GroupRecovered:
    """A group was read back."""
    return GroupRecovered(
        group="g",
        state=state,
        generation=generation,
        members=tuple(shares),
        assigned={name: {"t": tuple(numbers)} for name, numbers in shares.items()},
    )


def committed(member: str, generation: int, partition: int = 0) -> OffsetsCommitted:
    """A commit passed."""
    return OffsetsCommitted(
        group="g", member=member, generation=generation, offsets={"t": {str(partition): 1}}
    )


#: A group of two at work in generation 1.
AT_WORK = (
    came("a"),
    started(0),
    came("b"),
    joined(1, "a", "b"),
    shared(1, {"a": [0], "b": [1]}),
)


def violations(
    *events: Event, journal: JournalChecker | None = None, step_ms: int = 100
) -> list[str]:
    """The violations in a journal that goes on like this once a group is at work."""
    journal = journal or JournalChecker()
    found: list[str] = []
    for number, event in enumerate((*AT_WORK, *events)):
        found += journal.journalled(number * step_ms, event)
    return found


@pytest.mark.parametrize(
    "events",
    [
        [committed("a", 1)],
        [gone("b"), started(1, "member_left"), joined(2, "a"), shared(2, {"a": [0, 1]})],
        [replaced("a", "a2"), committed("a2", 1)],
        [recovered(1, {"a": [0], "b": [1]}), committed("b", 1, 1)],
        [recovered(2, {"a": [0]}, "PreparingRebalance"), joined(3, "a"), shared(3, {"a": [0]})],
        [gone("a"), gone("b"), GroupEmptied(group="g", generation=2), came("c"), started(2)],
        [gone("b", "session_expired", 10_000)],
        [started(1), joined(2, "a", "b"), started(2), joined(3, "a", "b")],
        [started(1), committed("a", 1), joined(2, "a", "b")],
    ],
)
def test_possible_histories_have_no_violation(events: list[Event]) -> None:
    assert violations(*events) == []


#: A generation that a member was left out of a millisecond too early.
LATE = joined(2, "a", dropped=("b",), took_ms=29_999)


@pytest.mark.parametrize(
    ("violation", "events"),
    [
        ("no known cause", [started(1, "boredom")]),
        ("no known cause", [started(1), joined(2, "a", "b", cause="boredom")]),
        ("another generation", [started(7)]),
        ("without a rebalance", [joined(2, "a", "b")]),
        ("without a rebalance", [started(1), joined(2, "a", "b"), joined(3, "a", "b")]),
        ("not newer", [started(1), joined(1, "a", "b")]),
        ("other members than", [started(1), joined(2, "a")]),
        ("other members than", [started(1), joined(2, "a", "b", "x")]),
        ("the leader is not", [started(1), joined(2, "a", "b", leader="x")]),
        ("waited for only 29999 ms", [gone("b", "rebalance_expired"), started(1), LATE]),
        ("waited for only 100 ms", [started(1), joined(2, "a", "b"), gone("b", "sync_expired")]),
        ("heard of 4999 ms ago", [gone("b", "session_expired", 4_999)]),
        ("not in the group", [gone("x")]),
        ("is the newest", [shared(2, {"a": [0], "b": [1]})]),
        ("assigned to others", [started(1), joined(2, "a", "b"), shared(2, {"a": [0, 1]})]),
        ("assigned twice", [started(1), joined(2, "a", "b"), shared(2, {"a": [0], "b": [0]})]),
        ("empty, but has", [gone("a"), GroupEmptied(group="g", generation=2)]),
        ("not newer", [gone("a"), gone("b"), GroupEmptied(group="g", generation=1)]),
        ("was forgotten", [recovered(0, {"a": [0], "b": [1]})]),
        ("differs from before", [recovered(1, {"a": [0]})]),
        ("differs from before", [recovered(1, {"a": [0, 1], "b": []})]),
        ("is the newest", [started(1), joined(2, "a", "b"), committed("a", 1)]),
        ("that is no member", [gone("b"), committed("b", 1, 1)]),
        ("that is no member", [replaced("a", "a2"), committed("a", 1, 5)]),
        ("for a partition of b", [committed("a", 1, 1)]),
        ("had an assignment", [started(1), joined(2, "a", "b"), committed("a", 2)]),
    ],
)  # fmt: skip
def test_each_contradiction_has_one_violation(violation: str, events: list[Event]) -> None:
    (found,) = violations(*events)
    assert violation in found


def test_replaced_static_member_passes_its_assignment_on() -> None:
    journal = JournalChecker()
    assert violations(replaced("a", "a2"), journal=journal) == []
    assert journal.assignment("g", "a2") == frozenset({("t", 0)})
    assert journal.assignment("g", "a") == frozenset()
    assert journal.generation("g") == 1


@pytest.mark.parametrize(("first", "count"), [(0, 0), (1_000_000, 0), (2_000_000, 0), (3, 1)])
def test_new_group_begins_with_the_first_generation_of_a_timeline(first: int, count: int) -> None:
    journal = JournalChecker()
    events = (came("a"), started(first), joined(first + 1, "a"))
    found = [each for event in events for each in journal.journalled(0, event)]
    assert len(found) == count
