"""What makes a member join again, and what it does with what it owns before that (KIP-429, 1.a-f).

The draft's wording for each trigger stands in the names and docstrings of its tests.
"""

from __future__ import annotations

import pytest

from coterie_client.membership import Assign, Identity, Lose, Phase, Revoke, Send
from coterie_client.membership.events import AssignmentReceived, JoinStarted, TopicsChanged
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages import (
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.support.scripted_membership import Script, subscription_of

T0, T1, T2, U0 = ("t", 0), ("t", 1), ("t", 2), ("u", 0)


def at_work(*topics: str, leads: bool = False) -> Script:
    """A member in generation 5 that works on three partitions."""
    script = Script(*(topics or ("t", "u"))).start()
    script.settle(*(p for p in (T0, T1, U0) if p[0] in script.topics), generation=5, leads=leads)
    script.told.clear()
    return script


# -- a. the subscription changed ---------------------------------------------------------------


def test_subscription_changed() -> None:
    """What was unsubscribed is revoked; the join waits for that and claims the rest."""
    script = at_work()
    script.subscribe("t")
    assert script.told_what() == [(Revoke, {U0})]
    assert not script.awaits(JoinGroupRequest)
    script.release(U0)
    assert script.claim() == ({T0, T1}, 5)
    assert subscription_of(script.asks(JoinGroupRequest)).topics == ("t",)


def test_subscription_only_grows() -> None:
    """Nothing has to be let go of for a further topic: the join goes out at once."""
    script = at_work("t")
    script.subscribe("t", "u")
    assert script.told == []
    assert script.claim() == ({T0, T1}, 5)
    assert subscription_of(script.asks(JoinGroupRequest)).topics == ("t", "u")


def test_same_subscription() -> None:
    script = at_work()
    script.subscribe("u", "t")
    script.sleep(1_000)
    assert script.machine.phase is Phase.STABLE


def test_subscription_changed_twice_during_revocation() -> None:
    script = at_work()
    script.subscribe("t")
    script.subscribe("v")
    script.release(U0)
    assert script.revoking == {T0, T1}
    assert not script.awaits(JoinGroupRequest)
    script.release()
    assert script.claim() == (set(), 5)
    assert subscription_of(script.asks(JoinGroupRequest)).topics == ("v",)


def test_subscription_changed_while_the_coordinator_is_away() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.refuse(JoinGroupRequest, ErrorCode.NOT_COORDINATOR)
    script.subscribe("t")
    script.sleep(100)
    script.find()
    assert script.revoking == {U0}
    assert not script.awaits(JoinGroupRequest)
    script.release()
    assert script.claim() == ({T0, T1}, 5)


def test_subscription_changed_while_joining() -> None:
    """The new subscription waits for the generation, and then the member joins again."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.subscribe("t")
    assert len(script.sent(JoinGroupRequest)) == 2
    script.join(6)
    script.sync(T0, T1, U0)
    assert script.told_what() == [(Revoke, {U0})]
    script.release()
    assert subscription_of(script.asks(JoinGroupRequest)).topics == ("t",)
    assert script.claim() == ({T0, T1}, 6)


def test_assigned_what_is_not_wanted_any_more() -> None:
    script = Script("t", "u").start()
    script.find()
    script.join(5)
    script.subscribe("t")
    script.sync(T0, U0)
    script.beat()
    assert script.working.keys() == {T0}
    assert script.claim() == ({T0}, 5)


# -- b. topic metadata changed -----------------------------------------------------------------


def grow_old(script: Script, age_ms: int = 60_000) -> None:
    """Let the topics' metadata grow old, with heartbeats answered meanwhile."""
    until_ms = script.now_ms + age_ms
    while script.now_ms < until_ms:
        script.sleep(min(3_000, until_ms - script.now_ms))
        script.answer_heartbeat()


def tell(script: Script, times: int = 1, **topics: int | None) -> None:
    """Let the topics be told anew as often as said."""
    grow_old(script)
    script.tell_topics(**topics)
    for _ in range(times - 1):
        script.sleep(120)
        script.tell_topics()


def test_topic_gone() -> None:
    """What does not exist any more is lost, not revoked: there is nothing to commit to."""
    script = at_work()
    tell(script, times=2, u=None)
    assert script.told_what() == [(Lose, {U0})]
    assert script.machine.phase is Phase.STABLE


def test_topic_gone_for_the_leader() -> None:
    script = at_work(leads=True)
    tell(script, times=2, u=None)
    assert script.claim() == ({T0, T1}, 5)
    assert script.seen(JoinStarted)[-1].reason == "topics changed"


def test_topic_denied_once() -> None:
    """A broker that has just started knows no topics: one such answer is not believed."""
    script = at_work(leads=True)
    tell(script, u=None)
    script.sleep(120)
    script.tell_topics(u=4)
    assert script.told == []
    assert script.machine.phase is Phase.STABLE


def test_topic_grew_for_the_leader() -> None:
    script = at_work(leads=True)
    tell(script, t=6)
    assert script.told == []
    assert script.claim() == ({T0, T1, U0}, 5)


def test_topic_grew_for_a_follower() -> None:
    script = at_work()
    tell(script, t=6)
    assert script.machine.phase is Phase.STABLE
    assert script.seen(TopicsChanged)[-1].topics == {"t": 6}


def test_topic_shrank() -> None:
    """A topic that was made anew with fewer partitions takes the others away."""
    script = at_work()
    tell(script, times=2, t=1)
    assert script.told_what() == [(Lose, {T1})]


def test_topic_grows_after_the_leader_decided() -> None:
    script = at_work(leads=True)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6, leads=True)
    script.tell_topics()
    grow_old(script)
    script.tell_topics(t=6)
    script.sync(T0, T1, U0)
    assert script.claim() == ({T0, T1, U0}, 6)


