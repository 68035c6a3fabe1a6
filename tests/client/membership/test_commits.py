"""Commits: many to a request, the newest wins, and only owners commit."""

from __future__ import annotations

import pytest

from coterie_client.membership import FailureKind, Lose, PartitionLostError, Phase
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import OffsetMetadataTooLargeError
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)
from tests.support.scripted_membership import NODE, OTHER, Script

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def at_work() -> Script:
    """A member in generation 5 that works on three partitions."""
    script = Script("t", "u", instance="i").start()
    script.settle(T0, T1, U0, generation=5)
    script.told.clear()
    return script


def offsets(script: Script) -> dict[tuple[str, int], int]:
    """What the commit under way says."""
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in script.asks(OffsetCommitRequest).topics
        for each in topic.partitions
    }


def test_commit_is_sent_at_once_in_the_members_name() -> None:
    script = at_work()
    script.commit("k", T0, 7)
    request = script.asks(OffsetCommitRequest)
    assert offsets(script) == {T0: 7}
    assert (request.member_id, request.generation_id_or_member_epoch) == ("m-1", 5)
    assert request.group_instance_id == "i"
    script.store()
    assert script.error_of("k") is None


def test_one_request_at_a_time() -> None:
    script = at_work()
    script.commit("a", T0, 1)
    script.commit("b", T1, 2)
    script.commit("c", U0, 3)
    assert len(script.awaited(OffsetCommitRequest)) == 1
    script.store()
    assert offsets(script) == {T1: 2, U0: 3}
    script.store()
    assert [script.error_of(key) for key in "abc"] == [None, None, None]


def test_newest_offset_stands_for_the_older_ones_of_its_partition() -> None:
    script = at_work()
    script.commit("sent", T0, 1)
    for key, offset in (("a", 2), ("b", 3), ("c", 4)):
        script.commit(key, T0, offset)
    script.store()
    assert offsets(script) == {T0: 4}
    assert not script.results.keys() & {"a", "b", "c"}
    script.store()
    assert script.results.keys() == {"sent", "a", "b", "c"}


def test_older_offset_is_committed_too() -> None:
    script = at_work()
    script.commit("a", T0, 9)
    script.store()
    script.commit("b", T0, 3)
    assert offsets(script) == {T0: 3}


