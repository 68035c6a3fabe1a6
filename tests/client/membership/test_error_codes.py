"""What a member does about each error code, for each kind of request: the tables as they stand."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_client.membership import Lose, Phase
from coterie_client.membership.coordinator import Reaction, reaction_to
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import error_for
from coterie_protocol.messages import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.support.cases import for_each
from tests.support.scripted_membership import NODE, Script

E = ErrorCode
T0, T1 = ("t", 0), ("t", 1)


def at_work() -> Script:
    """A member in generation 5 that works on two partitions."""
    script = Script("t", instance="i").start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


def asking(kind: type[Any]) -> Script:
    """A member that has such a request under way, and nothing else that matters."""
    if kind is FindCoordinatorRequest:
        return Script("t").start()
    if kind is MetadataRequest:
        script = Script("t").start()
        script.find()
        script.join(5, leads=True)
        return script
    script = at_work()
    if kind is HeartbeatRequest:
        script.sleep(3_000)
    elif kind is OffsetCommitRequest:
        script.commit("k", T0, 7)
    elif kind is OffsetFetchRequest:
        script.fetch("k", T0)
    else:
        script.next_beat(E.REBALANCE_IN_PROGRESS)
    if kind is SyncGroupRequest:
        script.join(6)
    return script


# -- what may come of it -----------------------------------------------------------------------


def goes_again(script: Script, kind: type[Any]) -> None:
    """It asks the same once more, soon; nothing else changes."""
    assert not script.awaits(kind)
    script.sleep(150)
    assert script.awaits(kind)
    assert not script.awaits(FindCoordinatorRequest) or kind is FindCoordinatorRequest
    assert script.told == []


def goes_on(script: Script, kind: type[Any]) -> None:
    """Nothing follows from it: the next heartbeat comes when it would have come."""
    assert script.told == []
    script.sleep(2_999)
    assert not script.awaits(kind)
    script.sleep(1)
    assert script.awaits(kind)


def seeks(script: Script, kind: type[Any]) -> None:
    """It looks for the coordinator, and asks that one."""
    before = script.machine.identity
    assert script.machine.coordinator is None
    script.sleep(150)
    script.find()
    script.sleep(3_000)
    assert script.awaits(kind)
    assert script.machine.identity == before
    assert script.told == []


def rejoins(script: Script, _kind: type[Any]) -> None:
    """It joins again as who it is, with what it owns."""
    assert script.told == []
    assert script.asks(JoinGroupRequest).member_id == "m-1"
    assert script.claim()[0] == {T0, T1}


def rejoins_and_goes_again(script: Script, kind: type[Any]) -> None:
    """It joins again, and tries once more what failed."""
    rejoins(script, kind)
    script.sleep(150)
    assert script.awaits(kind)


def takes_id(script: Script, _kind: type[Any]) -> None:
    """It joins under the id that it was given."""
    assert script.asks(JoinGroupRequest).member_id == "m-given"


def _starts_anew(script: Script, member_id: str) -> None:
    assert [type(each) for each in script.told] == [Lose]
    assert script.working == {}
    assert script.asks(JoinGroupRequest).member_id == member_id
    assert script.claim() == (set(), -1)


def starts_anew(script: Script, _kind: type[Any]) -> None:
    """It loses everything, and joins under the id that it has."""
    _starts_anew(script, "m-1")


def starts_as_new(script: Script, _kind: type[Any]) -> None:
    """It loses everything, and joins without an id."""
    _starts_anew(script, "")


def is_fenced(script: Script, _kind: type[Any]) -> None:
    """It loses everything, asks which process has its place, and never joins again."""
    assert [type(each) for each in script.told] == [Lose]
    script.asks(DescribeGroupsRequest)
    script.survive()
    assert script.stopped is not None
    assert not script.awaits(JoinGroupRequest)


def stops(script: Script, _kind: type[Any]) -> None:
    """It can't go on, and says why."""
    assert script.working == {}
    script.survive()
    assert script.stopped is not None
    assert script.stopped.error is not None


def tells_the_user(script: Script, _kind: type[Any]) -> None:
    """The caller gets the error; the member itself is fine."""
    assert script.error_of("k") is not None
    assert script.told == []
    assert script.machine.phase is Phase.STABLE


# -- the tables --------------------------------------------------------------------------------

HARMLESS = (E.UNKNOWN_SERVER_ERROR, E.COORDINATOR_LOAD_IN_PROGRESS)
ELSEWHERE = (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)
FORGOTTEN = (E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND)
HOPELESS = (
    E.GROUP_AUTHORIZATION_FAILED,
    E.INVALID_GROUP_ID,
    E.INVALID_REQUEST,
    E.UNSUPPORTED_VERSION,
)


