"""What a member with state reports, and what it does about standbys and warm-ups."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1

from coterie_assignors import RUNNING, UNKNOWN, RangeAssignor, StickyAssignor, WarmSettings
from coterie_client.membership import Assign, KeepWarm, Role
from coterie_client.membership.events import (
    ReportVersionChanged,
    StandbysChanged,
    StandbysPromoted,
    WarmUpReady,
)
from coterie_client.membership.warm_blocks import Orders
from coterie_client.wire.addresses import TopicPartition
from coterie_protocol.consumer import decode_subscription
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatRequest, JoinGroupRequest
from tests.support.scripted_membership import Script, report_of

T0, T1, T2, T3 = (("t", number) for number in range(4))
U0 = ("u", 0)

SETTINGS = WarmSettings(acceptable_recovery_lag=100)


def orders(
    *standbys: TopicPartition, warming: tuple[TopicPartition, ...] = (), **more: object
) -> Orders:
    """What a leader tells."""
    return Orders(frozenset(standbys) | frozenset(warming), frozenset(warming), **more)  # type: ignore[arg-type]


def joining(held: Mapping[TopicPartition, int] | None = None, **options: object) -> Script:
    """A member with state whose first join is under way."""
    script = Script("t", **{"warm": SETTINGS} | options).keep_warm(held).start()  # type: ignore[arg-type]
    script.tell_topics()
    script.find()
    return script


def working(
    *partitions: TopicPartition,
    standbys: tuple[TopicPartition, ...] = (),
    warming: tuple[TopicPartition, ...] = (),
    **more: object,
) -> Script:
    """A member with state that is at work."""
    script = joining()
    script.join(5)
    script.sync(*partitions, orders=orders(*standbys, warming=warming, **more))
    script.beat()
    return script


def again(script: Script) -> None:
    """The group rebalances, and the member joins."""
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)


def reported(script: Script) -> Mapping[TopicPartition, int]:
    """The lags in the join that is under way."""
    found = report_of(script.asks(JoinGroupRequest))
    assert found is not None
    return found.report.lags


# -- reports -----------------------------------------------------------------------------------


def test_member_without_state_reports_nothing() -> None:
    script = Script("t").start()
    script.find()
    join = script.asks(JoinGroupRequest)
    assert report_of(join) is None
    assert decode_subscription(join.protocols[0].metadata).user_data == b"\xff\xff\xff\xff"


def test_report_follows_what_the_assignor_tells() -> None:
    plain = Script("t").start()
    plain.find()
    own = decode_subscription(plain.asks(JoinGroupRequest).protocols[0].metadata).user_data
    told = decode_subscription(joining().asks(JoinGroupRequest).protocols[0].metadata).user_data
    assert own is not None
    assert told is not None
    assert told.startswith(own)
    assert len(told) > len(own)


def test_stock_assignor_reads_its_own_data_before_the_report() -> None:
    script = Script("t", warm=SETTINGS, assignors=[StickyAssignor()]).keep_warm({T3: 5}).start()
    script.settle(T0, T1)
    again(script)
    script.release()
    data = decode_subscription(script.asks(JoinGroupRequest).protocols[0].metadata).user_data
    theirs = StickyAssignorUserDataV1.decode(data)
    assert theirs.previous_assignment == [("t", [0, 1])]
    assert reported(script) == {T0: RUNNING, T1: RUNNING, T3: 5}


def test_first_report_is_what_is_on_disk() -> None:
    script = joining({T1: 7, T2: -3, ("other", 0): 1})
    assert reported(script) == {T1: 7, T2: UNKNOWN}


def test_report_names_the_process_and_its_tags() -> None:
    script = joining(tags={"zone": "a"})
    found = report_of(script.asks(JoinGroupRequest))
    assert found is not None
    assert found.report.tags == {"zone": "a"}
    assert isinstance(found.report.process, UUID)
    again_ = report_of(joining(tags={"zone": "a"}).asks(JoinGroupRequest))
    assert again_ is not None


def test_what_is_worked_on_counts_as_running_and_standbys_with_the_lag_they_told() -> None:
    script = working(T0, standbys=(T1, T2))
    script.lag(T1, 12)
    again(script)
    assert reported(script) == {T0: RUNNING, T1: 12, T2: UNKNOWN}


def test_work_that_still_restores_counts_with_its_lag() -> None:
    script = working(T0, T1)
    script.lag(T0, 500)
    script.lag(T1, 500)
    script.lag(T1, 0)
    again(script)
    assert reported(script) == {T0: 500, T1: RUNNING}


def test_eager_member_reports_what_it_stopped_for_the_join() -> None:
    script = Script("t", "u", warm=SETTINGS, warm_version=7, assignors=[RangeAssignor()])
    script.keep_warm().start()
    script.settle(T0, T1, U0)
    script.lag(T1, 500)
    script.subscribe("t")
    script.release()
    assert reported(script) == {T0: RUNNING, T1: 500}


def test_lag_that_a_task_told_counts_before_what_was_on_disk() -> None:
    script = joining({T1: 900, T2: 30})
    script.join(5)
    script.sync(orders=orders(T1, T2))
    script.beat()
    script.lag(T1, 3)
    again(script)
    assert reported(script) == {T1: 3, T2: 30}


def test_what_was_let_go_of_may_still_be_on_the_disk_for_one_round() -> None:
    script = working(T0, T1, standbys=(T2,))
    script.lag(T2, 1)
    again(script)
    script.join(6)
    script.sync(T0, orders=orders())
    script.release()
    assert reported(script) == {T0: RUNNING, T1: UNKNOWN, T2: UNKNOWN}
    script.join(7)
    script.sync(T0, orders=orders())
    script.beat()
    again(script)
    assert reported(script) == {T0: RUNNING}


def test_what_was_lost_is_not_known_to_be_up_to_date() -> None:
    script = working(T0, standbys=(T1,))
    script.lag(T1, 4)
    script.refuse(HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID) if script.awaits(
        HeartbeatRequest
    ) else script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.working == {}
    assert reported(script) == {T0: UNKNOWN, T1: 4}


def test_standbys_outlive_a_lost_membership() -> None:
    script = working(T0, standbys=(T1,))
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.roles == {T1: Role.STANDBY}


def test_all_attempts_at_a_join_report_the_same() -> None:
    script = working(standbys=(T1,))
    script.lag(T1, 50)
    again(script)
    script.lag(T1, 40)
    script.refuse(JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.sleep(2_000)
    assert reported(script) == {T1: 50}


def test_held_that_raises_ends_the_membership() -> None:
    script = Script("t", warm=SETTINGS)

    def held() -> Mapping[TopicPartition, int]:
        raise OSError("no disk")

    script.do(script.machine.keep_warm(held, script.now_ms))
    script.start()
    script.tell_topics()
    script.find()
    assert script.stopped is not None
    assert isinstance(script.stopped.error, OSError)


def test_member_that_turns_out_to_have_state_joins_again_to_say_so() -> None:
    script = Script("t", warm=SETTINGS).start()
    script.settle(T0)
    script.keep_warm({T1: 5})
    join = script.asks(JoinGroupRequest)
    assert join.reason is not None
    assert join.reason.startswith("warm: ")
    assert reported(script) == {T0: RUNNING, T1: 5}


def test_member_that_has_state_by_the_time_of_its_first_join_joins_once() -> None:
    script = Script("t", warm=SETTINGS).start()
    script.keep_warm({T1: 5})
    script.tell_topics()
    script.find()
    assert reported(script) == {T1: 5}
    script.join(5)
    script.sync(T0)
    script.beat()
    assert not script.awaits(JoinGroupRequest)


# -- roles -------------------------------------------------------------------------------------


def test_roles_are_what_the_leader_says() -> None:
    script = working(T0, standbys=(T1,), warming=(T2,))
    assert script.roles == {T1: Role.STANDBY, T2: Role.WARM_UP}
    (changed,) = script.seen(StandbysChanged)
    assert (changed.standbys, changed.warm_ups, changed.added) == ((T1,), (T2,), (T1, T2))


def test_leader_that_says_nothing_takes_the_standbys_away() -> None:
    script = working(T0, standbys=(T1,))
    again(script)
    script.join(6)
    script.sync(T0)
    script.beat()
    assert script.roles == {}


def test_standby_is_ended_before_work_on_it_begins() -> None:
    script = working(warming=(T1,))
    script.lag(T1, 5_000)
    again(script)
    script.join(6)
    script.sync(T1, orders=orders())
    script.beat()
    told = [each for each in script.actions if isinstance(each, KeepWarm | Assign)]
    assert isinstance(told[-2], KeepWarm)
    assert told[-2].roles == {}
    assert isinstance(told[-1], Assign)
    (promoted,) = script.seen(StandbysPromoted)
    assert (promoted.partitions, promoted.lag) == ((T1,), 5_000)


def test_promoted_partition_counts_as_running_whatever_its_standby_told() -> None:
    script = working(warming=(T1,))
    script.lag(T1, 5_000)
    again(script)
    script.join(6)
    script.sync(T1, orders=orders())
    script.beat()
    again(script)
    assert reported(script) == {T1: RUNNING}


def test_partition_that_is_also_assigned_is_no_standby() -> None:
    script = working(T0, standbys=(T0, T1))
    assert script.roles == {T1: Role.STANDBY}


def test_what_is_let_go_of_may_become_a_standby() -> None:
    script = working(T0, T1)
    again(script)
    script.join(6)
    script.sync(T0, orders=orders(T1))
    assert script.revoking == {T1}
    assert script.roles == {T1: Role.STANDBY}


def test_member_without_state_keeps_nothing_up_to_date() -> None:
    script = Script("t").start()
    script.tell_topics()
    script.find()
    script.join(5)
    script.sync(T0, orders=orders(T1))
    script.beat()
    assert script.roles == {}


@pytest.mark.parametrize("leave", [True, False])
def test_closing_ends_standbys(leave: bool) -> None:  # noqa: FBT001
    script = working(T0, standbys=(T1,))
    script.close(leave=leave)
    assert script.roles == {}
    script.survive()


def test_fencing_ends_standbys() -> None:
    script = working(standbys=(T1,))
    script.next_beat(ErrorCode.FENCED_INSTANCE_ID)
    assert script.roles == {}


def test_unsubscribed_topic_has_no_standbys() -> None:
    script = working(T0, standbys=(T1,))
    script.subscribe("u")
    assert script.roles == {}


def test_topic_that_is_gone_has_no_standbys() -> None:
    script = working(T0, standbys=(T1, T3))
    script.sleep(60_000)
    for _ in range(3):
        script.answer_heartbeat()
        script.tell_topics(t=2)
        script.machine._topics.refresh(script.now_ms)  # noqa: SLF001
        script.fire()
    assert script.roles == {T1: Role.STANDBY}


# -- warm-ups that have caught up --------------------------------------------------------------


def test_warm_up_that_has_caught_up_joins_at_once() -> None:
    script = working(T0, warming=(T1,))
    script.lag(T1, 101)
    assert not script.awaits(JoinGroupRequest)
    script.lag(T1, 100)
    join = script.asks(JoinGroupRequest)
    assert join.reason == "warm: t[1] caught up"
    assert reported(script) == {T0: RUNNING, T1: 100}
    (ready,) = script.seen(WarmUpReady)
    assert (ready.partitions, ready.lag) == ((T1,), 100)


def test_standby_that_has_caught_up_is_no_news() -> None:
    script = working(T0, standbys=(T1,))
    script.lag(T1, 0)
    assert not script.awaits(JoinGroupRequest)


def test_standby_that_is_to_take_over_is_news() -> None:
    script = working(T0, standbys=(T1,), targets={T1: "m-1"})
    script.lag(T1, 0)
    assert script.awaits(JoinGroupRequest)


def test_warm_up_that_was_told_to_have_caught_up_is_no_news() -> None:
    script = working(warming=(T1,))
    script.lag(T1, 0)
    script.join(6)
    script.sync(orders=orders(warming=(T1,)))
    script.beat()
    script.sleep(2_000)
    script.lag(T1, 1)
    script.sleep(1_000)
    script.answer_heartbeat()
    assert not script.awaits(JoinGroupRequest)


def test_warm_ups_make_the_group_rebalance_at_most_once_per_interval() -> None:
    script = working(warming=(T1, T2))
    script.lag(T1, 0)
    script.join(6)
    script.sync(T1, orders=orders(warming=(T2,)))
    script.beat()
    began_ms = script.now_ms
    script.lag(T2, 0)
    assert not script.awaits(JoinGroupRequest)
    while not script.awaits(JoinGroupRequest):
        script.answer_heartbeat()
        script.sleep(500)
    assert 9_500 <= script.now_ms - began_ms <= 10_500
    assert reported(script)[T2] == 0


def test_warm_up_that_falls_behind_in_time_waits() -> None:
    script = working(warming=(T1, T2))
    script.lag(T1, 0)
    script.join(6)
    script.sync(T1, orders=orders(warming=(T2,)))
    script.beat()
    script.lag(T2, 0)
    script.lag(T2, 4_000)
    for _ in range(30):
        script.sleep(1_000)
        script.answer_heartbeat()
    assert not script.awaits(JoinGroupRequest)


def test_lag_of_what_is_not_held_is_dropped() -> None:
    script = working(T0, warming=(T1,))
    assert not script.machine.note_lag(T3, 0)
    again(script)
    assert T3 not in reported(script)


# -- probing -----------------------------------------------------------------------------------


def test_member_that_is_told_when_makes_the_group_rebalance_then() -> None:
    script = joining(instance="i")
    at_ms = script.now_ms + 40_000
    script.join(5)
    script.sync(T0, orders=orders(next_rebalance_ms=at_ms))
    script.beat()
    while not script.awaits(JoinGroupRequest):
        script.answer_heartbeat()
        script.sleep(100)
    assert at_ms <= script.now_ms <= at_ms + 100
    reason = script.asks(JoinGroupRequest).reason
    assert reason is not None
    assert reason.startswith("probing: ")


def test_time_that_has_passed_means_at_once() -> None:
    script = joining()
    script.join(5)
    script.sync(T0, orders=orders(next_rebalance_ms=0))
    script.beat()
    assert script.awaits(JoinGroupRequest)


def test_clock_that_was_set_does_not_put_probing_off_for_ever() -> None:
    script = joining()
    script.join(5)
    script.sync(T0, orders=orders(next_rebalance_ms=script.now_ms + 10**9))
    script.beat()
    for _ in range(700):
        script.answer_heartbeat()
        if script.awaits(JoinGroupRequest):
            break
        script.sleep(1_000)
    assert script.awaits(JoinGroupRequest)


def test_next_assignment_replaces_the_time_of_probing() -> None:
    script = joining()
    script.join(5)
    script.sync(T0, orders=orders(next_rebalance_ms=script.now_ms + 20_000))
    script.beat()
    again(script)
    script.join(6)
    script.sync(T0, orders=orders())
    script.beat()
    for _ in range(40):
        script.sleep(1_000)
        script.answer_heartbeat()
    assert not script.awaits(JoinGroupRequest)


def test_member_without_state_that_leads_probes_as_well() -> None:
    script = Script("t").start()
    script.tell_topics()
    script.find()
    script.join(5)
    script.sync(T0, orders=orders(next_rebalance_ms=script.now_ms))
    script.beat()
    assert script.awaits(JoinGroupRequest)


# -- versions ----------------------------------------------------------------------------------


def test_member_falls_back_to_what_the_leader_can_read_and_joins_again() -> None:
    script = working(T0, standbys=(), version=7, commonly_supported=7)
    (changed,) = script.seen(ReportVersionChanged)
    assert (changed.version, changed.former) == (7, 11)
    found = report_of(script.asks(JoinGroupRequest))
    assert found is not None
    assert (found.version, found.latest) == (7, 11)
    assert found.report.lags == {T0: RUNNING}


def test_member_goes_over_to_a_newer_version_when_all_know_it() -> None:
    script = working(T0, version=7, commonly_supported=7)
    script.join(6)
    script.sync(T0, orders=orders(version=7, commonly_supported=11))
    script.beat()
    found = report_of(script.asks(JoinGroupRequest))
    assert found is not None
    assert found.version == 11


def test_member_writes_what_it_knows_itself() -> None:
    script = joining(warm_version=6)
    found = report_of(script.asks(JoinGroupRequest))
    assert found is not None
    assert (found.version, found.latest) == (6, 6)


def test_version_that_all_use_changes_nothing() -> None:
    script = working(T0)
    assert script.seen(ReportVersionChanged) == []
    assert not script.awaits(JoinGroupRequest)
