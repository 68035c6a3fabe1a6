"""Coterie's bytes are aiokafka's, where aiokafka has the message: both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import Phase, find, given, settings

from coterie_protocol.codec import decode_request, decode_response, encode_request, encode_response
from coterie_protocol.consumer import (
    Assignment,
    StickyData,
    Subscription,
    decode_assignment,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
)
from coterie_protocol.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    ListGroupsRequest,
    ListOffsetsRequest,
)
from coterie_protocol.schema import Kind, declaration_of
from tests.support import aiokafka_oracle as oracle
from tests.support.every_message import by_class_and_version, versioned
from tests.support.oracle_examples import CLIENT_IDS, INT32S, examples, examples_of
from tests.support.strategies import messages

_NOT_FLEXIBLE: Final = "writes version 2 as version 1, which is not flexible"
_LEADER_EPOCH: Final = "writes current_leader_epoch as an int64; Kafka says int32"

#: Where aiokafka differs from Kafka, and how. Its clients send none of these: they stop at older
#: versions, and what calls itself ListGroups 2 goes out as a correct version 1.
DIFFERENCES: Final = {
    (DescribeAclsRequest, 2): _NOT_FLEXIBLE,
    (DescribeAclsResponse, 2): _NOT_FLEXIBLE,
    (ListGroupsRequest, 2): "announces version 1 in the header",
    (ListOffsetsRequest, 4): _LEADER_EPOCH,
    (ListOffsetsRequest, 5): _LEADER_EPOCH,
}

_EXAMPLES: Final = examples(10)


def _messages_of(kind: Kind) -> pytest.MarkDecorator:
    """Every message of a kind in the versions that aiokafka has right, as parameters."""
    return by_class_and_version(
        lambda cls, version: (
            declaration_of(cls).kind is kind
            and (cls, version) in oracle.CLASSES
            and (cls, version) not in DIFFERENCES
        )
    )


@_messages_of(Kind.REQUEST)
def test_request_frames_are_the_same_bytes(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions), INT32S, CLIENT_IDS)
    def check(case: tuple[int, Any], correlation_id: int, client_id: str | None) -> None:
        version, message = case
        ours = encode_request(message, version, correlation_id, client_id)
        assert ours == oracle.request_frame(message, version, correlation_id, client_id)
        header, theirs_read = oracle.read_request_frame(cls, version, ours)
        assert theirs_read == message
        request = decode_request(ours[4:])
        assert request.message == message
        assert (request.api_key, request.api_version) == (header.api_key, header.api_version)
        assert request.correlation_id == header.correlation_id == correlation_id
        assert request.client_id == header.client_id == client_id

    check()


@_messages_of(Kind.RESPONSE)
def test_response_frames_are_the_same_bytes(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions), INT32S)
    def check(case: tuple[int, Any], correlation_id: int) -> None:
        version, message = case
        ours = encode_response(message, version, correlation_id)
        assert ours == oracle.response_frame(message, version, correlation_id)
        header, theirs_read = oracle.read_response_frame(cls, version, ours)
        assert (header.correlation_id, theirs_read) == (correlation_id, message)
        assert decode_response(cls, version, ours[4:]) == (correlation_id, message)

    check()


@pytest.mark.parametrize(
    ("cls", "version", "encode", "decode"),
    [
        (Subscription, 0, encode_subscription, decode_subscription),
        *((Assignment, version, encode_assignment, decode_assignment) for version in range(4)),
        (StickyData, 1, encode_sticky_data, decode_sticky_data),
    ],
)
def test_embedded_structures_are_the_same_bytes(
    cls: type[Any],
    version: int,
    encode: Callable[[Any, int], bytes],
    decode: Callable[[bytes], Any],
) -> None:
    @_EXAMPLES
    @given(messages(cls, version))
    def check(structure: Any) -> None:
        ours = encode(structure, version)
        assert ours == oracle.embedded(structure, version)
        assert oracle.read_embedded(cls, version, ours) == structure
        assert decode(ours) == structure

    check()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_aiokafka_reads_newer_subscriptions(version: int) -> None:
    """It knows version 0 only, and reads its fields in every later one."""

    @_EXAMPLES
    @given(messages(Subscription, version))
    def check(subscription: Subscription) -> None:
        read = oracle.read_embedded(
            Subscription, version, encode_subscription(subscription, version)
        )
        assert (read.topics, read.user_data) == (subscription.topics, subscription.user_data)

    check()


@pytest.mark.parametrize(
    ("cls", "version"), DIFFERENCES, ids=[f"{cls.__name__}-v{v}" for cls, v in DIFFERENCES]
)
def test_listed_differences_still_exist(cls: type[Any], version: int) -> None:
    def differs(message: Any) -> bool:
        if declaration_of(cls).kind is Kind.RESPONSE:
            return encode_response(message, version, 1) != oracle.response_frame(
                message, version, 1
            )
        ours = encode_request(message, version, 1, "c")
        return ours != oracle.request_frame(message, version, 1, "c")

    # Any example will do: the smallest is not looked for, nor kept.
    search = settings(_EXAMPLES, max_examples=100, phases=[Phase.generate], database=None)
    find(messages(cls, version), differs, settings=search)


def test_listed_names_are_all_aiokafkas() -> None:
    listed = {(theirs, ours) for theirs, names in oracle.OTHER_NAMES.items() for ours in names}
    assert listed == oracle.used_names()
