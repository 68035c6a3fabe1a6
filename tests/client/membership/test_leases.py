"""Heartbeats, and the lease that they give: to know when the coordinator may have dropped us."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_client.membership import Assign, FailureKind, Hangup, Identity, Lose, Phase, Send
from coterie_client.wire.addresses import Lane
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    SyncGroupRequest,
)
from tests.support.scripted_membership import NODE, Script

T0, T1 = ("t", 0), ("t", 1)

SESSION_MS = 45_000
#: What a lease has less than a session: to stop takes a moment.
MARGIN_MS = 4_500


def at_work(**options: Any) -> Script:
    """A member in generation 5 that works on two partitions; its heartbeat was just answered."""
    script = Script("t", **options).start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


# -- heartbeats --------------------------------------------------------------------------------


def test_a_heartbeat_is_sent_each_interval() -> None:
    script = at_work()
    for _ in range(5):
        script.sleep(2_999)
        assert not script.awaits(HeartbeatRequest)
        script.sleep(1)
        assert script.asks(HeartbeatRequest).generation_id == 5
        script.beat()


def test_late_answer_does_not_delay_the_next() -> None:
    script = at_work()
    script.sleep(3_000)
    script.sleep(2_000)
    script.beat()
    script.sleep(999)
    assert not script.awaits(HeartbeatRequest)
    script.sleep(1)
    assert script.awaits(HeartbeatRequest)


def test_one_heartbeat_at_a_time() -> None:
    script = at_work()
    script.sleep(10_000)
    assert len(script.awaited(HeartbeatRequest)) == 1


def test_new_generation_has_a_heartbeat_at_once() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    old = script.awaited(HeartbeatRequest)[0]
    script.join(6)
    assert script.asks(HeartbeatRequest).generation_id == 6
    script.answer_ticket(old.ticket, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    assert script.told == []


def test_heartbeats_go_on_during_a_join_that_keeps_partitions() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    assert script.awaits(HeartbeatRequest)


def test_no_heartbeats_during_a_join_without_partitions() -> None:
    script = Script("t").start()
    script.settle(generation=5)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(60_000)
    assert not script.awaits(HeartbeatRequest)


def test_heartbeats_go_on_during_a_revocation() -> None:
    script = at_work()
    script.subscribe("u")
    assert script.machine.phase is Phase.PREPARING
    script.next_beat()
    script.next_beat()
    assert script.told[-1:] == [script.told[0]]


def test_lost_heartbeat_is_repeated_at_the_found_coordinator() -> None:
    script = at_work()
    script.sleep(3_000)
    script.fail(HeartbeatRequest)
    script.sleep(100)
    script.find()
    assert script.awaits(HeartbeatRequest)
    assert script.told == []


def test_unanswered_heartbeat_abandons_the_join_as_well() -> None:
    """A node that does not answer heartbeats will not answer the join either."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    node = script.machine.coordinator
    script.fail(HeartbeatRequest, FailureKind.TIMED_OUT)
    assert script.actions.count(Hangup(node)) == 1  # type: ignore[arg-type]
    assert script.machine.coordinator is None


def test_heartbeat_that_cannot_be_sent() -> None:
    script = at_work()
    script.sleep(3_000)
    error = ValueError("no version for it")
    script.fail(HeartbeatRequest, FailureKind.REFUSED, error)
    assert [type(each) for each in script.told] == [Lose]
    script.survive()
    assert script.stopped is not None
    assert script.stopped.error is error


def test_heartbeat_timeout_leaves_time_for_another() -> None:
    script = at_work(session_timeout_ms=9_000)
    script.sleep(3_000)
    (send,) = script.awaited(HeartbeatRequest)
    assert send.timeout_ms == 3_000


# -- the lease ---------------------------------------------------------------------------------


def test_silence_stops_work_before_the_session_can_end() -> None:
    script = at_work()
    sent_at_ms = script.now_ms
    script.sleep(SESSION_MS - MARGIN_MS - 1)
    assert script.working.keys() == {T0, T1}
    script.sleep(1)
    assert [type(each) for each in script.told] == [Lose]
    assert script.now_ms < sent_at_ms + SESSION_MS


def test_silence_stops_work_before_a_rebalance_can_end() -> None:
    """It may have begun right after the last answer, and then goes on without the member."""
    script = at_work(rebalance_timeout_ms=10_000)
    sent_at_ms = script.now_ms
    script.sleep(9_000 - 1)
    assert script.working.keys() == {T0, T1}
    script.sleep(1)
    (lost,) = script.told
    assert isinstance(lost, Lose)
    assert lost.reason == "no sign of life from the coordinator for a rebalance timeout"
    assert script.now_ms < sent_at_ms + 10_000


