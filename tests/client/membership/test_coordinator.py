"""Finding the coordinator, losing it, and how long to wait in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors import RangeAssignor
from coterie_client.backoff import Backoff, RetryOptions
from coterie_client.membership import FailureKind, Hangup, MembershipConfig, Phase
from coterie_client.membership.events import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorReached,
    RetryPlanned,
)
from coterie_client.wire.addresses import AnyNode, NodeAddress
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.support.scripted_membership import NODE, OTHER, Script

T0, T1 = ("t", 0), ("t", 1)


def at_work() -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t").start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


def test_any_node_is_asked_and_the_named_one_gets_the_join() -> None:
    script = Script("t").start()
    assert script.asks(FindCoordinatorRequest).key == "g"
    script.find(OTHER)
    (send,) = script.awaited(JoinGroupRequest)
    assert send.to == OTHER
    assert script.seen(CoordinatorFound)[-1].node == "other:9093"


def test_search_goes_on_with_growing_pauses() -> None:
    script = Script("t").start()
    delays = []
    for _ in range(8):
        script.fail(FindCoordinatorRequest)
        failed_ms = script.now_ms
        script.sleep_until_asked(FindCoordinatorRequest)
        delays.append(script.now_ms - failed_ms)
    assert delays == [100, 200, 400, 500, 500, 500, 500, 500]
    assert script.seen(RetryPlanned)[0].delay_ms == 100


def test_search_for_a_lost_coordinator_begins_after_a_pause() -> None:
    """It takes a moment until another node is the coordinator."""
    script = at_work()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    assert not script.awaits(FindCoordinatorRequest)
    script.sleep(100)
    assert script.awaits(FindCoordinatorRequest)
    assert script.seen(CoordinatorLost)[-1].node == str(NODE)


def test_tells_whether_the_coordinator_had_served() -> None:
    script = at_work()
    for _ in range(2):
        script.next_beat(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        script.sleep(1_000)
        script.find()
    script.next_beat()
    script.next_beat(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [lost.had_served for lost in script.seen(CoordinatorLost)] == [True, False, True]


def test_lost_coordinator_is_told_to_be_back_once_it_serves() -> None:
    script = at_work()
    for _ in range(2):
        script.next_beat(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        script.sleep(1_000)
        script.find(OTHER)
    assert script.seen(CoordinatorReached) == []  # it was found, and did not serve
    script.next_beat()
    (reached,) = script.seen(CoordinatorReached)
    assert (reached.node, reached.severity) == (str(OTHER), CoordinatorLost.severity)
    assert reached.after_ms >= 2_000
    script.next_beat()
    assert len(script.seen(CoordinatorReached)) == 1


def test_coordinator_that_was_looked_for_in_vain_is_told_to_be_reached() -> None:
    script = Script("t").start()
    script.fail(FindCoordinatorRequest)
    script.sleep(100)
    script.settle(T0, T1, generation=5)
    (reached,) = script.seen(CoordinatorReached)
    assert reached.after_ms >= 100


def test_coordinator_that_gives_a_newcomer_an_id_is_told_to_be_reached() -> None:
    """Its join may wait for other members for long, and the coordinator was there all the time."""
    script = Script("t").start()
    script.fail(FindCoordinatorRequest)
    script.sleep(100)
    script.find()
    script.refuse(JoinGroupRequest, ErrorCode.MEMBER_ID_REQUIRED)
    script.sleep(45_000)
    (reached,) = script.seen(CoordinatorReached)
    assert reached.after_ms < 1_000


def test_coordinator_that_was_there_all_the_time_is_not_told_to_be_reached() -> None:
    script = at_work()
    script.next_beat()
    assert script.seen(CoordinatorReached) == []


def test_fail_over_keeps_member_and_generation() -> None:
    script = at_work()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    script.sleep(100)
    script.find(OTHER)
    script.sleep(3_000)
    (send,) = script.awaited(HeartbeatRequest)
    assert send.to == OTHER
    script.beat()
    assert script.told == []
    assert script.machine.phase is Phase.STABLE
    assert len(script.sent(JoinGroupRequest)) == 1


@pytest.mark.parametrize("is_synced", [False, True])
def test_fail_over_in_a_rebalance(*, is_synced: bool) -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    kind: type[JoinGroupRequest | SyncGroupRequest] = JoinGroupRequest
    if is_synced:
        script.join(6)
        kind = SyncGroupRequest
    script.fail(kind)
    script.sleep(100)
    script.find(OTHER)
    (send,) = script.awaited(kind)
    assert send.to == OTHER
    assert script.asks(kind).member_id == "m-1"
    assert script.told == []


def test_two_signs_of_one_loss() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    script.fail(HeartbeatRequest)
    script.fail(JoinGroupRequest)
    script.sleep(100)
    assert len(script.sent(FindCoordinatorRequest)) == 2
    assert len(script.seen(CoordinatorLost)) == 1


def test_late_failure_from_a_former_coordinator() -> None:
    script = at_work()
    script.commit("k", T0, 7)
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    script.sleep(200)
    script.find(OTHER)
    script.fail(OffsetCommitRequest)
    assert script.machine.coordinator == OTHER
    assert not script.awaits(FindCoordinatorRequest)


def test_nodes_that_send_us_back_and_forth() -> None:
    script = at_work()
    delays = []
    for _ in range(6):
        script.next_beat(ErrorCode.NOT_COORDINATOR)
        began_ms = script.now_ms
        while not script.awaits(FindCoordinatorRequest):
            script.sleep(10)
        delays.append(script.now_ms - began_ms)
        script.find()
    assert delays[-1] > 4 * delays[0]


def test_late_failure_after_it_was_found_again() -> None:
    script = at_work()
    script.commit("k", T0, 1)
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    script.sleep(100)
    script.find(OTHER)
    script.fail(OffsetCommitRequest, FailureKind.TIMED_OUT)
    while "k" not in script.results:
        script.help_out(T0, T1)
    assert script.error_of("k") is None
    assert script.told == []


@pytest.mark.parametrize("kind", [FindCoordinatorRequest, MetadataRequest])
def test_node_that_does_not_know_the_request_is_unusable(kind: type) -> None:
    script = Script("t").start()
    error = ValueError("no version for it")
    script.fail(kind, FailureKind.REFUSED, error)
    assert script.stopped is not None
    assert script.stopped.error is error


# -- delays ------------------------------------------------------------------------------------


@given(
    first_ms=st.integers(1, 5_000),
    limit_ms=st.integers(1, 60_000),
    failures=st.integers(1, 100),
    luck=st.floats(0, 1, exclude_max=True),
)
def test_backoff_stays_within_a_fifth_of_its_middle(
    first_ms: int, limit_ms: int, failures: int, luck: float
) -> None:
    backoff = Backoff(RetryOptions(first_ms, max(first_ms, limit_ms)), lambda: luck)
    for failure in range(failures):
        even_ms = min(first_ms * 2**failure, max(first_ms, limit_ms))
        assert 0.8 * even_ms - 1 <= backoff.next_ms() <= 1.2 * even_ms + 1


def test_backoff_starts_over() -> None:
    backoff = Backoff(RetryOptions(100, 1_000), lambda: 0.5)
    assert [backoff.next_ms() for _ in range(3)] == [100, 200, 400]
    backoff.succeeded()
    assert backoff.next_ms() == 100


# -- the configuration -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"group": ""}, "group must be a string"),
        ({"instance": ""}, "instance must be"),
        ({"heartbeat_interval_ms": 15_001}, "heartbeat_interval must be at most a third"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms must be"),
        ({"rebalance_timeout_ms": 0}, "rebalance_timeout_ms must be"),
    ],
)
def test_senseless_configuration(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        MembershipConfig(**{"group": "g"} | options)  # type: ignore[arg-type]


def question(script: Script) -> AnyNode:
    """Whom it asks where the coordinator is."""
    script.sleep_until_asked(FindCoordinatorRequest)
    (send,) = script.awaited(FindCoordinatorRequest)
    assert isinstance(send.to, AnyNode)
    return send.to


def test_other_nodes_are_asked_after_an_answer_that_has_not_helped() -> None:
    """One that is cut off from the others may name a node that has died, again and again."""
    script = at_work()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    assert question(script) == AnyNode()
    script.find(OTHER)
    script.next_beat(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert question(script) == AnyNode(anew=True)
    script.find()
    script.next_beat()
    script.next_beat(ErrorCode.NOT_COORDINATOR)
    assert question(script) == AnyNode()


def test_other_nodes_are_asked_after_one_that_does_not_know() -> None:
    script = Script("t").start()
    assert question(script) == AnyNode()
    script.fail(FindCoordinatorRequest)  # that was no answer
    assert question(script) == AnyNode()
    script.refuse(FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert question(script) == AnyNode(anew=True)


# -- a coordinator that is silent ------------------------------------------------------------------


def silent() -> Script:
    """A member at work whose heartbeat is not answered, and other nodes are asked about that."""
    script = at_work()
    script.sleep(3_000)
    (beat,) = script.awaited(HeartbeatRequest)
    assert beat.to == NODE
    script.sleep(999)
    assert script.doubt() is None
    script.sleep(1)
    return script


def test_another_node_is_asked_about_a_coordinator_that_is_silent() -> None:
    script = silent()
    doubt = script.doubt()
    assert doubt is not None
    assert doubt.to == AnyNode(but=NODE)
    assert doubt.message.key == "g"
    # If that one is slow as well, what others wait for on its connection is not to be lost.
    assert doubt.timeout_ms == script.config.request_timeout_ms
    assert script.seen(CoordinatorLost) == []


def test_other_nodes_are_asked_about_one_that_is_silent_still() -> None:
    script = silent()
    script.name(NODE)
    script.sleep(1_500)
    doubt = script.doubt()
    assert doubt is not None
    assert doubt.to == AnyNode(but=NODE, anew=True)


def test_member_goes_where_the_group_is_coordinated_by_now() -> None:
    """Though no connection is broken, as where a machine has lost its power."""
    script = silent()
    script.commit("k", T0, 7)
    script.name(OTHER)
    assert Hangup(NODE) in script.actions
    assert script.seen(CoordinatorLost)[-1].node == str(NODE)
    assert script.seen(CoordinatorFound)[-1].node == str(OTHER)
    # What was asked is asked again, and at once, though nobody may ever tell that it has failed.
    assert [send.to for send in script.awaited(HeartbeatRequest)] == [OTHER]
    assert [send.to for send in script.awaited(OffsetCommitRequest)] == [OTHER]
    script.beat()
    assert script.told == []
    assert script.machine.phase is Phase.STABLE
    assert len(script.sent(JoinGroupRequest)) == 1


@pytest.mark.parametrize("named", [NODE, None])
def test_member_waits_for_the_coordinator_that_it_still_is(named: NodeAddress | None) -> None:
    """It asks again, as nodes notice a silence later than members do."""
    script = silent()
    script.name(named)
    assert (script.machine.coordinator, script.doubt()) == (NODE, None)
    script.sleep(1_500)
    assert script.doubt() is not None
    script.beat()
    script.name(OTHER)  # too late: it has answered
    assert script.machine.coordinator == NODE
    script.sleep(1_400)
    assert script.doubt() is None


def test_late_word_about_a_former_coordinator() -> None:
    script = silent()
    script.beat(ErrorCode.NOT_COORDINATOR)
    script.sleep(100)
    script.find(OTHER)
    script.name(NODE)
    assert script.machine.coordinator == OTHER


def test_commit_is_asked_about_as_well() -> None:
    script = at_work()
    script.commit("k", T0, 7)
    script.sleep(1_000)
    assert script.doubt() is not None


def test_join_that_waits_for_others_is_asked_about_like_a_heartbeat() -> None:
    """A member that owns nothing sends none, and would wait for minutes for who is not there."""
    script = Script("t").start()
    script.find()
    script.sleep(2_999)
    assert script.doubt() is None
    script.sleep(1)
    script.name(OTHER)
    script.sleep(200)
    assert [send.to for send in script.awaited(JoinGroupRequest)] == [OTHER]


def test_answer_to_a_heartbeat_says_nothing_of_a_join() -> None:
    """An eager member sends no further heartbeats while it joins."""
    script = Script("t", assignors=[RangeAssignor()]).start()
    script.settle(T0, generation=5)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    script.release()
    assert script.awaits(JoinGroupRequest)
    if script.awaits(HeartbeatRequest):
        script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(10_000)
    assert script.doubt() is not None


def test_join_that_waits_while_heartbeats_are_answered_is_not_silence() -> None:
    """However long the rebalance takes, and whatever another node says."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.awaits(JoinGroupRequest)
    for _ in range(10):
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
        if script.doubt() is not None:
            script.name(OTHER)
    assert script.machine.coordinator == NODE


