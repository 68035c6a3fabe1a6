"""Which version of a request is spoken, with no server at hand."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_client.errors import VersionNotSpokenError
from coterie_client.wire import ByVersion, Versions
from coterie_protocol import ApiKey, EncodeError, decode_request
from coterie_protocol.errors import UnsupportedVersionError
from coterie_protocol.messages import (
    ApiVersion,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    HeartbeatRequest,
    ListGroupsRequest,
)
from coterie_protocol.schema import VersionRange


def versions(**spoken: str) -> Versions:
    """A server that speaks these versions of these APIs."""
    ranges = {int(ApiKey[api]): VersionRange.parse(text) for api, text in spoken.items()}
    return Versions("server:1", ranges)


def chosen(theirs: Versions, message: Any) -> int:
    """The version in which a message is written, as its bytes say."""
    encoded = theirs.encode(message, 7, "me")
    request = decode_request(encoded.frame[4:])
    assert (request.api_version, request.correlation_id) == (encoded.version, 7)
    return encoded.version


HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
STATIC = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")
ONE_KEY = FindCoordinatorRequest(key="g")
MANY_KEYS = FindCoordinatorRequest(coordinator_keys=("g", "h"))


@pytest.mark.parametrize(
    ("theirs", "message", "version"),
    [
        ("0-4", HEARTBEAT, 4),
        ("0-99", HEARTBEAT, 4),
        ("0-2", HEARTBEAT, 2),
        ("3-3", STATIC, 3),
        ("0-6", ONE_KEY, 3),  # version 4 has no place for a single key
        ("0-6", MANY_KEYS, 6),
    ],
)
def test_highest_common_version_that_expresses_the_message_is_used(
    theirs: str, message: Any, version: int
) -> None:
    api = "HEARTBEAT" if isinstance(message, HeartbeatRequest) else "FIND_COORDINATOR"
    assert chosen(versions(**{api: theirs}), message) == version


@pytest.mark.parametrize(
    ("theirs", "message", "names"),
    [
        ("0-2", STATIC, "Heartbeat.* 0-2, .* 0-4"),
        ("5-9", HEARTBEAT, "Heartbeat.* 5-9, .* 0-4"),
        ("none", HEARTBEAT, "Heartbeat.* no version, .* 0-4"),
    ],
)
def test_error_without_a_common_version_names_api_server_and_ranges(
    theirs: str, message: Any, names: str
) -> None:
    with pytest.raises(VersionNotSpokenError, match=f"server:1 .*{names}") as caught:
        versions(HEARTBEAT=theirs).encode(message, 1, None)
    assert isinstance(caught.value, UnsupportedVersionError)
    assert not caught.value.retriable


def test_message_that_fits_no_version_is_an_encode_error() -> None:
    wrong = HeartbeatRequest(group_id="g", generation_id=2**40, member_id="m")
    with pytest.raises(EncodeError, match="generation_id"):
        versions(HEARTBEAT="0-2").encode(wrong, 1, None)


def test_by_version_builds_for_the_negotiated_version() -> None:

    def build(version: int) -> ListGroupsRequest:
        return ListGroupsRequest(states_filter=("Stable",) if version >= 4 else ())

    message = ByVersion(ListGroupsRequest, build)
    assert chosen(versions(LIST_GROUPS="0-3"), message) == 3
    encoded = versions(LIST_GROUPS="0-4").encode(message, 1, None)
    assert decode_request(encoded.frame[4:]).message.states_filter == ("Stable",)


def test_version_for_a_class_is_the_highest_common_one() -> None:
    assert versions(HEARTBEAT="1-3").version_for(HeartbeatRequest) == 3
    with pytest.raises(VersionNotSpokenError):
        versions().version_for(HeartbeatRequest)


def test_ranges_are_read_from_the_answer_and_unknown_apis_ignored() -> None:
    answer = ApiVersionsResponse(
        api_keys=(
            ApiVersion(api_key=ApiKey.HEARTBEAT, min_version=2, max_version=3),
            ApiVersion(api_key=999, min_version=0, max_version=0),
        )
    )
    told = Versions.told("server:1", answer)
    assert (told.of(ApiKey.HEARTBEAT).first, told.of(ApiKey.HEARTBEAT).last) == (2, 3)
    assert told.common(ApiKey.JOIN_GROUP).last < told.common(ApiKey.JOIN_GROUP).first
