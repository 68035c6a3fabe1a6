"""Which connections have members that take the node for their coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.net import Connection, Limits, Registry
from coterie_server.net.members import MemberConnections
from tests.server.net.doubles import (
    ENDPOINT,
    Clock,
    FakeClient,
    FakeTransport,
    ParkingHandler,
    heartbeat,
    ok,
)

BEATS = [
    (ApiKey.HEARTBEAT, m.HeartbeatResponse()),
    (
        ApiKey.JOIN_GROUP,
        m.JoinGroupResponse(protocol_name="", leader="a", member_id="b", members=()),
    ),
    (ApiKey.SYNC_GROUP, m.SyncGroupResponse(assignment=b"")),
]


def answered(members: MemberConnections, api: ApiKey, message: Any, connection: str = "c") -> int:
    members.answered(api, message, 0, connection)
    return len(members)


@pytest.mark.parametrize(("api", "answer"), BEATS)
def test_who_is_answered_as_a_member_counts_until_it_is_sent_elsewhere(
    api: ApiKey, answer: Any
) -> None:
    members = MemberConnections()
    elsewhere = replace(answer, error_code=ErrorCode.NOT_COORDINATOR)
    rebalancing = replace(answer, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert answered(members, api, rebalancing) == 1
    assert answered(members, api, elsewhere) == 0
    assert answered(members, api, elsewhere, "other") == 0
    assert answered(members, api, answer) == 1


def test_who_leaves_is_a_member_no_longer() -> None:
    members = MemberConnections()
    answered(members, ApiKey.HEARTBEAT, m.HeartbeatResponse())
    assert answered(members, ApiKey.LEAVE_GROUP, m.LeaveGroupResponse()) == 0


def test_who_asks_for_other_things_is_no_member() -> None:
    members = MemberConnections()
    assert answered(members, ApiKey.OFFSET_COMMIT, m.OffsetCommitResponse(topics=())) == 0
    answered(members, ApiKey.HEARTBEAT, m.HeartbeatResponse())
    assert answered(members, ApiKey.OFFSET_COMMIT, m.OffsetCommitResponse(topics=())) == 1


def test_a_member_on_either_way_to_its_answer_counts_until_its_connection_is_gone() -> None:
    handler, at_once = ParkingHandler(), [ok(), None]
    registry = Registry(
        handler,
        Limits(),
        now=Clock(),
        call_soon=lambda post: post(),
        at_once={ApiKey.HEARTBEAT: lambda *_: at_once.pop(0)},
    )
    clients = []
    for answers in (0, 1):
        connection = Connection(registry, ENDPOINT)
        clients.append(FakeClient(connection, FakeTransport(connection, ("127.0.0.1", 4711))))
        connection.connection_made(clients[-1].transport)
        assert len(registry.members) == answers
        clients[-1].send(heartbeat(1))
    handler.answer([0])
    assert len(registry.members) == 2
    for left, client in ((1, clients[0]), (0, clients[1])):
        client.lose()
        assert len(registry.members) == left
