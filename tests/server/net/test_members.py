"""Which connections have members that take the node for their coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie_protocol import ApiKey, encode_request
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import HeartbeatResponse
from coterie_server.net import Connection, Limits, Registry
from coterie_server.net.members import TELLING, Membership, after
from coterie_server.serving.failures import failure
from tests.server.net.doubles import (
    ENDPOINT,
    Clock,
    FakeClient,
    FakeTransport,
    ParkingHandler,
    heartbeat,
)

JOINING = [
    (
        ApiKey.JOIN_GROUP,
        m.JoinGroupResponse(protocol_name="", leader="a", member_id="b", members=()),
    ),
    (ApiKey.SYNC_GROUP, m.SyncGroupResponse(assignment=b"")),
]
ANSWERS = [(ApiKey.HEARTBEAT, m.HeartbeatResponse()), *JOINING]
#: How a heartbeat is answered: at once, or by the handler, later.
WAYS = ["at once", "later"]


@pytest.mark.parametrize(("api", "answer"), ANSWERS)
def test_who_answers_a_member_is_its_coordinator_unless_it_says_that_it_is_not(
    api: ApiKey, answer: Any
) -> None:
    assert api in TELLING
    pending = replace(answer, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    elsewhere = replace(answer, error_code=ErrorCode.NOT_COORDINATOR)
    for before in Membership:
        assert after(api, answer, before) is not Membership.NONE
        assert after(api, pending, before) is after(api, answer, before)
        assert after(api, elsewhere, before) is Membership.NONE


@pytest.mark.parametrize(("api", "answer"), JOINING)
def test_member_that_joins_may_send_its_heartbeats_on_another_connection(
    api: ApiKey, answer: Any
) -> None:
    assert after(api, answer, Membership.NONE) is Membership.JOINED
    assert after(api, answer, Membership.JOINED) is Membership.JOINED
    assert after(api, answer, Membership.ALIVE) is Membership.ALIVE


def test_who_leaves_has_a_coordinator_no_longer() -> None:
    assert ApiKey.LEAVE_GROUP in TELLING
    assert after(ApiKey.LEAVE_GROUP, m.LeaveGroupResponse(), Membership.ALIVE) is Membership.NONE


COMMIT = m.OffsetCommitRequest(
    group_id="g",
    topics=tuple(
        m.OffsetCommitRequestTopic(
            name=name,
            partitions=(
                m.OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=1, committed_metadata=None
                ),
            ),
        )
        for name in "tu"
    ),
)
SYNC = m.SyncGroupRequest(group_id="g", member_id="a", generation_id=1, assignments=())
FETCH = m.OffsetFetchRequest(
    group_id="g", topics=(m.OffsetFetchRequestTopic(name="t", partition_indexes=(0, 1)),)
)
FETCH_ALL = m.OffsetFetchRequest(group_id="g", topics=None)
FETCH_OF_GROUPS = m.OffsetFetchRequest(
    groups=(m.OffsetFetchRequestGroup(group_id="g", topics=None),)
)
ABOUT_OFFSETS = [
    (ApiKey.OFFSET_COMMIT, COMMIT, 2),
    (ApiKey.OFFSET_COMMIT, COMMIT, 8),
    (ApiKey.OFFSET_FETCH, FETCH, 1),
    (ApiKey.OFFSET_FETCH, FETCH, 5),
    (ApiKey.OFFSET_FETCH, FETCH_ALL, 5),
    (ApiKey.OFFSET_FETCH, FETCH_OF_GROUPS, 8),
]


@pytest.mark.parametrize(("api", "asked", "version"), ABOUT_OFFSETS)
def test_member_is_sent_elsewhere_by_an_answer_about_offsets_too(
    api: ApiKey, asked: Any, version: int
) -> None:
    """It sends its next heartbeat to the node that it is told of then."""
    assert api in TELLING
    elsewhere = failure(asked, version, ErrorCode.NOT_COORDINATOR)
    loading = failure(asked, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for before in Membership:
        assert after(api, elsewhere, before) is Membership.NONE
        # It need not be a member that asks.
        assert after(api, loading, before) is before


def test_member_is_sent_elsewhere_though_a_part_of_its_commit_is_refused() -> None:
    answer = failure(COMMIT, 8, ErrorCode.NOT_COORDINATOR)
    refused = m.OffsetCommitResponsePartition(
        partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    first, second = answer.topics
    answer = replace(answer, topics=(replace(first, partitions=(refused,)), second))
    assert after(ApiKey.OFFSET_COMMIT, answer, Membership.ALIVE) is Membership.NONE


class Members:
    """A registry with connections of members."""

    def __init__(self) -> None:
        self._handler = ParkingHandler()
        self._at_once: list[HeartbeatResponse | None] = []
        self.clock = Clock()
        self._registry = Registry(
            self._handler,
            Limits(),
            now=self.clock,
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
        return self.count()

    def join(self, client: FakeClient) -> None:
        """Have a client join, as far as a connection looks at it."""
        client.send(encode_request(SYNC, 3, 1, "c"))
        self._handler.exchanges.pop().reply(m.SyncGroupResponse(assignment=b""))

    def count(self) -> int:
        return self._registry.members(joined_within_s=4.0)


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


def test_connection_for_joins_alone_has_members_for_a_while() -> None:
    """Their heartbeats come on another one, by which they hear that they are sent elsewhere."""
    members = Members()
    joining, beating = members.connect(), members.connect()
    members.join(joining)
    assert members.count() == 1
    members.clock.now_ms += 3_000
    assert members.count_after(beating, ErrorCode.NONE, "at once") == 2
    members.clock.now_ms += 1_000
    assert members.count() == 1
    assert members.count_after(beating, ErrorCode.NOT_COORDINATOR, "at once") == 0


def test_connection_for_all_that_a_member_asks_has_it_until_it_is_sent_elsewhere() -> None:
    members = Members()
    client = members.connect()
    members.join(client)
    assert members.count_after(client, ErrorCode.NONE, "at once") == 1
    members.join(client)
    members.clock.now_ms += 60_000
    assert members.count() == 1
    assert members.count_after(client, ErrorCode.NOT_COORDINATOR, "later") == 0
