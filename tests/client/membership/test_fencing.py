"""Static members: what travels with the name, and what happens when two use it."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_client.membership import FailureKind, Lose
from coterie_client.membership.events import Fenced
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import FencedInstanceIdError
from coterie_protocol.messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.support.scripted_membership import Script

T0, T1 = ("t", 0), ("t", 1)


def at_work() -> Script:
    """A static member in generation 5 that works on two partitions."""
    script = Script("t", instance="i").start()
    script.settle(T0, T1, generation=5)
    script.told.clear()
    return script


def described(*members: tuple[str, str, str]) -> DescribeGroupsResponse:
    """A group with members of these ids, instance ids and hosts."""
    return DescribeGroupsResponse(
        groups=(
            DescribedGroup(
                group_id="g",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="cooperative-sticky",
                members=tuple(
                    DescribedGroupMember(
                        member_id=name,
                        group_instance_id=instance,
                        client_id="c",
                        client_host=host,
                        member_metadata=b"",
                        member_assignment=b"",
                    )
                    for name, instance, host in members
                ),
            ),
        )
    )


def test_every_request_of_a_static_member_carries_its_name() -> None:
    script = at_work()
    script.sleep(3_000)
    script.commit("k", T0, 7)
    kinds: tuple[type[Any], ...] = (
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        OffsetCommitRequest,
    )
    for kind in kinds:
        assert {request.group_instance_id for request in script.sent(kind)} == {"i"}, kind


def test_fenced_member_stops_at_once_and_names_its_successor() -> None:
    script = at_work()
    script.next_beat(ErrorCode.FENCED_INSTANCE_ID)
    assert [type(each) for each in script.told] == [Lose]
    answer = described(("m-0", "other", "/10.0.0.7"), ("m-9", "i", "/10.0.0.9"))
    script.answer(DescribeGroupsRequest, answer)
    assert script.stopped is not None
    error = script.stopped.error
    assert isinstance(error, FencedInstanceIdError)
    for part in ("'i'", "m-1", "m-9", "10.0.0.9"):
        assert part in str(error)
    (event,) = script.seen(Fenced)
    assert (event.member_id, event.successor, event.successor_host) == ("m-1", "m-9", "10.0.0.9")


@pytest.mark.parametrize("answer", [described(), described(("m-1", "i", "/h")), None])
def test_error_leaves_out_an_unknown_successor(answer: Any) -> None:
    script = at_work()
    script.next_beat(ErrorCode.FENCED_INSTANCE_ID)
    if answer is None:
        script.fail(DescribeGroupsRequest, FailureKind.TIMED_OUT)
    else:
        script.answer(DescribeGroupsRequest, answer)
    assert script.stopped is not None
    assert "another process" in str(script.stopped.error)
    assert script.seen(Fenced)[0].successor is None


def test_member_fenced_twice_stops_once() -> None:
    script = at_work()
    script.sleep(3_000)
    script.commit("k", T0, 7)
    script.beat(ErrorCode.FENCED_INSTANCE_ID)
    script.store(ErrorCode.FENCED_INSTANCE_ID)
    script.answer(DescribeGroupsRequest, described())
    assert script.stopped is not None
    assert len(script.seen(Fenced)) == 1


def test_fenced_does_not_leave() -> None:
    """The place is the other process's now: LeaveGroup would take it away."""
    script = at_work()
    script.next_beat(ErrorCode.FENCED_INSTANCE_ID)
    script.survive()
    assert not script.sent(LeaveGroupRequest)


def test_fenced_while_closing() -> None:
    """It is reported even then: two processes were started under one name."""
    script = at_work()
    script.sleep(3_000)
    script.close()
    script.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert script.working == {}
    script.answer(DescribeGroupsRequest, described(("m-9", "i", "/10.0.0.9")))
    assert script.stopped is not None
    assert isinstance(script.stopped.error, FencedInstanceIdError)


def test_fenced_without_a_coordinator() -> None:
    script = at_work()
    script.sleep(3_000)
    script.commit("k", T0, 7)
    script.beat(ErrorCode.NOT_COORDINATOR)
    script.store(ErrorCode.FENCED_INSTANCE_ID)
    assert script.stopped is not None
    assert isinstance(script.stopped.error, FencedInstanceIdError)


def test_late_fencing_of_an_older_self() -> None:
    script = at_work()
    script.commit("k", T0, 7)
    script.next_beat(ErrorCode.UNKNOWN_MEMBER_ID)
    script.join(7, member_id="m-2")
    script.store(ErrorCode.FENCED_INSTANCE_ID)
    assert script.stopped is None
    script.sync(T0)
    script.beat()
    assert script.working.keys() == {T0}
