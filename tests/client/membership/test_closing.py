"""How a membership ends: what is let go of, what is sent, and that it ends for certain."""

from __future__ import annotations

import pytest

from coterie_client.membership import Abandon, FailureKind, Identity, Phase, Revoke
from coterie_client.membership.events import GroupLeft
from coterie_client.wire.addresses import NodeAddress
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.support.scripted_membership import Script

T0, T1 = ("t", 0), ("t", 1)
OTHER_NODE = NodeAddress("other", 9092)


def at_work(instance: str | None = None) -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t", instance=instance).start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


def test_a_member_lets_go_then_leaves_then_is_over() -> None:
    script = at_work()
    script.close()
    assert [type(each) for each in script.told] == [Revoke]
    assert not script.awaits(LeaveGroupRequest)
    script.release()
    (member,) = script.asks(LeaveGroupRequest).members
    assert (member.member_id, member.reason) == ("m-1", "closed")
    assert script.stopped is None
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert script.stopped is not None
    assert script.stopped.error is None
    assert script.machine.identity == Identity()


def test_last_commits_are_stored_before_the_member_leaves() -> None:
    script = at_work()
    script.close()
    script.commit("k", T0, 7)
    script.release()
    assert not script.awaits(LeaveGroupRequest)
    script.store()
    assert script.error_of("k") is None
    assert script.awaits(LeaveGroupRequest)


def test_heartbeats_go_on_while_work_ends() -> None:
    script = at_work()
    script.close(within_ms=60_000)
    script.next_beat()
    script.next_beat()
    assert script.told == script.told[:1]


def test_rebalance_meanwhile() -> None:
    script = at_work()
    script.close(within_ms=60_000)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(1_000)
    assert not script.awaits(JoinGroupRequest)


def test_work_has_to_end_within_a_rebalance_that_begins_meanwhile() -> None:
    script = Script("t", rebalance_timeout_ms=60_000).start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    script.close(within_ms=300_000)
    script.next_beat()
    calm_ms = script.now_ms
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.release(T0)
    while script.now_ms < calm_ms + 54_000 - 1:
        script.sleep(min(1_000, calm_ms + 54_000 - 1 - script.now_ms))
        if script.awaits(HeartbeatRequest):
            script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [type(each) for each in script.told] == [Revoke]
    script.sleep(1)
    assert script.told[1:] == [Abandon(frozenset({T1}))]
    assert script.awaits(LeaveGroupRequest)


def test_work_that_overruns_the_time_for_closing_is_left_behind() -> None:
    script = at_work()
    script.close(within_ms=1_000)
    script.sleep(1_000)
    assert script.told[-1] == Abandon(frozenset({T0, T1}))
    assert script.awaits(LeaveGroupRequest)


def test_close_again_with_less_time() -> None:
    script = at_work()
    script.close(within_ms=60_000)
    script.close(within_ms=0)
    assert script.told[-1] == Abandon(frozenset({T0, T1}))


def test_long_reason_is_cut() -> None:
    script = at_work()
    script.do(script.machine.close(script.now_ms, leave=True, within_ms=0, reason="x" * 100_000))
    assert script.asks(LeaveGroupRequest).members[0].reason == "x" * 255


def test_static_member_keeps_its_place() -> None:
    script = at_work("i")
    script.close(leave=False)
    script.release()
    assert not script.sent(LeaveGroupRequest)
    assert script.stopped is not None
    assert [event.stays for event in script.seen(GroupLeft)] == [True]


def test_static_member_gives_up_its_place_if_told_to() -> None:
    script = at_work("i")
    script.close(leave=True)
    script.release()
    (member,) = script.asks(LeaveGroupRequest).members
    assert (member.member_id, member.group_instance_id) == ("m-1", "i")


# -- a static member whose first join is not answered, so that it has no id yet ------------------


def joining(instance: str | None = "i") -> Script:
    """A member that waits for the answer to its first join."""
    script = Script("t", instance=instance).start()
    script.find()
    assert script.awaits(JoinGroupRequest)
    return script


def left(code: ErrorCode) -> LeaveGroupResponse:
    """What it is told that asked to leave by its name alone."""
    member = MemberResponse(member_id="", group_instance_id="i", error_code=code)
    return LeaveGroupResponse(members=(member,))


