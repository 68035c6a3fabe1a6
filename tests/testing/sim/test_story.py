"""The journal's story: each contradiction is found, and a true story has none."""

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
from coterie_testing.sim.story import Story

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


def complaints(*events: Event, story: Story | None = None, step_ms: int = 100) -> list[str]:
    """What is wrong with a story that goes on with these after a group came to work."""
    story = story or Story()
    found: list[str] = []
    for number, event in enumerate((*AT_WORK, *events)):
        found += story.hear(number * step_ms, event)
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
def test_true_stories_pass(events: list[Event]) -> None:
    """Nothing is wrong with what can happen."""
    assert complaints(*events) == []


#: A generation that somebody was left out of a millisecond too early.
LATE = joined(2, "a", dropped=("b",), took_ms=29_999)


@pytest.mark.parametrize(
    ("complaint", "events"),
    [
        ("no known cause", [started(1, "boredom")]),
        ("no known cause", [started(1), joined(2, "a", "b", cause="boredom")]),
        ("another generation", [started(7)]),
        ("without a rebalance", [joined(2, "a", "b")]),
        ("without a rebalance", [started(1), joined(2, "a", "b"), joined(3, "a", "b")]),
        ("not newer", [started(1), joined(1, "a", "b")]),
        ("was not told", [started(1), joined(2, "a")]),
        ("was not told", [started(1), joined(2, "a", "b", "x")]),
        ("leads", [started(1), joined(2, "a", "b", leader="x")]),
        ("waited for only 29999 ms", [gone("b", "rebalance_expired"), started(1), LATE]),
        ("waited for only 100 ms", [started(1), joined(2, "a", "b"), gone("b", "sync_expired")]),
        ("heard of 4999 ms ago", [gone("b", "session_expired", 4_999)]),
        ("not there", [gone("x")]),
        ("is the newest", [shared(2, {"a": [0], "b": [1]})]),
        ("among others", [started(1), joined(2, "a", "b"), shared(2, {"a": [0, 1]})]),
        ("given away twice", [started(1), joined(2, "a", "b"), shared(2, {"a": [0], "b": [0]})]),
        ("empty, although", [gone("a"), GroupEmptied(group="g", generation=2)]),
        ("not newer", [gone("a"), gone("b"), GroupEmptied(group="g", generation=1)]),
        ("was forgotten", [recovered(0, {"a": [0], "b": [1]})]),
        ("not what it was", [recovered(1, {"a": [0]})]),
        ("not what it was", [recovered(1, {"a": [0, 1], "b": []})]),
        ("is the newest", [started(1), joined(2, "a", "b"), committed("a", 1)]),
        ("who is no member", [gone("b"), committed("b", 1, 1)]),
        ("who is no member", [replaced("a", "a2"), committed("a", 1, 5)]),
        ("for what is b's", [committed("a", 1, 1)]),
        ("given anything", [started(1), joined(2, "a", "b"), committed("a", 2)]),
    ],
)  # fmt: skip
def test_contradictions_are_found(complaint: str, events: list[Event]) -> None:
    """Each story that can't be true is found out by what is wrong with it, and only by that."""
    (found,) = complaints(*events)
    assert complaint in found


def test_shares_follow_static_members() -> None:
    """Who takes a static member's place has what that one was given."""
    story = Story()
    assert complaints(replaced("a", "a2"), story=story) == []
    assert story.share("g", "a2") == frozenset({("t", 0)})
    assert story.share("g", "a") == frozenset()
    assert story.generation("g") == 1
