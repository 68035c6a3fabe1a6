"""What is read into a journal: who came and went, who was silent, and who was slow."""

from __future__ import annotations

from typing import Any

from coterie_protocol.journal import (
    Event,
    Line,
    MemberGone,
    MemberJoined,
    MemberPhase,
    MemberReplaced,
    NodeStarted,
    NodeStopped,
    PhaseJoined,
    RebalanceCompleted,
    TopicChanged,
)
from coterie_testing.replay import Play, Silence, play_of

BEGAN_MS = 1_700_000_000_000


def joined(member: str, **fields: Any) -> MemberJoined:
    """A member joins."""
    values: dict[str, Any] = {
        "group": "g",
        "member": member,
        "instance": None,
        "client_id": member.rstrip("0123456789"),
        "host": "/10.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocols": ("range",),
        "topics": ("jobs",),
    }
    return MemberJoined(**values | fields)


def gone(member: str, how: str, silent_ms: int = 0) -> MemberGone:
    """A member is no longer there."""
    return MemberGone(
        group="g",
        member=member,
        instance=None,
        host="/10.0.0.1",
        how=how,
        silent_ms=silent_ms,
        session_timeout_ms=10_000,
    )


def told(*events: tuple[int, Event]) -> Play:
    """What is read out of events, each with its second."""
    lines = [
        Line(BEGAN_MS + second * 1000, "1", number, event)
        for number, (second, event) in enumerate(events)
    ]
    return play_of(lines, "g")


def seconds(ms: int | None) -> float | None:
    """A moment, counted from the beginning."""
    return None if ms is None else (ms - BEGAN_MS) / 1000


def test_member_that_left() -> None:
    """It said goodbye."""
    (life,) = told((0, joined("a1")), (60, gone("a1", "left"))).lives
    assert (seconds(life.began_ms), seconds(life.ended_ms), life.left) == (0, 60, True)


def test_member_that_died() -> None:
    """Dead since it was last heard of, and not since it was dropped."""
    (life,) = told((0, joined("a1")), (60, gone("a1", "session_expired", 10_000))).lives
    assert (seconds(life.ended_ms), life.left) == (50, False)


def test_member_that_was_silent_and_came_back() -> None:
    """One process, not two."""
    (life,) = told(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (65, joined("a2")),
    ).lives
    assert life.silences == [Silence(BEGAN_MS + 50_000, BEGAN_MS + 65_000)]
    assert life.ended_ms is None


def test_process_from_elsewhere_is_another_one() -> None:
    """It has a host of its own."""
    first, second = told(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (65, joined("a2", host="/10.0.0.2")),
    ).lives
    assert seconds(first.ended_ms) == 50
    assert second.ended_ms is None


def test_process_that_comes_much_later_is_another_one() -> None:
    """It was started anew."""
    lives = told(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (4_000, joined("a2")),
    ).lives
    assert len(lives) == 2


def test_member_that_was_slow() -> None:
    """It lived, but did not join in time."""
    (life,) = told(
        (0, joined("a1")),
        (100, gone("a1", "rebalance_expired")),
        (110, joined("a2")),
    ).lives
    assert life.slow == [(BEGAN_MS + 40_000, 70_000)]


def test_static_member_that_was_replaced() -> None:
    """The old process was dead since it was last heard of; the new one is another."""
    old, new = told(
        (0, joined("i1", instance="i")),
        (
            30,
            MemberReplaced(
                group="g",
                instance="i",
                member="i2",
                host="/10.0.0.2",
                former_member="i1",
                former_host="/10.0.0.1",
                silent_ms=4_000,
            ),
        ),
        (60, gone("i2", "left")),
    ).lives
    assert (seconds(old.ended_ms), old.left) == (26, False)
    assert (new.instance, new.topics, seconds(new.began_ms)) == ("i", old.topics, 30)
    assert (seconds(new.ended_ms), new.left) == (60, True)


def test_how_long_members_take_to_join() -> None:
    """The usual time, whatever the outliers."""
    joins = [
        (
            second,
            PhaseJoined(
                group="g",
                generation=second,
                protocol_type="consumer",
                protocol="range",
                leader="a1",
                members=(
                    MemberPhase(member="a1", instance=None, host="", joined_after_ms=took_ms),
                ),
                dropped=(),
                last=None,
                cause="member_joined",
                took_ms=took_ms,
            ),
        )
        for second, took_ms in ((1, 100), (2, 40_000), (3, 200))
    ]
    (life,) = told((0, joined("a1")), *joins).lives
    assert life.finish_ms == 200


def test_topics_are_known_by_what_was_assigned() -> None:
    """A journal does not have to begin with the topics' creation."""
    assigned: dict[str, dict[str, tuple[int, ...]]] = {
        "a1": {"jobs": (0, 4)},
        "b1": {"jobs": (2,), "more": (0,)},
    }
    completed = RebalanceCompleted(
        group="g",
        generation=1,
        cause="member_joined",
        assigned=assigned,
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=1,
        total_ms=1,
    )
    assert told((0, joined("a1")), (1, completed)).topics == {"jobs": 5, "more": 1}


def test_topics_that_change() -> None:
    """What was before the first member is where it begins; the rest happens again."""

    def changed(before: int, after: int) -> TopicChanged:
        return TopicChanged(
            topic="jobs", change="grown", partitions_before=before, partitions=after
        )

    play = told((0, changed(0, 3)), (10, joined("a1")), (20, changed(3, 6)))
    assert play.topics == {"jobs": 3}
    assert [(seconds(ms), topic, count) for ms, topic, count in play.topic_changes] == [
        (20, "jobs", 6)
    ]


def test_coordinator_that_was_away() -> None:
    """From its goodbye, or from its last line if there is none."""
    started = NodeStarted(version="1", groups=1, offsets=0, load_ms=1)
    play = told(
        (0, started),
        (1, joined("a1")),
        (10, NodeStopped(reason="SIGTERM")),
        (12, started),
        (20, joined("b1")),
        (50, started),
    )
    assert play.absences == [
        Silence(BEGAN_MS + 10_000, BEGAN_MS + 12_000),
        Silence(BEGAN_MS + 20_000, BEGAN_MS + 50_000),
    ]


def test_other_groups_do_not_matter() -> None:
    """A journal tells of all groups of its node."""
    assert told((0, joined("a1")), (1, joined("b1", group="other"))).lives[0].client_id == "a"