def test_static_member_that_is_joining_gives_up_its_place_by_its_name() -> None:
    script = joining()
    script.close(leave=True)
    (member,) = script.asks(LeaveGroupRequest).members
    assert (member.member_id, member.group_instance_id) == ("", "i")
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert script.stopped is not None


def test_leave_that_has_overtaken_a_join_is_repeated() -> None:
    script = joining()
    script.close(leave=True)
    script.answer(LeaveGroupRequest, left(ErrorCode.UNKNOWN_MEMBER_ID))
    script.sleep(200)
    script.answer(LeaveGroupRequest, left(ErrorCode.NONE))
    assert script.stopped is not None


def test_join_that_never_arrives_is_not_waited_for() -> None:
    script = joining()
    script.close(leave=True)
    began_ms = script.now_ms
    while script.stopped is None:
        if script.awaits(LeaveGroupRequest):
            script.answer(LeaveGroupRequest, left(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            script.sleep(10)
    assert 1_000 <= script.now_ms - began_ms <= 2_500


def test_join_that_got_lost_may_have_arrived() -> None:
    script = joining()
    script.fail(JoinGroupRequest, FailureKind.LOST)
    script.close(leave=True)
    script.sleep(1_000)
    script.find()
    assert script.awaits(LeaveGroupRequest)


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_static_member_whose_join_was_refused_has_no_place(code: ErrorCode) -> None:
    script = joining()
    script.refuse(JoinGroupRequest, code)
    script.close(leave=True)
    assert script.stopped is not None
    assert not script.sent(LeaveGroupRequest)


def test_member_that_was_given_no_id_yet_has_no_place() -> None:
    script = joining(instance=None)
    script.close()
    assert script.stopped is not None
    assert not script.sent(LeaveGroupRequest)


def test_static_member_that_is_joining_may_keep_its_place() -> None:
    script = joining()
    script.close(leave=False)
    assert script.stopped is not None
    assert not script.sent(LeaveGroupRequest)


@pytest.mark.parametrize("failure", [FailureKind.LOST, FailureKind.TIMED_OUT])
def test_leave_that_was_not_answered_is_repeated(failure: FailureKind) -> None:
    script = at_work()
    script.close()
    script.release()
    script.fail(LeaveGroupRequest, failure)
    assert script.stopped is None
    script.sleep(200)
    script.find(OTHER_NODE)
    (again,) = script.awaited(LeaveGroupRequest)
    assert again.to == OTHER_NODE
    assert again.message.members[0].member_id == "m-1"
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert script.stopped is not None
    assert len(script.seen(GroupLeft)) == 1


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_leave_goes_to_the_node_that_has_the_group_now(code: ErrorCode) -> None:
    script = at_work()
    script.close()
    script.release()
    script.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=code))
    script.sleep(200)
    script.find(OTHER_NODE)
    assert [send.to for send in script.awaited(LeaveGroupRequest)] == [OTHER_NODE]


def test_leave_waits_while_the_group_is_being_read() -> None:
    script = at_work()
    script.close()
    script.release()
    script.refuse(LeaveGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not script.awaits(LeaveGroupRequest)
    script.sleep(200)
    assert script.awaits(LeaveGroupRequest)
    assert not script.awaits(FindCoordinatorRequest)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND],
)
def test_member_that_has_no_place_to_leave_is_over(code: ErrorCode) -> None:
    """As it is when the request was carried out before, and the answer was lost."""
    script = at_work()
    script.close()
    script.release()
    left = MemberResponse(member_id="m-1", group_instance_id=None, error_code=code)
    script.answer(LeaveGroupRequest, LeaveGroupResponse(members=(left,)))
    assert script.stopped is not None
    assert script.stopped.error is None


def test_leave_that_can_not_be_sent_is_not_repeated() -> None:
    script = at_work()
    script.close()
    script.release()
    script.fail(LeaveGroupRequest, FailureKind.REFUSED)
    assert script.stopped is not None
    assert script.stopped.error is None


@pytest.mark.parametrize(("within_ms", "tries_ms"), [(0, 3_000), (5_000, 5_000), (60_000, 8_000)])
def test_leaving_ends_for_certain(within_ms: int, tries_ms: int) -> None:
    """It takes what is left of the time for closing, within limits."""
    script = at_work()
    script.close(within_ms=within_ms)
    script.release(T0, T1)
    began_ms = script.now_ms
    while script.stopped is None:
        assert script.now_ms - began_ms < tries_ms
        for send in script.awaited(LeaveGroupRequest):
            assert script.now_ms + send.timeout_ms <= began_ms + tries_ms
            script.sleep(10)
            script.fail(LeaveGroupRequest)
        if script.awaits(FindCoordinatorRequest):
            script.find()
        elif script.stopped is None:
            script.sleep(max(script.due_in() or 0, 1))
    assert script.now_ms - began_ms == tries_ms
    assert len(script.sent(LeaveGroupRequest)) > 3
    assert script.stopped.error is None


