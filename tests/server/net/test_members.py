"""Which connections have members that take the node for their coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatResponse
from coterie_server.net import Connection, Limits, Registry
from coterie_server.net.members import OF_MEMBERS, is_of_coordinator
from tests.server.net.doubles import (
    ENDPOINT,
    Clock,
    FakeClient,
    FakeTransport,
    ParkingHandler,
    heartbeat,
)

ANSWERS = [
    (ApiKey.HEARTBEAT, m.HeartbeatResponse()),
    (
        ApiKey.JOIN_GROUP,
        m.JoinGroupResponse(protocol_name="", leader="a", member_id="b", members=()),
    ),
    (ApiKey.SYNC_GROUP, m.SyncGroupResponse(assignment=b"")),
]
#: How a heartbeat is answered: at once, or by the handler, later.
WAYS = ["at once", "later"]


@pytest.mark.parametrize(("api", "answer"), ANSWERS)
def test_who_answers_a_member_is_its_coordinator_unless_it_says_that_it_is_not(
    api: ApiKey, answer: Any
) -> None:
    assert api in OF_MEMBERS
    assert is_of_coordinator(api, answer)
    assert is_of_coordinator(api, replace(answer, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert not is_of_coordinator(api, replace(answer, error_code=ErrorCode.NOT_COORDINATOR))


def test_who_leaves_has_a_coordinator_no_longer() -> None:
    assert ApiKey.LEAVE_GROUP in OF_MEMBERS
    assert not is_of_coordinator(ApiKey.LEAVE_GROUP, m.LeaveGroupResponse())


class Members:
    """A registry with connections of members."""

    def __init__(self) -> None:
        self._handler = ParkingHandler()
        self._at_once: list[HeartbeatResponse | None] = []
        self._registry = Registry(
            self._handler,
            Limits(),
            now=Clock(),
            call_soon=lambda post: post(),
            at_once={ApiKey.HEARTBEAT: lambda *_: self._at_once.pop(0)},
        )

    def connect(self) -> FakeClient:
        connection = Connection(self._registry, ENDPOINT)
        client = FakeClient(connection, FakeTransport(connection, ("127.0.0.1", 4711)))
        connection.connection_made(client.transport)
        return client

    def count_after(self, client: FakeClient, error: ErrorCode, way: str) -> int:
        """How many there are once a heartbeat was answered so."""
        answer = HeartbeatResponse(error_code=error)
        self._at_once.append(answer if way == "at once" else None)
        client.send(heartbeat(1))
        if way == "later":
            self._handler.exchanges.pop().reply(answer)
        return self._registry.members

    def count(self) -> int:
        return self._registry.members


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("then", WAYS)
def test_a_connection_has_members_until_they_are_sent_elsewhere(first: str, then: str) -> None:
    members = Members()
    client, other = members.connect(), members.connect()
    assert members.count_after(client, ErrorCode.NONE, first) == 1
    assert members.count_after(other, ErrorCode.NOT_COORDINATOR, first) == 1
    assert members.count_after(client, ErrorCode.REBALANCE_IN_PROGRESS, then) == 1
    assert members.count_after(client, ErrorCode.NOT_COORDINATOR, then) == 0
    assert members.count_after(client, ErrorCode.NONE, then) == 1


def test_a_connection_that_is_gone_has_no_members() -> None:
    members = Members()
    client = members.connect()
    members.count_after(client, ErrorCode.NONE, "at once")
    client.lose()
    assert members.count() == 0