def test_topic_grows_before_the_leader_decides() -> None:
    script = at_work(leads=True)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6, leads=True)
    assert script.awaits(MetadataRequest)
    script.tell_topics(t=6)
    script.sync(T0, T1, U0)
    assert script.machine.phase is Phase.STABLE
    assert not script.awaits(JoinGroupRequest)


# -- c. REBALANCE_IN_PROGRESS ------------------------------------------------------------------


def test_rebalance_told_by_a_heartbeat() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.told == []
    assert script.claim() == ({T0, T1, U0}, 5)
    assert script.asks(JoinGroupRequest).member_id == "m-1"


def test_rebalance_told_by_a_commit() -> None:
    script = at_work()
    script.commit("k", T0, 7)
    script.store(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.told == []
    assert script.claim() == ({T0, T1, U0}, 5)
    script.sleep(150)
    script.store()
    assert script.error_of("k") is None


def test_rebalance_told_by_a_sync() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.told == []
    assert script.claim() == ({T0, T1, U0}, 6)


def test_rebalance_told_while_joining() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T1, U0)
    assert script.machine.phase is Phase.STABLE
    assert len(script.sent(JoinGroupRequest)) == 2


# -- d. UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION --------------------------------------------------

RESETS = (
    (ErrorCode.UNKNOWN_MEMBER_ID, ""),
    (ErrorCode.ILLEGAL_GENERATION, "m-1"),
)


def assert_starts_anew(script: Script, member_id: str) -> None:
    """Everything is lost, and the next join claims nothing, under the id that still stands."""
    assert script.told_what() == [(Lose, {T0, T1, U0})]
    assert script.asks(JoinGroupRequest).member_id == member_id
    assert script.claim() == (set(), -1)
    assert not script.machine.identity.is_in_generation


@pytest.mark.parametrize(("code", "member_id"), RESETS)
def test_left_behind_told_by_a_heartbeat(code: ErrorCode, member_id: str) -> None:
    script = at_work()
    script.next_beat(code)
    assert_starts_anew(script, member_id)


@pytest.mark.parametrize(("code", "member_id"), RESETS)
def test_left_behind_told_by_a_commit(code: ErrorCode, member_id: str) -> None:
    script = at_work()
    script.commit("k", T0, 7)
    script.store(code)
    assert_starts_anew(script, member_id)
    assert script.error_of("k") is not None


