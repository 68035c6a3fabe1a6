"""Letting go of partitions: how long it may take, and what happens when it takes longer."""

from __future__ import annotations

import pytest

from coterie_client.membership import Abandon, Lose, PartitionLostError, Phase, Revoke
from coterie_client.membership.events import (
    CommitsUnconfirmed,
    PartitionsReleased,
    RevocationOverran,
)
from coterie_protocol.consumer import flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from tests.support.scripted_membership import Script, subscription_of

#: Topics with numbers.
Partitions = tuple[tuple[str, int], ...]

T0, T1, U0, U1 = ("t", 0), ("t", 1), ("u", 0), ("u", 1)

REBALANCE_MS = 60_000
#: How long letting go may take, so that there is time to join afterwards.
RELEASE_MS = 54_000


def at_work() -> Script:
    """A member in generation 5 that works on four partitions; its heartbeat was just answered."""
    script = Script("t", "u", rebalance_timeout_ms=REBALANCE_MS).start()
    script.settle(T0, T1, U0, U1, generation=5)
    script.told.clear()
    return script


def live(script: Script, ms: int) -> None:
    """Let time pass, with heartbeats answered."""
    until_ms = script.now_ms + ms
    while script.now_ms < until_ms:
        script.sleep(min(3_000, until_ms - script.now_ms))
        script.answer_heartbeat()


def test_released_bit_by_bit() -> None:
    """Each partition is given up when its own work has ended; the join waits for all."""
    script = at_work()
    script.subscribe("t")
    script.release(U0)
    assert script.machine.owned.keys() == {T0, T1, U1}
    assert not script.awaits(JoinGroupRequest)
    script.release(U1)
    assert script.awaits(JoinGroupRequest)
    assert script.seen(PartitionsReleased)[-1].partitions == (U0, U1)


def test_release_is_told_how_long_it_took() -> None:
    script = at_work()
    script.subscribe("t")
    live(script, 5_000)
    script.release()
    assert script.seen(PartitionsReleased)[-1].took_ms == 5_000


def test_overrun() -> None:
    """What does not end in time is given up without it, and the join goes out in time."""
    script = at_work()
    began_ms = script.now_ms
    script.subscribe("t")
    live(script, RELEASE_MS - 1)
    assert not script.awaits(JoinGroupRequest)
    live(script, 1)
    assert [type(each) for each in script.told] == [Revoke, Abandon]
    assert script.claim() == ({T0, T1}, 5)
    assert script.now_ms < began_ms + REBALANCE_MS
    assert script.seen(RevocationOverran)[-1].partitions == (U0, U1)


def test_overrun_of_some() -> None:
    """Only what did not end in time is abandoned."""
    script = at_work()
    script.subscribe("t")
    script.release(U1)
    live(script, RELEASE_MS)
    assert script.told[-1] == Abandon(frozenset({U0}))


def test_overrun_refuses_commits() -> None:
    script = at_work()
    token = script.working[U0]
    script.subscribe("t")
    live(script, RELEASE_MS)
    script.commit("k", U0, 7, token=token)
    assert isinstance(script.error_of("k"), PartitionLostError)


def test_overrun_of_a_last_commit() -> None:
    script = at_work()
    script.subscribe("t")
    script.commit("k", U0, 7)
    script.release()
    live(script, RELEASE_MS)
    assert [type(each) for each in script.told] == [Revoke]
    assert script.seen(RevocationOverran) == []
    (unconfirmed,) = script.seen(CommitsUnconfirmed)
    assert (unconfirmed.partitions, unconfirmed.after_ms) == ((U0,), RELEASE_MS)
    assert isinstance(script.error_of("k"), PartitionLostError)
    assert script.awaits(JoinGroupRequest)


def test_overrun_of_work_and_of_a_last_commit() -> None:
    script = at_work()
    script.subscribe("t")
    script.commit("k", U0, 7)
    script.release(U0)
    live(script, RELEASE_MS)
    assert script.told[-1] == Abandon(frozenset({U1}))
    assert [event.partitions for event in script.seen(RevocationOverran)] == [(U1,)]
    assert [event.partitions for event in script.seen(CommitsUnconfirmed)] == [(U0,)]


def test_late_release() -> None:
    script = at_work()
    script.subscribe("t")
    live(script, RELEASE_MS)
    script.do(script.machine.released([U0, U1], script.now_ms))
    assert script.claim() == ({T0, T1}, 5)


def test_deadline_counts_from_the_sync() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    sent_ms = script.now_ms
    script.sleep(2_000)
    script.sync(T0)
    (revoke,) = script.told
    assert isinstance(revoke, Revoke)
    assert revoke.deadline_ms == sent_ms + RELEASE_MS


def test_deadline_of_a_revocation_before_a_join() -> None:
    script = Script("t", "u", rebalance_timeout_ms=REBALANCE_MS).start()
    script.settle(T0, U0, generation=5)
    calm_ms = script.now_ms
    script.sleep(2_900)
    script.subscribe("t")
    revoke = script.told[-1]
    assert isinstance(revoke, Revoke)
    assert revoke.deadline_ms == calm_ms + RELEASE_MS


