"""What is read out of a journal: when members came, went, and were silent or busy."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.journal import (
    Event,
    MemberReplaced,
    NodeStarted,
    NodeStopped,
    RebalanceStarted,
    TopicChanged,
)
from coterie_testing.replay import (
    RecordedMember,
    Recording,
    Silence,
    Stall,
    SubscriptionChange,
)
from coterie_testing.replay.member import instance_ids
from tests.testing.replay.lines import (
    BEGAN_MS,
    completed,
    gone,
    joined,
    phase,
    recorded,
    recovered,
    seconds,
    started,
)


def test_leaving_is_read_as_leaving() -> None:
    (member,) = recorded((0, joined("a1")), (60, gone("a1", "left"))).members
    assert (seconds(member.began_ms), seconds(member.ended_ms), member.left) == (0, 60, True)


def test_dead_member_ended_when_it_was_last_heard_of() -> None:
    (member,) = recorded((0, joined("a1")), (60, gone("a1", "session_expired", 10_000))).members
    assert (seconds(member.ended_ms), member.left) == (50, False)


def test_silence_is_at_most_a_session() -> None:
    (member,) = recorded((0, joined("a1")), (60, gone("a1", "session_expired", 40_000))).members
    assert seconds(member.ended_ms) == 50


def test_unknown_silence_is_taken_for_a_session() -> None:
    (member,) = recorded((0, joined("a1")), (60, gone("a1", "session_expired"))).members
    assert seconds(member.ended_ms) == 50


def test_silent_member_that_came_back_is_one_process() -> None:
    (member,) = recorded(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (65, joined("a2")),
    ).members
    assert member.silences == [Silence(BEGAN_MS + 50_000, BEGAN_MS + 65_000)]
    assert member.ended_ms is None


def test_member_from_another_host_is_another_process() -> None:
    first, second = recorded(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (65, joined("a2", host="/10.0.0.2")),
    ).members
    assert seconds(first.ended_ms) == 50
    assert second.ended_ms is None


def test_member_that_comes_much_later_is_another_process() -> None:
    members = recorded(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (4_000, joined("a2")),
    ).members
    assert len(members) == 2


def test_member_that_joins_for_the_first_time_is_another_process() -> None:
    members = recorded(
        (0, joined("a1")),
        (60, gone("a1", "session_expired", 10_000)),
        (65, joined("a2", reason="first join")),
    ).members
    assert len(members) == 2


def test_member_that_joined_late_was_stalled() -> None:
    (member,) = recorded(
        (0, joined("a1")),
        (100, gone("a1", "rebalance_expired")),
        (110, joined("a2")),
    ).members
    assert member.stalls == [Stall(BEGAN_MS + 40_000, BEGAN_MS + 110_000)]


def test_member_that_left_for_a_poll_timeout_was_stalled() -> None:
    (member,) = recorded(
        (0, joined("a1")),
        (100, gone("a1", "left", reason="consumer poll timeout has expired.")),
        (130, joined("a2")),
    ).members
    assert member.stalls == [Stall(BEGAN_MS + 40_000, BEGAN_MS + 130_000, leaves=True)]
    assert member.ended_ms is None


def test_member_that_left_for_a_poll_timeout_and_never_returned_left() -> None:
    (member,) = recorded(
        (0, joined("a1")), (100, gone("a1", "left", reason="consumer poll timeout has expired."))
    ).members
    assert (seconds(member.ended_ms), member.left, member.stalls) == (100, True, [])


def test_replaced_static_member_ended_when_it_was_last_heard_of() -> None:
    old, new = recorded(
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
    ).members
    assert (seconds(old.ended_ms), old.left) == (26, False)
    assert (new.instance, new.topics, seconds(new.began_ms)) == ("i", old.topics, 30)
    assert (seconds(new.ended_ms), new.left) == (60, True)


def test_join_time_is_the_median_over_the_rebalances_that_awaited_the_member() -> None:
    joins: list[tuple[int, Event]] = []
    for second, took_ms in ((1, 100), (2, 40_000), (3, 200)):
        joins += [(second, started("a1")), (second, phase(("a1", took_ms)))]
    joins += [(4, started("b1")), (4, phase(("a1", 0)))]
    (member,) = recorded((0, joined("a1")), *joins).members
    assert member.joins_ms == [100, 40_000, 200]
    assert member.join_ms == 200


@pytest.mark.parametrize(("step_ms", "heartbeat_ms"), [(40, 400), (200, 3_000), (600, 3_000)])
def test_heartbeat_interval_is_the_spread_of_joins_or_the_usual_one_nearby(
    step_ms: int, heartbeat_ms: int
) -> None:
    """Members hear of a rebalance from their next heartbeat, so joins spread over that time."""
    joins: list[tuple[int, Event]] = []
    for number in range(11):
        joins += [(number, started("a1")), (number, phase(("a1", 500 + number * step_ms)))]
    assert recorded((0, joined("a1")), *joins).heartbeat_ms == heartbeat_ms


def test_too_few_joins_show_no_heartbeat_interval() -> None:
    assert recorded((0, joined("a1"))).heartbeat_ms is None


def test_subscription_changes_with_a_join() -> None:
    (member,) = recorded(
        (0, joined("a1")),
        (1, phase(("a1", 0))),
        (50, started("a1", cause="subscription_changed")),
        (51, phase(("a1", 700), topics=("more",))),
    ).members
    assert member.subscriptions == [SubscriptionChange(BEGAN_MS + 50_700, frozenset({"more"}))]


def test_member_that_nobody_saw_joining_was_there_from_the_beginning() -> None:
    first, second = recorded(
        (5, joined("b1")),
        (6, phase(("a-0123456789ab", 0), ("b1", 0))),
        (60, gone("a-0123456789ab", "session_expired", 10_000)),
    ).members
    assert (second.client_id, seconds(second.began_ms), seconds(second.ended_ms)) == ("a", 5, 50)
    assert (second.session_ms, second.rebalance_ms) == (10_000, 60_000)
    assert (second.assignors, second.topics) == (("range",), first.topics)


def test_partition_counts_are_read_from_assignments() -> None:
    assigned: dict[str, dict[str, tuple[int, ...]]] = {
        "a1": {"jobs": (0, 4)},
        "b1": {"jobs": (2,), "more": (0,)},
    }
    recording = recorded((0, joined("a1")), (0, joined("b1")), (1, completed(assigned)))
    assert recording.topics == {"jobs": 5, "more": 1}
    assert recording.assumptions == ()


def test_assumptions_are_listed() -> None:
    unknown = {
        "client_id": "",
        "session_timeout_ms": 0,
        "rebalance_timeout_ms": 0,
        "protocols": (),
        "topics": None,
    }
    recording = recorded(
        (0, joined("a1", **unknown, host="/10.0.0.1")),
        (0, joined("b1", **unknown, host="/10.0.0.2")),
        (1, completed(None)),
    )
    assert recording.assumptions == (
        "session timeouts of 45000 ms",
        "rebalance timeouts of 300000 ms",
        "the assignor cooperative-sticky",
        "2 partitions for each topic",
    )
    assert recording.topics == {"assumed": 2}
    assert {member.topics for member in recording.members} == {frozenset({"assumed"})}


def test_group_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="no member joined the group in this time"):
        recorded((0, recovered()))


@pytest.mark.parametrize(("took_ms", "delay_ms"), [(4, 0), (5_001, 5_001), (6_004, 3_000)])
def test_initial_delay_is_read_from_settings_or_else_from_first_rebalances(
    took_ms: int, delay_ms: int
) -> None:
    first = RebalanceStarted(
        group="g",
        generation=0,
        from_state="Empty",
        cause="member_joined",
        detail="",
        awaited=(),
        deadline=None,
    )
    events = [(0, joined("a1")), (0, first), (3, phase(("a1", took_ms)))]
    assert recorded(*events).settings == {"group_initial_rebalance_delay_ms": delay_ms}
    settings = {"group.initial.rebalance.delay.ms": 3000, "group.max.size": 9, "shards": 50}
    node = NodeStarted(version="1", groups=0, offsets=0, load_ms=1, settings=settings)
    assert recorded((0, node), *events).settings == {
        "group_initial_rebalance_delay_ms": 3_000,
        "group_max_size": 9,
    }


def test_topics_begin_as_they_were_at_the_first_member_and_change_later() -> None:
    def changed(before: int, after: int) -> TopicChanged:
        return TopicChanged(
            topic="jobs", change="grown", partitions_before=before, partitions=after
        )

    recording = recorded((0, changed(0, 3)), (10, joined("a1")), (20, changed(3, 6)))
    assert recording.topics == {"jobs": 3}
    assert [(seconds(ms), topic, count) for ms, topic, count in recording.topic_changes] == [
        (20, "jobs", 6)
    ]


def test_coordinator_was_away_from_its_stop_or_for_some_seconds_at_most() -> None:
    recording = recorded(
        (1, joined("a1")),
        (10, NodeStopped(reason="SIGTERM")),
        (12, recovered("a1")),
        (20, joined("b1")),
        (50, recovered("a1", "b1")),
        (52, recovered("a1", "b1")),
    )
    assert recording.outages == [
        Silence(BEGAN_MS + 10_000, BEGAN_MS + 12_000),
        Silence(BEGAN_MS + 45_000, BEGAN_MS + 50_000),
        Silence(BEGAN_MS + 50_000, BEGAN_MS + 52_000),
    ]


def test_member_that_a_crash_forgot_is_one_process_with_its_second_join() -> None:
    (member,) = recorded((0, joined("a1")), (1, recovered()), (2, joined("a2"))).members
    assert (member.silences, member.ended_ms) == ([], None)


def test_lines_of_other_groups_are_ignored() -> None:
    assert recorded((0, joined("a1")), (1, joined("b1", group="other"))).members[0].client_id == "a"


def member(began_ms: int, ended_ms: int | None, **fields: Any) -> RecordedMember:
    """A process."""
    values: dict[str, Any] = {
        "client_id": "pod",
        "host": "/10.0.0.1",
        "instance": None,
        "topics": frozenset({"jobs"}),
        "session_ms": 10_000,
        "rebalance_ms": 60_000,
        "assignors": ("range",),
    }
    return RecordedMember(began_ms=began_ms, ended_ms=ended_ms, **values | fields)


def test_instance_id_of_a_successor_is_of_the_same_host_or_free_last() -> None:
    members = [
        member(0, 100, host="/10.0.0.1"),
        member(0, 120, host="/10.0.0.2"),
        member(0, None, host="/10.0.0.3"),
        member(0, 90, client_id="other"),
        member(130, None, host="/10.0.0.1"),
        member(140, None, host="/10.0.0.4"),
        member(150, None, host="/10.0.0.5"),
    ]
    assert instance_ids(members) == [
        "pod-1",
        "pod-2",
        "pod-3",
        "other-1",
        "pod-1",
        "pod-2",
        "pod-4",
    ]


def test_static_members_keep_their_instance_ids() -> None:
    members = [member(0, 10, instance="i"), member(20, None, instance="i", host="/10.0.0.2")]
    assert instance_ids(members) == ["i", "i"]


def test_quiet_times_are_cut_short() -> None:
    recording = Recording(
        group="g",
        began_ms=0,
        ended_ms=1_000_000,
        members=[
            member(0, 500_000),
            member(400, None, silences=[Silence(600_000, 700_000)]),
        ],
        topics={},
        topic_changes=[(700_050, "jobs", 3)],
        outages=[],
    )
    short = recording.condensed(1_000)
    first, second = short.members
    assert (first.began_ms, first.ended_ms, second.began_ms) == (0, 1_400, 400)
    assert second.silences == [Silence(2_400, 102_400)]
    assert short.topic_changes == [(102_450, "jobs", 3)]
    assert short.ended_ms == 103_450