def test_heartbeats_are_as_frequent_as_a_short_rebalance_needs() -> None:
    script = at_work(rebalance_timeout_ms=3_000)
    for _ in range(10):
        script.sleep(1_000)
        script.beat()
    assert script.told == []


@pytest.mark.parametrize("rebalance_ms", [1, 300])
def test_rebalance_timeout_that_leaves_no_time_floods_no_coordinator(rebalance_ms: int) -> None:
    script = at_work(rebalance_timeout_ms=rebalance_ms)
    before = len(script.sent(HeartbeatRequest))
    for _ in range(10):
        script.sleep(100)
        script.beat()
    assert len(script.sent(HeartbeatRequest)) - before <= 11
    assert script.told == []


def test_lease_counts_from_the_sending() -> None:
    script = at_work()
    script.sleep(3_000)
    sent_at_ms = script.now_ms
    script.sleep(14_000)
    script.beat()
    script.sleep(3_000)
    script.fail(HeartbeatRequest)  # the next one is never answered
    script.sleep(sent_at_ms + SESSION_MS - MARGIN_MS - script.now_ms - 1)
    assert script.told == []
    script.sleep(1)
    assert [type(each) for each in script.told] == [Lose]


def test_answer_that_comes_when_the_lease_has_run_out_does_not_renew_it() -> None:
    """By now the member may have been dropped, and the answer been given on trust."""
    script = at_work()
    script.sleep(36_000)
    script.fail(HeartbeatRequest)
    script.sleep(500)
    script.find()
    script.jump(SESSION_MS - MARGIN_MS - 36_500)
    script.beat()
    assert [type(each) for each in script.told] == [Lose]


def silenced(**options: Any) -> Script:
    """A member whose lease has run out, with a heartbeat under way."""
    script = at_work(**options)
    script.sleep(SESSION_MS)
    script.told.clear()
    return script


def reached(script: Script) -> Script:
    """The same, with two heartbeats answered: the first was sent before the lease ran out."""
    assert not script.awaits(SyncGroupRequest)
    script.beat()
    assert not script.awaits(SyncGroupRequest)
    script.beat()
    return script


def test_session_that_did_not_end() -> None:
    script = reached(silenced())
    assert script.working == {}
    sync = script.asks(SyncGroupRequest)
    assert (sync.member_id, sync.generation_id, sync.assignments) == ("m-1", 5, ())
    script.sync(T0, T1)
    assert script.working.keys() == {T0, T1}
    assert script.machine.phase is Phase.STABLE
    assert script.machine.identity == Identity("m-1", 5)
    assert not script.awaits(JoinGroupRequest)


def test_work_is_resumed_under_the_tokens_it_had() -> None:
    script = at_work()
    before = dict(script.working)
    script.sleep(SESSION_MS)
    reached(script).sync(T0, T1, token=17)
    assert script.working == before


def test_lease_that_a_sync_has_begun_is_renewed_by_heartbeats() -> None:
    script = reached(silenced())
    script.sync(T0, T1)
    script.told.clear()
    for _ in range(20):
        script.next_beat()
    assert script.told == []


def test_lease_that_a_sync_has_begun_counts_from_the_heartbeat_before_it() -> None:
    """Kafka's brokers count the session from that, however late the sync comes."""
    script = silenced()
    script.beat()
    sent_at_ms = script.now_ms
    script.sleep(1_000)
    script.beat()
    script.sleep(10_000)
    script.sync(T0, T1)
    script.fail(HeartbeatRequest)
    script.sleep(sent_at_ms + SESSION_MS - MARGIN_MS - script.now_ms - 1)
    assert script.working.keys() == {T0, T1}
    script.sleep(1)
    assert script.working == {}