def test_coordinator_that_may_not_be_asked_for_is_not_asked_for_again() -> None:
    script = at_work()
    script.close()
    script.release()
    script.fail(LeaveGroupRequest)
    script.sleep(200)
    script.refuse(FindCoordinatorRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert script.stopped is not None
    assert script.stopped.error is None


def test_close_before_a_coordinator_was_found() -> None:
    script = Script("t").start()
    script.close()
    assert script.stopped is not None
    assert not script.sent(LeaveGroupRequest)


def test_close_during_the_first_join() -> None:
    """A member without an id can't leave; its join is dropped."""
    script = Script("t").start()
    script.find()
    script.close()
    assert script.stopped is not None


def test_close_during_a_join() -> None:
    """LeaveGroup does not queue up behind the join."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    (join,) = script.awaited(JoinGroupRequest)
    script.close()
    script.release()
    (leave,) = script.awaited(LeaveGroupRequest)
    assert leave.lane is not join.lane
    assert not script.awaits(JoinGroupRequest)


def test_sync_answer_while_closing_begins_no_work() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.close()
    script.sync(T0, T1, ("t", 2))
    assert [type(each) for each in script.told] == [Revoke]
    script.release()
    assert script.awaits(LeaveGroupRequest)
    assert not script.awaits(SyncGroupRequest)


def test_close_without_a_coordinator() -> None:
    """Work ends normally, and its commits wait no longer than `close` allows."""
    script = at_work()
    script.commit("k", T0, 7)
    script.fail(OffsetCommitRequest)
    script.close(within_ms=5_000)
    script.release()
    assert script.stopped is None
    script.sleep(5_000)
    assert script.error_of("k") is not None
    script.sleep(3_000)
    assert script.stopped is not None
    assert not script.sent(LeaveGroupRequest)


def test_coordinator_that_was_lost_is_looked_for_to_leave() -> None:
    script = at_work()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    script.close()
    script.release()
    assert script.stopped is None
    script.sleep(200)
    script.find()
    assert script.awaits(LeaveGroupRequest)
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert script.stopped is not None


def test_member_that_stays_looks_for_no_coordinator() -> None:
    script = at_work()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    script.close(leave=False)
    script.release()
    assert script.stopped is not None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_generation_that_ends_while_closing(code: ErrorCode) -> None:
    """Everything is lost at once, and the member does not join again."""
    script = at_work()
    script.close(within_ms=60_000)
    script.next_beat(code)
    assert script.working == {}
    assert not script.awaits(JoinGroupRequest)
    script.survive()
    assert script.stopped is not None


@pytest.mark.parametrize(
    "code",
    [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID],
)
def test_late_heartbeat_answer_does_not_make_it_leave_twice(code: ErrorCode) -> None:
    script = at_work("i")
    script.sleep(3_000)
    script.close()
    script.release()
    assert script.machine.phase is Phase.LEAVING
    script.beat(code)
    assert len(script.sent(LeaveGroupRequest)) == 1
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert script.stopped is not None
    assert script.stopped.error is None


def test_nothing_after_the_end() -> None:
    script = at_work()
    script.sleep(3_000)
    script.commit("k", T0, 7)
    (heartbeat,) = script.awaited(HeartbeatRequest)
    (commit,) = script.awaited(OffsetCommitRequest)
    script.close(within_ms=0)
    script.answer(LeaveGroupRequest, LeaveGroupResponse())
    done = len(script.actions)
    script.answer_ticket(heartbeat.ticket, HeartbeatResponse())
    script.answer_ticket(commit.ticket, object())
    script.subscribe("u")
    script.close()
    script.do(script.machine.rejoin("why not", script.now_ms))
    script.fire()
    assert script.actions[done:] == []


def test_commit_after_the_end() -> None:
    script = at_work()
    token = script.working[T0]
    script.close(within_ms=0)
    script.survive()
    script.commit("k", T0, 7, token=token)
    assert script.error_of("k") is not None
