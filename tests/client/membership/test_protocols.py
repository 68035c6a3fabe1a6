"""Eager and cooperative members: which of them one is, and what it says when it joins."""

from __future__ import annotations

import pytest

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    StickyAssignor,
)
from coterie_client.membership import Assign, Membership, MembershipConfig, Phase, Revoke, Sources
from coterie_protocol.consumer import decode_sticky_data, flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import JoinGroupRequest, SyncGroupRequest
from tests.support.scripted_membership import Script, subscription_of

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def at_work(*assignors: Assignor) -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t", assignors=assignors, rack="r1").start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


class CooperativeOnly(CooperativeStickyAssignor):
    """An assignor that eager members can't use."""

    name = "cooperative-only"
    protocols = (RebalanceProtocol.COOPERATIVE,)


# -- the choice --------------------------------------------------------------------------------


def test_cooperative_assignors_keep_partitions_during_a_join() -> None:
    script = at_work(CooperativeStickyAssignor())
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.told == []
    assert script.claim() == ({T0, T1}, 5)


@pytest.mark.parametrize(
    "assignors",
    [(RangeAssignor(),), (RangeAssignor(), CooperativeStickyAssignor()), (StickyAssignor(),)],
    ids=["range", "both", "sticky"],
)
def test_one_eager_assignor_makes_the_member_eager(assignors: tuple[Assignor, ...]) -> None:
    script = at_work(*assignors)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.told_what() == [(Revoke, {T0, T1})]
    assert not script.awaits(JoinGroupRequest)
    script.release()
    for protocol in range(len(assignors)):
        subscription = subscription_of(script.asks(JoinGroupRequest), protocol)
        assert subscription.owned_partitions == ()


def test_eager_member_begins_anew_with_new_tokens() -> None:
    script = at_work(RangeAssignor())
    tokens = dict(script.working)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.release()
    script.join(6)
    script.sync(T0, T1)
    script.beat()
    assert [type(each) for each in script.told] == [Revoke, Assign]
    assert all(script.working[each] > tokens[each] for each in tokens)


def test_assignors_that_cannot_live_together() -> None:
    sources = Sources(lambda: 0.5, lambda: 0)
    with pytest.raises(ValueError, match=r"in common, .*: range, cooperative-only"):
        Membership(MembershipConfig(group="g"), [RangeAssignor(), CooperativeOnly()], sources)


def test_no_assignor() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Membership(MembershipConfig(group="g"), [], Sources(lambda: 0.5, lambda: 0))


# -- what it says ------------------------------------------------------------------------------


def test_join_request() -> None:
    """It says what Kafka's member says, and waits for longer than the coordinator may take."""
    script = Script("t", session_timeout_ms=20_000, rebalance_timeout_ms=90_000).start()
    script.find()
    (send,) = script.awaited(JoinGroupRequest)
    assert send.timeout_ms == 95_000
    request = script.asks(JoinGroupRequest)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (20_000, 90_000)
    assert (request.protocol_type, request.reason) == ("consumer", "first join")


@pytest.mark.parametrize("asked_ms", [-1, 0, 600_000])
def test_the_time_to_be_away_travels(asked_ms: int) -> None:
    script = Script("t", instance="i", registration_timeout_ms=asked_ms).start()
    script.find()
    request = script.asks(JoinGroupRequest)
    assert (request.registration_timeout_ms, request.wants_absences) == (asked_ms, True)


def test_reason_travels() -> None:
    script = at_work()
    script.do(script.machine.rejoin("a better machine is there", script.now_ms))
    assert script.asks(JoinGroupRequest).reason == "a better machine is there"


def test_long_reason_is_cut() -> None:
    """A reason that lists very much must not make the request too large to send."""
    script = at_work()
    script.do(script.machine.rejoin("x" * 100_000, script.now_ms))
    assert script.asks(JoinGroupRequest).reason == "x" * 255


def test_first_join_claims_nothing() -> None:
    script = Script("t").start()
    script.find()
    assert script.claim() == (set(), -1)


def test_rack_travels() -> None:
    script = at_work()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert subscription_of(script.asks(JoinGroupRequest)).rack_id == "r1"


def test_preferred_assignor_comes_first() -> None:
    script = at_work(CooperativeStickyAssignor(), RangeAssignor())
    assert [each.name for each in script.sent(JoinGroupRequest)[0].protocols] == [
        "cooperative-sticky",
        "range",
    ]


def test_eager_sticky_says_what_it_had() -> None:
    script = at_work(StickyAssignor())
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.release()
    data = decode_sticky_data(subscription_of(script.asks(JoinGroupRequest)).user_data or b"")
    assert flatten(data.previous_assignment) == {T0, T1}
    assert data.generation == 5


def test_eager_sticky_says_so_in_the_next_attempt_too() -> None:
    script = at_work(StickyAssignor())
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.release()
    script.join(6)
    script.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    data = decode_sticky_data(subscription_of(script.asks(JoinGroupRequest)).user_data or b"")
    assert flatten(data.previous_assignment) == {T0, T1}


def test_sync_names_the_assignor() -> None:
    script = Script("t", assignors=[RangeAssignor(), CooperativeStickyAssignor()]).start()
    script.find()
    script.join(5, protocol_name="cooperative-sticky")
    assert script.asks(SyncGroupRequest).protocol_name == "cooperative-sticky"


def test_both_kinds_of_assignor_stay_eager() -> None:
    script = Script("t", assignors=[RangeAssignor(), CooperativeStickyAssignor()]).start()
    script.find()
    script.join(5, protocol_name="cooperative-sticky")
    script.sync(T0)
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.machine.phase is Phase.PREPARING


def test_cooperative_member_loses_its_claims_with_its_generation() -> None:
    script = at_work()
    script.next_beat(ErrorCode.ILLEGAL_GENERATION)
    assert script.claim() == (set(), -1)
    script.join(7)
    script.sync(T2)
    script.beat()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert script.claim() == ({T2}, 7)