def test_heartbeats_that_may_be_answered_on_trust_begin_no_lease() -> None:
    """A coordinator that still reads its groups answers them all, and refuses the syncs."""
    script = reached(silenced())
    for _ in range(5):
        script.sleep_until_asked(SyncGroupRequest)
        script.refuse(SyncGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert script.working == {}
    script.sleep_until_asked(SyncGroupRequest)
    script.sync(T0, T1)
    assert script.working.keys() == {T0, T1}
    assert script.machine.identity == Identity("m-1", 5)


def test_sync_without_an_answer_is_repeated_over_another_connection() -> None:
    script = reached(silenced())
    script.actions.clear()
    while not script.sent(SyncGroupRequest):
        script.next_beat()
    hangup = script.actions.index(Hangup(NODE, Lane.GROUP))
    assert isinstance(script.actions[hangup + 1], Send)
    script.sync(T0, T1)
    assert script.working.keys() == {T0, T1}


def test_late_assignment_is_not_worked_on_before_another_sync() -> None:
    """The group may have gone on without the member while the answer was on its way."""
    script = Script("t").start()
    script.find()
    script.join(5)
    script.sleep(SESSION_MS)
    script.sync(T0)
    assert script.machine.phase is Phase.PROVING
    reached(script)
    assert script.working == {}
    script.sync(T0)
    assert script.working.keys() == {T0}


@pytest.mark.parametrize(
    ("code", "identity"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Identity()),
        (ErrorCode.ILLEGAL_GENERATION, Identity("m-1")),
    ],
)
def test_ended_session_leads_to_a_new_join_without_claims(
    code: ErrorCode, identity: Identity
) -> None:
    script = silenced()
    script.beat(code)
    assert script.machine.identity == identity
    assert script.claim() == (set(), -1)
    assert script.working == {}


@pytest.mark.parametrize(
    ("code", "identity"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Identity()),
        (ErrorCode.ILLEGAL_GENERATION, Identity("m-1")),
    ],
)
def test_sync_after_the_session_ended_leads_to_a_new_join_without_claims(
    code: ErrorCode, identity: Identity
) -> None:
    script = reached(silenced())
    script.refuse(SyncGroupRequest, code)
    assert script.machine.identity == identity
    assert script.claim() == (set(), -1)
    assert script.working == {}


def test_sync_that_meets_a_rebalance_leaves_it_to_a_heartbeat() -> None:
    """It need not have made the session longer, as far as Kafka's brokers go."""
    script = reached(silenced())
    script.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.working == {}
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.working.keys() == {T0, T1}
    script.sleep_until_asked(JoinGroupRequest)
    assert script.claim() == ({T0, T1}, 5)


def test_rebalance_after_silence_keeps_the_partitions() -> None:
    """The member is still in the generation."""
    script = silenced()
    script.beat()
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.working.keys() == {T0, T1}
    assert script.claim() == ({T0, T1}, 5)


def test_topics_may_be_gone_after_silence() -> None:
    script = reached(silenced())
    script.subscribe("u")
    script.sync(T0, T1)
    assert script.working == {}
    assert script.claim()[0] == set()


def test_close_after_silence_is_immediate() -> None:
    script = silenced()
    script.close()
    script.beat()
    assert script.working == {}


def test_rebalance_in_progress_is_a_sign_of_life() -> None:
    script = at_work()
    for _ in range(20):
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.working.keys() == {T0, T1}


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_error_is_no_sign_of_life(code: ErrorCode) -> None:
    script = at_work()
    script.next_beat(code)
    script.sleep(SESSION_MS - MARGIN_MS - 3_000)
    assert [type(each) for each in script.told] == [Lose]


def test_suspended_process_stops_its_work_before_it_reads_answers() -> None:
    script = at_work()
    script.sleep(3_000)
    script.jump(SESSION_MS)
    script.beat()
    assert [type(each) for each in script.told] == [Lose]


def test_clock_jump_with_a_commit() -> None:
    script = at_work()
    script.jump(SESSION_MS)
    script.commit("k", T0, 7)
    assert script.error_of("k") is not None
    assert script.working == {}