def table(kind: type[Any], *rows: tuple[Any, tuple[ErrorCode, ...]]) -> list[Any]:
    """One case for each code."""
    return [
        pytest.param(kind, code, follows, id=f"{kind.__name__}-{code.name}")
        for follows, codes in rows
        for code in codes
    ]


CASES = [
    *table(
        JoinGroupRequest,
        (goes_again, (*HARMLESS, E.REBALANCE_IN_PROGRESS)),
        (seeks, ELSEWHERE),
        (takes_id, (E.MEMBER_ID_REQUIRED,)),
        (starts_anew, (E.ILLEGAL_GENERATION,)),
        (starts_as_new, FORGOTTEN),
        (is_fenced, (E.FENCED_INSTANCE_ID,)),
        (stops, (*HOPELESS, E.INCONSISTENT_GROUP_PROTOCOL, E.GROUP_MAX_SIZE_REACHED)),
        (stops, (E.INVALID_SESSION_TIMEOUT,)),
    ),
    *table(
        SyncGroupRequest,
        (goes_again, HARMLESS),
        (seeks, ELSEWHERE),
        (rejoins, (E.REBALANCE_IN_PROGRESS,)),
        (starts_anew, (E.ILLEGAL_GENERATION,)),
        (starts_as_new, FORGOTTEN),
        (is_fenced, (E.FENCED_INSTANCE_ID,)),
        (stops, (*HOPELESS, E.INCONSISTENT_GROUP_PROTOCOL, E.MEMBER_ID_REQUIRED)),
    ),
    *table(
        HeartbeatRequest,
        (goes_on, HARMLESS),
        (seeks, ELSEWHERE),
        (rejoins, (E.REBALANCE_IN_PROGRESS,)),
        (starts_anew, (E.ILLEGAL_GENERATION,)),
        (starts_as_new, FORGOTTEN),
        (is_fenced, (E.FENCED_INSTANCE_ID,)),
        (stops, (*HOPELESS, E.MEMBER_ID_REQUIRED)),
    ),
    *table(
        OffsetCommitRequest,
        (goes_again, (*HARMLESS, E.UNKNOWN_TOPIC_OR_PARTITION, E.REQUEST_TIMED_OUT)),
        (seeks, ELSEWHERE),
        (rejoins_and_goes_again, (E.REBALANCE_IN_PROGRESS,)),
        (starts_anew, (E.ILLEGAL_GENERATION,)),
        (starts_as_new, FORGOTTEN),
        (is_fenced, (E.FENCED_INSTANCE_ID,)),
        (tells_the_user, (*HOPELESS, E.OFFSET_METADATA_TOO_LARGE, E.TOPIC_AUTHORIZATION_FAILED)),
        (tells_the_user, (E.INVALID_COMMIT_OFFSET_SIZE, E.MEMBER_ID_REQUIRED)),
    ),
    *table(
        OffsetFetchRequest,
        (goes_again, (*HARMLESS, E.UNSTABLE_OFFSET_COMMIT)),
        (seeks, ELSEWHERE),
        (tells_the_user, (*HOPELESS, E.TOPIC_AUTHORIZATION_FAILED, *FORGOTTEN)),
    ),
    *table(
        FindCoordinatorRequest,
        (goes_again, (*HARMLESS, *ELSEWHERE)),
        (stops, HOPELESS),
    ),
    *table(
        MetadataRequest,
        (goes_again, (*HARMLESS, E.LEADER_NOT_AVAILABLE, E.UNKNOWN_TOPIC_OR_PARTITION)),
        (stops, (E.TOPIC_AUTHORIZATION_FAILED, E.INVALID_TOPIC_EXCEPTION)),
    ),
]


@pytest.mark.parametrize(("kind", "code", "follows"), CASES)
def test_error_code(kind: type[Any], code: ErrorCode, follows: Any) -> None:
    script = asking(kind)
    script.refuse(kind, code)
    follows(script, kind)


def test_unknown_code_counts_as_a_server_error() -> None:
    """A future version may send it, and Kafka's clients do the same."""
    assert reaction_to(31_000) is reaction_to(ErrorCode.UNKNOWN_SERVER_ERROR)


@for_each("code", ErrorCode)
def test_retriable_error_never_ends_the_membership(code: ErrorCode) -> None:
    reaction = reaction_to(code)
    assert reaction is not Reaction.FAIL or not error_for(code).retriable


def test_same_node_may_be_the_coordinator_again() -> None:
    """It may have denied it a moment ago."""
    script = at_work()
    script.next_beat(E.NOT_COORDINATOR)
    script.sleep(150)
    script.find(NODE)
    assert script.machine.coordinator == NODE
    assert script.machine.phase is Phase.STABLE
