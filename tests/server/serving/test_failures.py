"""Every request can be told that it can't be served, in every version."""

from __future__ import annotations

from uuid import UUID

import pytest

from coterie_protocol import API_VERSIONS, ApiKey, encode_response, request_class
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.metrics import error_of
from coterie_server.serving.failures import failure
from tests.support.samples import filled

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
GONE = ErrorCode.COORDINATOR_NOT_AVAILABLE

#: Answered without the core, so that nothing of theirs can fail, or by hanging up.
NEVER_FAIL = {
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.SASL_HANDSHAKE,
}

CASES = [
    (api, version)
    for api, versions in API_VERSIONS.items()
    if api not in NEVER_FAIL
    for version in range(versions.first, versions.last + 1)
]


@pytest.mark.parametrize(("api", "version"), CASES)
def test_the_error_is_where_the_version_has_room_for_it(api: ApiKey, version: int) -> None:
    message = filled(request_class(api), version)
    answer = failure(message, version, GONE)
    assert error_of(answer) == GONE
    encode_response(answer, version, 1)


def test_a_heartbeat_is_taken_on_trust_while_groups_are_read() -> None:
    """Or every restart would make every member start over."""
    request = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert failure(request, 4, LOADING).error_code == ErrorCode.NONE
    assert failure(request, 4, GONE).error_code == GONE


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LOADING, LOADING),
        (GONE, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_offsets_that_can_not_be_told_are_not_told_to_be_missing(
    version: int, error: ErrorCode, told: ErrorCode
) -> None:
    """A client that looks at the partitions alone takes an empty list for no commits."""
    topic = m.OffsetFetchRequestTopic(name="t", partition_indexes=(0, 7))
    answer = failure(m.OffsetFetchRequest(group_id="g", topics=(topic,)), version, error)
    errors = [each.error_code for topic in answer.topics for each in topic.partitions]
    assert errors == [told if version > 1 else error] * 2
    assert answer.error_code == (error if version > 1 else ErrorCode.NONE)
    encode_response(answer, version, 1)


def test_a_join_keeps_its_member_id() -> None:
    """The member tries again under the id that it has."""
    request = m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="m",
        protocol_type="consumer",
        protocols=(),
    )
    assert failure(request, 9, LOADING).member_id == "m"


def test_topic_that_was_asked_for_by_its_id_is_refused_by_it() -> None:
    """Or Java's client says that the answer lacks it, and does not try again."""
    states = (
        m.DeleteTopicState(topic_id=UUID(int=7)),
        m.DeleteTopicState(name="t", topic_id=UUID(int=0)),
    )
    answer = failure(m.DeleteTopicsRequest(topics=states, timeout_ms=0), 6, GONE)
    assert [(each.name, each.topic_id.int, each.error_code) for each in answer.responses] == [
        (None, 7, GONE),
        ("t", 0, GONE),
    ]
