"""Something else happens while a member is in the middle of something.

Each cell of the grid brings a member to a moment, has one more thing happen, and then has
everything answered kindly. The checks of `Script` run after each step: so no cell may start work
twice, take away what is not there, settle a commit twice, or wait for what can't come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_client.membership import FailureKind, Phase, Role
from coterie_client.membership.warm_blocks import Orders
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.support.cases import for_each
from tests.support.profiles import by_profile
from tests.support.scripted_membership import Script

T0, T1, U0, U1 = ("t", 0), ("t", 1), ("u", 0), ("u", 1)

#: What does not touch what a member owns (KIP-429, 1.c, and what is over in a moment).
HARMLESS = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}

#: What takes everything from a member (1.d).
FORGOTTEN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}

CODES = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)


# -- moments -----------------------------------------------------------------------------------


def working() -> Script:
    """At work on two topics, with nothing under way."""
    script = Script("t", "u", instance="i").start()
    script.settle(T0, T1, U0, generation=5)
    return script


def beating() -> Script:
    """At work, with a heartbeat, a commit and a question for an offset under way."""
    script = working()
    script.sleep(3_000)
    script.commit("sent", T0, 1)
    script.commit("waiting", T0, 2)
    script.fetch("offset", T1)
    return script


def looking() -> Script:
    """The coordinator's connection broke, and it is being looked for."""
    script = beating()
    script.fail(HeartbeatRequest)
    script.sleep(100)
    return script


def looking_at_first() -> Script:
    """Nothing is known yet."""
    return Script("t", "u", instance="i").start()


def joining_at_first() -> Script:
    """The first join of all is under way."""
    script = looking_at_first()
    script.find()
    return script


def joining() -> Script:
    """Asking to be in the next generation, and at work meanwhile."""
    script = working()
    script.next_beat(ErrorCode.REBALANCE_IN_PROGRESS)
    script.sleep(3_000)
    script.commit("sent", T0, 1)
    script.fetch("offset", T1)
    return script


def leading() -> Script:
    """Leading, and looking at the topics."""
    script = joining()
    script.join(6, leads=True)
    return script


def syncing() -> Script:
    """In the next generation, but not told yet what to work on."""
    script = joining()
    script.join(6)
    script.commit("waiting", T1, 2)
    return script


def proving() -> Script:
    """Assigned, but so late that it may not be counted on any more."""
    script = joining_at_first()
    script.join(5)
    script.sleep(45_000)
    script.sync(T0)
    assert script.machine.phase is Phase.PROVING
    return script


def silenced() -> Script:
    """Not at work any more, because the coordinator was silent, and asking whether it still may."""
    script = working()
    script.sleep(45_000)
    assert script.machine.phase is Phase.PROVING
    return script


def revoking_before() -> Script:
    """Letting go of a topic that is not wanted any more, to join then."""
    script = beating()
    script.subscribe("t")
    assert script.machine.phase is Phase.PREPARING
    return script


def revoking_after() -> Script:
    """Letting go of what the leader gave to others, to join then."""
    script = joining()
    script.join(6)
    script.sync(T0, U0, U1)
    script.commit("late", T1, 3)
    assert script.machine.phase is Phase.STABLE
    assert script.revoking == {T1}
    return script


def draining() -> Script:
    """Work on a revoked partition has ended, and its last commit is under way."""
    script = revoking_after()
    script.release()
    return script


def warming() -> Script:
    """At work, with a standby, and a warm-up that is about to catch up."""
    script = Script("t", "u", instance="i").keep_warm({U1: 70_000}).start()
    script.tell_topics()
    script.find()
    script.join(5)
    script.sync(T0, orders=Orders(frozenset({T1, U1}), frozenset({U1})))
    script.beat()
    script.sleep(3_000)
    script.lag(T1, 0)
    assert script.roles == {T1: Role.STANDBY, U1: Role.WARM_UP}
    return script


def promoting() -> Script:
    """Joining, because a warm-up has caught up."""
    script = warming()
    script.lag(U1, 0)
    assert script.awaits(JoinGroupRequest)
    return script