@pytest.mark.parametrize(("code", "member_id"), RESETS)
def test_left_behind_told_by_a_join(code: ErrorCode, member_id: str) -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.refuse(JoinGroupRequest, code)
    assert_starts_anew(script, member_id)


@pytest.mark.parametrize(("code", "member_id"), RESETS)
def test_left_behind_told_by_a_sync(code: ErrorCode, member_id: str) -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.refuse(SyncGroupRequest, code)
    assert_starts_anew(script, member_id)


def test_left_behind_while_revoking() -> None:
    """What is being let go of is lost like the rest, and the join does not wait for its work."""
    script = at_work()
    script.subscribe("t")
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert script.told_what()[-1] == (Lose, {T0, T1, U0})
    assert script.claim() == (set(), -1)


def test_late_error_for_an_older_identity() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.commit("k", T0, 7)
    script.join(6)
    script.sync(T0, T1, U0)
    script.store(ErrorCode.ILLEGAL_GENERATION)
    assert script.told == []
    script.sleep(150)
    assert script.asks(OffsetCommitRequest).generation_id_or_member_epoch == 6
    script.store()
    assert script.error_of("k") is None


# -- e. MEMBER_ID_REQUIRED ---------------------------------------------------------------------


def test_member_id_required() -> None:
    """The id is taken over, and the join sent again at once; nothing is owned at that time."""
    script = Script("t").start()
    script.find()
    assert script.asks(JoinGroupRequest).member_id == ""
    script.refuse(JoinGroupRequest, ErrorCode.MEMBER_ID_REQUIRED)
    assert script.asks(JoinGroupRequest).member_id == "m-given"
    assert script.claim() == (set(), -1)
    script.join(1)
    assert script.machine.identity == Identity("m-given", 1)


def test_member_id_required_after_being_forgotten() -> None:
    script = at_work()
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    script.refuse(JoinGroupRequest, ErrorCode.MEMBER_ID_REQUIRED)
    assert script.asks(JoinGroupRequest).member_id == "m-given"


# -- f. NEEDS_REJOIN, and what was revoked after the sync ----------------------------------------


def test_needs_rejoin() -> None:
    """The leader wants all members to join again: at once, with what was just assigned."""
    script = Script("t").start()
    script.find()
    script.join(5)
    script.sync(T0, needs_rejoin=True)
    script.beat()
    assert script.working.keys() == {T0}
    assert script.claim() == ({T0}, 5)
    assert script.seen(AssignmentReceived)[-1].needs_rejoin


def test_revoked_after_the_sync() -> None:
    """New partitions are worked on, then others are let go of, then comes the join (3.a-e)."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T2)
    assert script.told_what() == [
        (Assign, {T2}),
        (Revoke, {T1, U0}),
    ]
    assert not script.awaits(JoinGroupRequest)
    script.release(T1)
    assert not script.awaits(JoinGroupRequest)
    script.release(U0)
    assert script.claim() == ({T0, T2}, 6)


def test_needs_rejoin_and_own_revocation() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, needs_rejoin=True)
    script.release()
    script.join(7)
    script.sync(T0)
    assert script.machine.phase is Phase.STABLE
    assert len(script.sent(JoinGroupRequest)) == 3


def test_nothing_revoked() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.sync(T0, T1, U0)
    assert script.machine.phase is Phase.STABLE
    assert not any(isinstance(send, Send) for send in script.awaited(JoinGroupRequest))


def test_empty_assignment() -> None:
    script = Script("t").start()
    script.find()
    script.join(5)
    script.refuse(SyncGroupRequest, ErrorCode.NONE)
    script.beat()
    assert script.machine.phase is Phase.STABLE
    assert script.working == {}


def test_unreadable_assignment() -> None:
    """What can't be read may be anything: the member stops, and says why."""
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.join(6)
    script.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"\x00"))
    assert script.working == {}
    script.survive()
    assert script.stopped is not None
    assert isinstance(script.stopped.error, ProtocolError)