def test_answer_that_comes_late_is_heeded() -> None:
    """Another node may be slow as well."""
    script = silent()
    script.sleep(10_000)
    script.name(OTHER)
    assert script.machine.coordinator == OTHER


def test_word_that_is_older_than_an_answer() -> None:
    """Though by then it owes another one."""
    script = silent()
    script.beat()
    script.commit("k", T0, 7)
    script.name(OTHER)
    assert script.machine.coordinator == NODE


def test_short_intervals_make_no_more_questions() -> None:
    script = Script("t", heartbeat_interval_ms=50).start()
    script.find()
    for _ in range(20):
        script.sleep(499)
        if script.doubt() is not None:
            script.name(NODE)
    assert len(script.doubts()) <= 20


def test_leaving_is_told_to_the_coordinator_that_is_there() -> None:
    script = at_work()
    script.close()
    script.release()
    assert [send.to for send in script.awaited(LeaveGroupRequest)] == [NODE]
    script.sleep(1_000)
    script.name(OTHER)
    script.sleep(200)
    assert [send.to for send in script.awaited(LeaveGroupRequest)] == [OTHER]


def test_no_other_node_is_asked_while_all_is_well() -> None:
    script = at_work()
    for _ in range(10):
        script.next_beat()
    assert script.doubts() == []