def test_failed_commit_does_not_overtake() -> None:
    script = at_work()
    script.commit("a", T0, 1)
    script.commit("b", T0, 2)
    script.store(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.sleep(150)
    assert offsets(script) == {T0: 2}
    script.store()
    assert script.results.keys() == {"a", "b"}


def test_each_partition_has_its_own_result() -> None:
    script = at_work()
    script.commit("first", T0, 1)
    script.commit("a", T0, 2)
    script.commit("b", T1, 3)
    script.commit("c", U0, 4)
    script.store()
    script.store(
        ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.OFFSET_METADATA_TOO_LARGE
    )
    assert script.error_of("a") is None
    assert isinstance(script.error_of("c"), OffsetMetadataTooLargeError)
    script.sleep(150)
    assert offsets(script) == {T1: 3}


def test_partition_missing_in_the_answer() -> None:
    script = at_work()
    script.commit("k", T0, 1)
    script.answer(OffsetCommitRequest, OffsetCommitResponse(topics=()))
    assert "k" not in script.results
    script.sleep(150)
    assert offsets(script) == {T0: 1}


def test_commit_moves_to_the_new_coordinator() -> None:
    script = at_work()
    script.commit("k", T0, 1)
    script.fail(OffsetCommitRequest)
    script.sleep(150)
    script.find()
    assert offsets(script) == {T0: 1}


def test_commit_goes_out_as_soon_as_the_new_coordinator_is_known() -> None:
    """However often it has failed while the old one was named, which had died."""
    script = at_work()
    script.commit("k", T0, 1)
    script.fail_until_found(OffsetCommitRequest, *[NODE] * 6, OTHER)
    assert offsets(script) == {T0: 1}


def test_commit_that_is_refused_again_and_again_is_repeated_more_and_more_seldom() -> None:
    """Though heartbeats are answered, so that the coordinator is found at once each time."""
    script = Script("t", heartbeat_interval_ms=100).start()
    script.settle(T0, T1, generation=5)
    script.commit("k", T0, 1)
    until_ms = script.now_ms + 20_000
    while script.now_ms < until_ms:
        if script.awaits(OffsetCommitRequest):
            script.store(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if script.awaits(FindCoordinatorRequest):
            script.find()
        if script.awaits(HeartbeatRequest):
            script.beat()
        script.sleep(1)
    assert 20 <= len(script.sent(OffsetCommitRequest)) <= 30


def test_commit_that_is_refused_while_the_member_leaves_is_not_repeated_at_once() -> None:
    script = at_work()
    script.commit("k", T0, 1)
    script.close()
    script.store(ErrorCode.NOT_COORDINATOR)
    assert not script.awaits(OffsetCommitRequest)


def test_unsendable_commit_fails() -> None:
    """A retry would not help; the member goes on."""
    script = at_work()
    error = ValueError("too large")
    script.commit("k", T0, 1)
    script.fail(OffsetCommitRequest, FailureKind.REFUSED, error)
    assert script.error_of("k") is error
    assert script.machine.phase is Phase.STABLE


# -- who may commit ----------------------------------------------------------------------------


def test_former_ownership_can_not_commit() -> None:
    """Not even when the member has the partition again."""
    script = at_work()
    token = script.working[T0]
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    script.join(7, member_id="m-2")
    script.sync(T0)
    script.beat()
    assert script.working[T0] > token
    script.commit("old", T0, 99, token=token)
    assert isinstance(script.error_of("old"), PartitionLostError)
    assert not script.awaits(OffsetCommitRequest)


def test_not_owned() -> None:
    script = at_work()
    script.commit("k", ("t", 3), 1)
    assert isinstance(script.error_of("k"), PartitionLostError)


def test_commit_fails_with_its_partition() -> None:
    """Its answer does not count any more."""
    script = at_work()
    script.commit("sent", T0, 1)
    script.commit("waiting", T0, 2)
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(script.error_of("sent"), PartitionLostError)
    assert isinstance(script.error_of("waiting"), PartitionLostError)
    script.store()
    assert script.results.keys() == {"sent", "waiting"}


def test_answer_to_a_former_taking() -> None:
    script = at_work()
    script.commit("old", T0, 1)
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    script.join(7, member_id="m-2")
    script.sync(T0)
    script.beat()
    script.commit("new", T0, 2)
    script.store(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert "new" not in script.results
    assert offsets(script) == {T0: 2}


# -- during a rebalance ------------------------------------------------------------------------


def test_commit_during_a_join_goes_out_in_the_old_generation() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit("k", T0, 1)
    assert script.asks(OffsetCommitRequest).generation_id_or_member_epoch == 5


@pytest.mark.parametrize("leads", [False, True])
def test_commit_between_join_and_sync_waits_for_the_sync(*, leads: bool) -> None:
    """The coordinator would refuse it before."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6, leads=leads)
    script.commit("k", T0, 1)
    assert not script.awaits(OffsetCommitRequest)
    if leads:
        script.tell_topics()
    script.sync(T0, T1, U0)
    assert script.asks(OffsetCommitRequest).generation_id_or_member_epoch == 6


def test_identity_changes_while_under_way() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit("k", T0, 1)
    script.join(6)
    script.store(ErrorCode.ILLEGAL_GENERATION)
    assert "k" not in script.results
    script.sync(T0, T1, U0)
    script.sleep(150)
    assert script.asks(OffsetCommitRequest).generation_id_or_member_epoch == 6
    script.store()
    assert script.error_of("k") is None
    assert script.told == []


def test_commit_is_retried_during_a_rebalance_without_delaying_the_join() -> None:
    script = at_work()
    script.commit("k", T0, 1)
    script.store(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.awaits(JoinGroupRequest)
    script.sleep(150)
    script.store(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T1, U0)
    script.sleep(500)
    script.store()
    assert script.error_of("k") is None
    assert len(script.sent(JoinGroupRequest)) == 2


def test_last_commit_of_a_revoked_partition() -> None:
    script = at_work()
    script.subscribe("t")
    script.commit("last", U0, 9)
    script.release(U0)
    assert not script.awaits(JoinGroupRequest)
    assert U0 in script.machine.owned
    script.store()
    assert U0 not in script.machine.owned
    assert script.awaits(JoinGroupRequest)


def test_last_commit_after_a_sync() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0)
    script.commit("last", U0, 9)
    script.release()
    assert not script.awaits(JoinGroupRequest)
    script.store(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not script.awaits(JoinGroupRequest)
    script.sleep(150)
    script.store()
    assert script.claim() == ({T0}, 6)


def test_last_commit_that_is_refused_for_good() -> None:
    script = at_work()
    script.subscribe("t")
    script.commit("last", U0, 9)
    script.release(U0)
    script.store(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert script.error_of("last") is not None
    assert script.awaits(JoinGroupRequest)


def test_commit_after_the_work_ended() -> None:
    script = at_work()
    token = script.working[U0]
    script.subscribe("t")
    script.commit("a", U0, 9)
    script.release(U0)
    script.commit("b", U0, 10, token=token)
    script.store()
    script.store()
    assert script.error_of("b") is None
    script.commit("c", U0, 11, token=token)
    assert isinstance(script.error_of("c"), PartitionLostError)


def test_rebalance_in_sync_while_closing() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.close()
    script.commit("last", T0, 9)
    script.release()
    script.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.asks(OffsetCommitRequest).generation_id_or_member_epoch == 6
    assert script.awaits(HeartbeatRequest)
    script.store()
    assert script.error_of("last") is None


# -- partitions that are gone ------------------------------------------------------------------


def test_commit_to_a_partition_that_is_gone_loses_it() -> None:
    """Coterie's coordinator has looked for it: another topic of the name would get the offset."""
    script = numbered()
    script.commit("a", T0, 1)
    script.commit("b", T1, 1)
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(script.error_of("a"), PartitionLostError)
    assert [type(each) for each in script.told] == [Lose]
    assert script.working.keys() == {T1}
    script.store()
    assert script.error_of("b") is None


def test_partition_that_was_gone_may_be_assigned_anew() -> None:
    """A topic that was made anew looks to the leader like the one that it knows."""
    script = numbered()
    script.commit("a", T0, 1)
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert script.claim() == ({T1}, 5)
    script.join(6)
    script.sync(T0, T1, token=6 << 32)
    assert script.working == {T0: 6 << 32, T1: 5 << 32}


def test_leader_that_does_not_believe_it_starts_no_storm() -> None:
    """It may ask a node that hears nothing from the others."""
    script = numbered()
    script.commit("a", T0, 1)
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    script.join(6)
    script.sync(T0, T1, token=6 << 32)
    script.tell_topics()
    script.commit("again", T0, 1)
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not script.awaits(JoinGroupRequest)
    assert script.working.keys() == {T0, T1}
    assert script.awaits(MetadataRequest)
    script.sleep_until_asked(OffsetCommitRequest)
    script.store()
    assert script.error_of("again") is None


def test_last_commit_to_a_partition_that_is_gone_holds_up_no_closing() -> None:
    script = numbered()
    script.close(within_ms=60_000)
    script.commit("last", T0, 1)
    script.release()
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(script.error_of("last"), PartitionLostError)
    assert script.awaits(LeaveGroupRequest)


def test_partition_that_kafka_does_not_know_is_looked_for_at_once() -> None:
    """A broker that has just heard of a new topic may know less than the leader."""
    script = at_work()
    script.tell_topics()
    script.commit("a", T0, 1)
    script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert "a" not in script.results
    script.tell_topics(t=None)
    script.sleep(100)
    script.tell_topics()
    assert isinstance(script.error_of("a"), PartitionLostError)
    assert script.working.keys() == {U0}


def test_commits_that_are_refused_again_wait_for_what_is_known_of_topics() -> None:
    script = at_work()
    script.tell_topics()
    script.commit("a", T0, 1)
    for _ in range(3):
        script.store(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        script.sleep_until_asked(OffsetCommitRequest)
    assert len(script.awaited(MetadataRequest)) == 1
    script.tell_topics()
    script.store()
    assert script.error_of("a") is None


# -- their order -------------------------------------------------------------------------------


def numbered() -> Script:
    """A member in generation 5 of a coordinator that issues tokens."""
    script = Script("t").start()
    script.find()
    script.join(5)
    script.sync(T0, T1, token=5 << 32)
    script.beat()
    script.told.clear()
    return script


def test_each_commit_has_a_higher_number() -> None:
    script = numbered()
    script.commit("a", T0, 1)
    script.store()
    script.commit("b", T0, 2)
    script.fail(OffsetCommitRequest)
    script.sleep(150)
    script.find()
    script.sleep(150)
    sequences = [request.sequence for request in script.sent(OffsetCommitRequest)]
    assert len(sequences) == 3
    assert sequences == sorted(set(sequences))
    assert sequences[0] >= 0


def test_numbers_go_on_under_another_member_id() -> None:
    script = numbered()
    script.commit("a", T0, 1)
    script.store()
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    script.join(6, member_id="m-2")
    script.sync(T0, token=6 << 32)
    script.next_beat()
    script.commit("b", T0, 2)
    first, second = script.sent(OffsetCommitRequest)
    assert second.sequence > first.sequence


def test_kafka_is_sent_no_numbers() -> None:
    script = at_work()
    script.commit("a", T0, 1)
    assert script.asks(OffsetCommitRequest).sequence == -1


def test_overtaken_commit_is_sent_again_with_a_higher_number() -> None:
    script = numbered()
    script.commit("a", T0, 1)
    first = script.asks(OffsetCommitRequest)
    script.store(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    script.sleep(150)
    assert script.asks(OffsetCommitRequest).sequence > first.sequence
    script.store()
    assert script.error_of("a") is None