def demoting() -> Script:
    """Letting go of what is to become a standby."""
    script = promoting()
    script.join(6)
    script.sync(U1, orders=Orders(frozenset({T0, T1})))
    script.commit("late", T0, 3)
    assert script.revoking == {T0}
    assert script.roles.keys() == {T0, T1}
    return script


def closing() -> Script:
    """Letting go of everything, to leave."""
    script = beating()
    script.close()
    return script


def closing_in_join() -> Script:
    """Letting go of everything while a join is under way."""
    script = joining()
    script.close()
    return script


def leaving() -> Script:
    """Leaving, with older requests still under way."""
    script = beating()
    script.close()
    script.store()
    script.store()
    script.release()
    assert script.machine.phase is Phase.LEAVING
    return script


def fencing() -> Script:
    """Fenced, and asking which process has its place."""
    script = beating()
    script.beat(ErrorCode.FENCED_INSTANCE_ID)
    return script


MOMENTS: tuple[Callable[[], Script], ...] = (
    beating,
    looking,
    looking_at_first,
    joining_at_first,
    joining,
    leading,
    syncing,
    proving,
    silenced,
    revoking_before,
    revoking_after,
    draining,
    warming,
    promoting,
    demoting,
    closing,
    closing_in_join,
    leaving,
    fencing,
)

KINDS: tuple[type[Any], ...] = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    MetadataRequest,
    LeaveGroupRequest,
    DescribeGroupsRequest,
)

#: Those that a member sends as a member of its generation.
MEMBERLY = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest)
#: Those of them that go beside a join.
BESIDE = (HeartbeatRequest, OffsetCommitRequest)


def under_way() -> list[tuple[Callable[[], Script], type[Any]]]:
    """Each moment with each kind of request that waits for an answer in it."""
    return [(moment, kind) for moment in MOMENTS for kind in KINDS if moment().awaits(kind)]


def named(value: Any) -> str | None:
    """A readable test id."""
    return value.__name__ if callable(value) else None


def assert_recovers(script: Script) -> None:
    """In the end it is at work, or it has stopped with all its promises kept."""
    script.survive(T0, U1)
    for _ in range(40):
        if script.keys <= script.results.keys():
            break
        script.help_out(T0, U1)
    assert script.keys == script.results.keys(), script.describe()


def says_who_we_are(script: Script, kind: type[Any], code: ErrorCode) -> bool | None:
    """Whether an error takes everything from the member; None if it does not speak of that."""
    if kind not in MEMBERLY or code not in (*FORGOTTEN, ErrorCode.ILLEGAL_GENERATION):
        return None
    if kind is OffsetCommitRequest:
        generation = script.asks(OffsetCommitRequest).generation_id_or_member_epoch
        if generation != script.machine.identity.generation:
            return False  # It is said of an older self.
    # Beside a join or a sync it may only mean that the next generation has begun.
    is_between = script.machine.phase in (Phase.JOINING, Phase.SYNCING)
    return code in FORGOTTEN or not (is_between and kind in BESIDE)


# -- the grid ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("moment", "kind"), under_way(), ids=named)
@for_each("code", CODES)
def test_error(moment: Callable[[], Script], kind: type[Any], code: ErrorCode) -> None:
    script = moment()
    before, means_us = set(script.working), says_who_we_are(script, kind, code)
    script.refuse(kind, code)
    if code in HARMLESS or kind is OffsetFetchRequest or means_us is False:
        assert before <= script.working.keys()
    elif means_us:
        assert script.working == {}
    assert_recovers(script)


@pytest.mark.parametrize(("moment", "kind"), under_way(), ids=named)
@for_each("failure", FailureKind)
def test_no_answer(moment: Callable[[], Script], kind: type[Any], failure: FailureKind) -> None:
    script = moment()
    script.fail(kind, failure)
    assert_recovers(script)


@pytest.mark.parametrize("moment", MOMENTS, ids=named)
@for_each("first", CODES)
def test_one_error_on_all_requests_has_its_effect_once(
    moment: Callable[[], Script], first: ErrorCode
) -> None:
    script = moment()
    for send in script.awaited():
        if send.ticket in script.outbox and send in script.awaited():
            script.refuse(type(send.message), first)
    assert_recovers(script)