def test_second_revocation_keeps_the_deadline() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T1, U0)
    live(script, 10_000)
    script.close(within_ms=REBALANCE_MS)
    first, second = script.told
    assert isinstance(first, Revoke)
    assert isinstance(second, Revoke)
    assert second.partitions == {T0, T1, U0}
    assert second.deadline_ms == first.deadline_ms


def test_close_shortens_a_revocation() -> None:
    """Closing within a second counts for what is being let go of as well."""
    script = at_work()
    script.subscribe("v")
    assert script.revoking == {T0, T1, U0, U1}
    script.close(within_ms=1_000)
    script.sleep(1_000)
    assert script.told[-1] == Abandon(frozenset({T0, T1, U0, U1}))
    assert script.machine.phase is Phase.LEAVING


def test_rebalance_during_a_revocation() -> None:
    """The join still waits for the work to end: no other member may own it before that."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T1)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert not script.awaits(JoinGroupRequest)
    script.release()
    assert script.claim() == ({T0, T1}, 6)


def revoking_until_the_deadline() -> Script:
    """A member that does not end the work which a rebalance waits for, and joins just in time."""
    script = Script("t", "u", rebalance_timeout_ms=REBALANCE_MS).start()
    script.settle(T0, U0, generation=5)
    until_ms = script.now_ms + RELEASE_MS - 1
    script.subscribe("t")
    while script.now_ms < until_ms:
        script.sleep(min(3_000, until_ms - script.now_ms))
        if script.awaits(HeartbeatRequest):
            script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.told.clear()
    script.sleep(1)
    assert script.told == [Abandon(frozenset({U0}))]
    assert script.claim() == ({T0}, 5)
    script.told.clear()
    return script


def test_what_is_kept_is_lost_if_the_join_may_be_too_late() -> None:
    script = revoking_until_the_deadline()
    script.sleep(REBALANCE_MS - RELEASE_MS - 1)
    assert [type(each) for each in script.told] == [Lose]


def test_what_is_kept_stays_if_the_coordinator_answers_beside_a_late_join() -> None:
    script = revoking_until_the_deadline()
    script.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(REBALANCE_MS - RELEASE_MS)
    assert script.told == []


# -- giving up ---------------------------------------------------------------------------------


def give_up(script: Script, *partitions: tuple[str, int]) -> None:
    """Say that these can't be worked on here."""
    for partition in partitions:
        script.working.pop(partition, None)
        script.revoking.discard(partition)
    script.do(script.machine.give_up(partitions, script.now_ms))


def refused(script: Script) -> frozenset[tuple[str, int]]:
    """What the join under way says that the member can't work on."""
    return flatten(subscription_of(script.asks(JoinGroupRequest)).refused_partitions)


def test_give_up() -> None:
    """The member joins again at once, without the partition, and says that it can't take it."""
    script = at_work()
    give_up(script, U0)
    assert script.told == []
    assert script.claim() == ({T0, T1, U1}, 5)
    assert refused(script) == {U0}


def test_give_up_after_the_last_commit() -> None:
    script = at_work()
    script.commit("k", U0, 7)
    give_up(script, U0)
    assert not script.awaits(JoinGroupRequest)
    script.store()
    assert script.claim() == ({T0, T1, U1}, 5)


def test_give_up_is_said_once() -> None:
    script = at_work()
    give_up(script, U0)
    script.join(6)
    script.sync(T0, T1, U1)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert refused(script) == set()


def test_give_up_while_joining() -> None:
    """The join under way does not say so: it is not taken back, and the next join says it."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    give_up(script, U0)
    script.join(6)
    script.sync(T0, T1, U0, U1)
    assert U0 not in script.working
    assert script.claim() == ({T0, T1, U1}, 6)
    assert refused(script) == {U0}


@pytest.mark.parametrize("assigned", [(T0, T1, U0, U1), (T0, T1, U1)])
def test_give_up_what_a_join_that_is_repeated_still_claims(assigned: Partitions) -> None:
    """It is owned until its last commit is stored; the next join says that it was given up."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit("last", U0, 5)
    give_up(script, U0)
    script.refuse(JoinGroupRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    script.sleep_until_asked(JoinGroupRequest)
    assert script.claim() == ({T0, T1, U0, U1}, 5)
    assert refused(script) == frozenset()
    script.join(6)
    script.sync(*assigned)
    script.store()
    assert U0 not in script.working
    assert script.claim() == ({T0, T1, U1}, 6)
    assert refused(script) == {U0}


def test_give_up_what_is_being_revoked() -> None:
    script = at_work()
    script.subscribe("t")
    give_up(script, U0, U1)
    assert script.claim() == ({T0, T1}, 5)


def test_give_up_what_is_not_owned() -> None:
    script = at_work()
    give_up(script, ("t", 9))
    assert script.machine.phase is Phase.STABLE


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_lost_while_giving_up(code: ErrorCode) -> None:
    """The partition is gone anyway; the new start still says that it can't be worked on here."""
    script = at_work()
    script.commit("k", U0, 7)
    give_up(script, U0)
    script.store(code)
    assert isinstance(script.error_of("k"), PartitionLostError)
    assert not script.awaits(OffsetCommitRequest)
    assert refused(script) == {U0}