def test_silence_during_a_join_stops_work_and_not_the_join() -> None:
    """The join's answer tells whether the member is still known."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(SESSION_MS)
    assert [type(each) for each in script.told] == [Lose]
    script.join(6)
    script.sync(T0, T1)
    assert script.working == {}
    script.beat()
    script.sync(T0, T1)
    assert script.working.keys() == {T0, T1}


def test_what_was_lost_during_a_join_that_claims_it_holds_up_no_other_member() -> None:
    """Whoever is to get it waits until this member has joined without it."""
    script = at_work(rebalance_timeout_ms=300_000)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.claim() == ({T0, T1}, 5)
    script.jump(SESSION_MS)
    script.do(script.machine.check_lease(script.now_ms))
    script.join(6)
    script.sync(T0)
    script.answer_heartbeat()
    script.sync(T0)
    assert script.working.keys() == {T0}
    assert script.claim() == ({T0}, 6)


def test_silence_without_partitions_keeps_the_place() -> None:
    script = Script("t").start()
    script.settle(generation=5)
    script.sleep(3 * SESSION_MS)
    assert script.told == []
    assert script.machine.identity == Identity("m-1", 5)


def test_silence_can_be_set_to_stop_nothing() -> None:
    script = at_work(stop_when_silent=False)
    script.sleep(10 * SESSION_MS)
    assert script.told == []
    script.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert [type(each) for each in script.told] == [Lose]


def test_work_begins_with_the_lease_that_the_sync_begins() -> None:
    script = Script("t").start()
    script.find()
    script.join(5)
    script.beat()
    assert not script.working
    script.sync(T0)
    assert script.working.keys() == {T0}


def test_assignment_that_came_too_late() -> None:
    script = Script("t").start()
    script.find()
    script.join(5)
    script.sleep(SESSION_MS)
    script.sync(T0)
    script.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.told == []
    assert script.asks(JoinGroupRequest).member_id == ""


def test_lease_that_a_long_join_has_nearly_used_up_is_renewed_at_once() -> None:
    """It counts from the join, and the next heartbeat would come when it is over."""
    script = Script("t").start()
    script.find()
    script.sleep(SESSION_MS - MARGIN_MS - 1_000)
    script.join(5)
    script.beat()
    script.sync(T0)
    script.beat()
    script.sleep(2_999)
    assert script.working.keys() == {T0}
    assert [type(each) for each in script.told] == [Assign]


def test_work_begins_at_once_by_choice() -> None:
    script = Script("t", stop_when_silent=False).start()
    script.find()
    script.join(5)
    script.sync(T0)
    assert script.working.keys() == {T0}


def test_coordinator_away_for_a_while() -> None:
    script = at_work()
    script.sleep(3_000)
    script.fail(HeartbeatRequest)
    for _ in range(10):
        while not script.awaits(FindCoordinatorRequest):
            script.sleep(50)
        script.fail(FindCoordinatorRequest)
    while not script.awaits(FindCoordinatorRequest):
        script.sleep(50)
    script.find()
    script.beat()
    assert script.told == []
    assert script.machine.identity == Identity("m-1", 5)
    assert script.machine.phase is Phase.STABLE


# -- dropped while joining ---------------------------------------------------------------------


def test_forgotten_while_joining() -> None:
    """The coordinator dropped the member: its partitions may have other owners by now."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert [type(each) for each in script.told] == [Lose]
    assert script.awaits(JoinGroupRequest)


def test_behind_while_joining() -> None:
    """The present generation has ended because the one that is joined began: that is no news."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.next_beat(ErrorCode.ILLEGAL_GENERATION)
    assert script.told == []


def test_left_behind_while_joining() -> None:
    """Said twice, an interval apart, it is news: the join never arrived, and the group went on."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.next_beat(ErrorCode.ILLEGAL_GENERATION)
    script.next_beat(ErrorCode.ILLEGAL_GENERATION)
    assert [type(each) for each in script.told] == [Lose]
    assert script.awaits(JoinGroupRequest)


def test_wish_to_join_is_repeated_in_time() -> None:
    script = at_work(rebalance_timeout_ms=60_000)
    calm_ms = script.now_ms
    script.subscribe("t", "u")
    first = script.awaited(JoinGroupRequest)[0]
    while script.awaited(JoinGroupRequest)[0] == first:
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.now_ms < calm_ms + 60_000


def test_wish_to_join_is_repeated_after_a_long_revocation() -> None:
    script = at_work(rebalance_timeout_ms=60_000)
    script.subscribe("t", "u")
    script.join(6)
    script.sync(T0)
    calm_ms = script.now_ms
    while script.now_ms < calm_ms + 50_000:
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.release()
    first = script.awaited(JoinGroupRequest)[0]
    while script.awaited(JoinGroupRequest)[0] == first:
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.now_ms < calm_ms + 60_000


def test_sync_is_repeated_in_time() -> None:
    script = at_work(rebalance_timeout_ms=60_000)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    calm_ms = script.now_ms
    first = script.awaited(SyncGroupRequest)
    while script.awaited(SyncGroupRequest) == first:
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.now_ms < calm_ms + 60_000
    assert script.asks(SyncGroupRequest) == first[0].message


def test_repetition_takes_another_connection() -> None:
    script = at_work(rebalance_timeout_ms=60_000)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    first = script.awaited(JoinGroupRequest)
    while script.awaited(JoinGroupRequest) == first:
        script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    hangup = script.actions.index(Hangup(NODE, Lane.GROUP))
    assert isinstance(script.actions[hangup + 1], Send)
    script.join(6)
    script.sync(T0, T1)
    assert script.machine.phase is Phase.STABLE


def test_no_repetition_without_partitions() -> None:
    script = Script("t", rebalance_timeout_ms=60_000).start()
    script.find()
    script.sleep(64_000)
    assert len(script.sent(JoinGroupRequest)) == 1