def subscribes(script: Script) -> None:
    """The subscription changes."""
    script.subscribe("t")


def subscribes_twice(script: Script) -> None:
    """The subscription changes, and back."""
    script.subscribe("t")
    script.subscribe("t", "u")


def topic_grows(script: Script) -> None:
    """A topic has more partitions than before."""
    script.sleep(60_000 if script.machine.phase is Phase.STABLE else 0)
    if script.awaits(MetadataRequest):
        script.tell_topics(t=6)


def topic_goes(script: Script) -> None:
    """A topic is gone, and that is told often enough to be believed."""
    for _ in range(3):
        if not script.awaits(MetadataRequest):
            script.machine._topics.refresh(script.now_ms)  # noqa: SLF001
            script.fire()
        if script.awaits(MetadataRequest):
            script.tell_topics(u=None)


def closes_and_leaves(script: Script) -> None:
    """The user ends it."""
    script.close(leave=True)


def closes_and_stays(script: Script) -> None:
    """The user ends it, and the member keeps its place."""
    script.close(leave=False)


def closes_at_once(script: Script) -> None:
    """The user ends it, and does not wait for anything."""
    script.close(within_ms=0)


def is_suspended(script: Script) -> None:
    """The process sleeps for longer than a session."""
    script.jump(60_000)
    script.fire()


def is_suspended_and_answered(script: Script) -> None:
    """The process sleeps for longer than a session, and finds an answer when it wakes up."""
    script.jump(60_000)
    waiting = script.awaited()
    if waiting:
        script.answer_kindly(waiting[0], (T0,))


def overruns(script: Script) -> None:
    """Work does not end in time."""
    script.jump(script.config.release_ms + 1)
    script.fire()


def wants_rejoin(script: Script) -> None:
    """The user has the group rebalance."""
    script.do(script.machine.rejoin("asked for", script.now_ms))


def catches_up(script: Script) -> None:
    """All that is kept up to date has caught up."""
    for partition in list(script.roles):
        script.lag(partition, 0)


def falls_behind(script: Script) -> None:
    """Nothing that is kept up to date is ready any more, or known to be."""
    for number, partition in enumerate(list(script.roles)):
        script.lag(partition, 50_000 if number else -3)


def turns_out_to_have_state(script: Script) -> None:
    """The user begins to work with state."""
    script.keep_warm({T0: 3})


def gives_up(script: Script) -> None:
    """The user can't work on a partition."""
    script.revoking.discard(T0)
    script.working.pop(T0, None)
    script.do(script.machine.give_up([T0], script.now_ms))


def releases_what_is_not_asked(script: Script) -> None:
    """The user says that work has ended that was not to end."""
    others = [each for each in (T0, U0, ("x", 9)) if each not in script.revoking]
    script.do(script.machine.released(others, script.now_ms))


EVENTS: tuple[Callable[[Script], None], ...] = (
    subscribes,
    subscribes_twice,
    topic_grows,
    topic_goes,
    closes_and_leaves,
    closes_and_stays,
    closes_at_once,
    is_suspended,
    is_suspended_and_answered,
    overruns,
    wants_rejoin,
    catches_up,
    falls_behind,
    turns_out_to_have_state,
    gives_up,
    releases_what_is_not_asked,
)


@pytest.mark.parametrize("moment", MOMENTS, ids=named)
@for_each("happens", EVENTS)
def test_event(moment: Callable[[], Script], happens: Callable[[Script], None]) -> None:
    script = moment()
    happens(script)
    assert_recovers(script)


@pytest.mark.parametrize("moment", MOMENTS, ids=named)
@for_each("first", EVENTS[:: by_profile(quick=3, long=1)])
@for_each("second", EVENTS)
def test_two_events(
    moment: Callable[[], Script],
    first: Callable[[Script], None],
    second: Callable[[Script], None],
) -> None:
    script = moment()
    for happens in (first, second):
        if script.stopped is None:
            happens(script)
    assert_recovers(script)
