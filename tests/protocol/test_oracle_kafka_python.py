"""Coterie's bytes are kafka-python's: every API and version, both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given

from coterie_protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from coterie_protocol.consumer import (
    Assignment,
    CooperativeStickyData,
    StickyData,
    Subscription,
    decode_assignment,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
)
from coterie_protocol.exceptions import EncodeError
from coterie_protocol.loads import LoadsData
from coterie_protocol.member_data import ToldData
from coterie_protocol.messages import (
    ApiVersionsResponse,
    DescribeGroupsRequest,
    FetchableTopicResponse,
    FetchResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    PartitionData,
)
from coterie_protocol.schema import NIL_UUID, Kind, declaration_of
from coterie_protocol.streams._data import AssignmentInfoData, SubscriptionInfoData, WarmData
from tests.support import kafka_python_oracle as oracle
from tests.support.every_message import by_class_and_version, versioned
from tests.support.oracle_examples import (
    CLIENT_IDS,
    INT32S,
    UNKNOWN_TAGS,
    examples_of,
    has_own_fields,
    without_own_fields,
)
from tests.support.strategies import MESSAGES
from tests.support.streams_infos import VERSIONS

#: What Coterie has and kafka-python lacks.
NOT_COVERED: Final[dict[tuple[type[Any], int], str]] = {
    (CooperativeStickyData, 0): "its cooperative assignor reads the subscription's generation only",
    **{
        (cls, version): "it has nothing of Kafka Streams"
        for cls in (SubscriptionInfoData, AssignmentInfoData)
        for version in VERSIONS
    },
    **{(cls, 0): "it is Coterie's own" for cls in (LoadsData, ToldData, WarmData)},
}

_CODECS: Final[dict[type[Any], tuple[Callable[..., bytes], Callable[[bytes], Any]]]] = {
    Subscription: (encode_subscription, decode_subscription),
    Assignment: (encode_assignment, decode_assignment),
    StickyData: (encode_sticky_data, decode_sticky_data),
}


def _messages_of(kind: Kind, *, flexible: bool = False, own: bool = False) -> pytest.MarkDecorator:
    """Every message of a kind in the versions that kafka-python has, as parameters."""
    return by_class_and_version(
        lambda cls, version: (
            declaration_of(cls).kind is kind
            and version <= oracle.newest_version(cls)
            and (version in declaration_of(cls).flexible or not flexible)
            and (has_own_fields(cls, version) or not own)
        )
    )


@_messages_of(Kind.REQUEST)
def test_request_frames_are_the_same_bytes(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions), INT32S, CLIENT_IDS)
    def check(case: tuple[int, Any], correlation_id: int, client_id: str | None) -> None:
        version, message = case
        ours = encode_request(message, version, correlation_id, client_id)
        assert ours == oracle.frame(message, version, correlation_id, client_id)
        header, theirs_read = oracle.read_frame(cls, version, ours)
        assert theirs_read == message
        request = decode_request(ours[4:])
        assert request.message == message
        assert (request.api_key, request.api_version) == (
            header.request_api_key,
            header.request_api_version,
        )
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
        assert ours == oracle.frame(message, version, correlation_id)
        header, theirs_read = oracle.read_frame(cls, version, ours)
        assert (header.correlation_id, theirs_read) == (correlation_id, message)
        assert decode_response(cls, version, ours[4:]) == (correlation_id, message)

    check()


@_messages_of(Kind.STRUCT)
def test_embedded_structures_are_the_same_bytes(cls: type[Any], versions: list[int]) -> None:
    encode, decode = _CODECS[cls]

    @examples_of(versions)
    @given(versioned(cls, versions))
    def check(case: tuple[int, Any]) -> None:
        version, structure = case
        ours = encode(structure, version)
        assert ours == oracle.embedded(structure, version)
        assert oracle.read_embedded(cls, version, ours) == structure
        assert decode(ours) == structure

    check()


@_messages_of(Kind.REQUEST, flexible=True)
def test_unknown_tags_in_requests_are_skipped(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions), UNKNOWN_TAGS)
    def check(case: tuple[int, Any], tags: dict[int, bytes]) -> None:
        version, message = case
        with oracle.unknown_tags_everywhere(tags):
            theirs = oracle.frame(message, version, 7, "client")
        assert len(theirs) > len(encode_request(message, version, 7, "client"))
        request = decode_request(theirs[4:])
        assert (request.correlation_id, request.client_id) == (7, "client")
        assert request.message == message

    check()


@_messages_of(Kind.RESPONSE, flexible=True)
def test_unknown_tags_in_responses_are_skipped(cls: type[Any], versions: list[int]) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions), UNKNOWN_TAGS)
    def check(case: tuple[int, Any], tags: dict[int, bytes]) -> None:
        version, message = case
        with oracle.unknown_tags_everywhere(tags):
            theirs = oracle.frame(message, version, 7)
        assert len(theirs) > len(encode_response(message, version, 7))
        assert decode_response(cls, version, theirs[4:]) == (7, message)

    check()


@_messages_of(Kind.REQUEST, own=True)
def test_kafka_python_skips_coteries_fields_in_requests(
    cls: type[Any], versions: list[int]
) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions, own=True))
    def check(case: tuple[int, Any]) -> None:
        version, message = case
        _, theirs_read = oracle.read_frame(cls, version, encode_request(message, version, 7, "c"))
        assert theirs_read == without_own_fields(message)

    check()


@_messages_of(Kind.RESPONSE, own=True)
def test_kafka_python_skips_coteries_fields_in_responses(
    cls: type[Any], versions: list[int]
) -> None:
    @examples_of(versions)
    @given(versioned(cls, versions, own=True))
    def check(case: tuple[int, Any]) -> None:
        version, message = case
        _, theirs_read = oracle.read_frame(cls, version, encode_response(message, version, 7))
        assert theirs_read == without_own_fields(message)

    check()


@pytest.mark.parametrize("version", [5, 9])
@pytest.mark.parametrize("size", [0, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151])
def test_lengths_of_bytes_at_the_steps_of_a_varint(size: int, version: int) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"m" * size)
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    ours = encode_request(message, version, 1, "c")
    assert ours == oracle.frame(message, version, 1, "c")
    assert decode_request(ours[4:]).message == message


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize("size", [0, 126, 127, 128, 16_382, 16_383, 32_767])
def test_lengths_of_strings_at_the_steps_of_a_varint(size: int, version: int) -> None:
    message = DescribeGroupsRequest(groups=("g" * size,))
    ours = encode_request(message, version, 1, "c")
    assert ours == oracle.frame(message, version, 1, "c")
    assert decode_request(ours[4:]).message == message


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("count", [0, 126, 127, 128, 16_382, 16_383, 16_384])
def test_counts_of_arrays_at_the_steps_of_a_varint(count: int, version: int) -> None:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=tuple(range(count)))
    message = OffsetFetchRequest(group_id="g", topics=(topic,))
    ours = encode_request(message, version, 1, "c")
    assert ours == oracle.frame(message, version, 1, "c")
    assert decode_request(ours[4:]).message == message


def test_every_message_is_compared_except_those_listed() -> None:
    missing = {(c, v) for c, v in MESSAGES if v > oracle.newest_version(c)}
    assert missing == set(NOT_COVERED)


@pytest.mark.parametrize(("message", "name"), sorted(oracle.OTHER_FIELD_NAMES))
def test_fields_listed_as_renamed_are_renamed(message: str, name: str) -> None:
    response = oracle.their_class(MetadataResponse)
    part = response if message == "MetadataResponse" else response.MetadataResponseTopic
    assert name not in part.fields
    assert oracle.OTHER_FIELD_NAMES[message, name] in part.fields


def _reads_an_error_as_version_0() -> bool:
    response = ApiVersionsResponse(error_code=35, api_keys=(), throttle_time_ms=9)
    body = encode_response(response, 2, 1)[8:]
    return bool(oracle.their_class(ApiVersionsResponse).decode(body, version=2).version == 0)


def _has_sets_of_operations() -> bool:
    response = MetadataResponse(brokers=(), topics=(), cluster_authorized_operations=5)
    return bool(oracle.to_theirs(response, 8).authorized_operations == {0, 2})


def _writes_tagged_parts_full_of_defaults() -> bool:
    data = PartitionData(partition_index=0, high_watermark=0, records=b"")
    topic = FetchableTopicResponse(topic="t", partitions=(data,))
    theirs = oracle.to_theirs(FetchResponse(responses=(topic,)), 12)
    without = theirs.encode()
    partition = theirs.responses[0].partitions[0]
    partition.diverging_epoch = partition.EpochEndOffset(version=12, epoch=-1, end_offset=-1)
    return bool(theirs.encode() != without)


def _reads_uuids_of_zeros_as_none() -> bool:
    request = MetadataRequest(topics=(MetadataRequestTopic(topic_id=NIL_UUID, name="t"),))
    _, theirs = oracle.read_theirs(MetadataRequest, 12, encode_request(request, 12, 1))
    return theirs.topics[0].topic_id is None


def _drops_what_the_version_lacks() -> bool:
    values: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    values["group_instance_id"] = "i"
    with pytest.raises(EncodeError, match="group_instance_id"):
        encode_request(HeartbeatRequest(**values), 0, 1)
    theirs = oracle.their_class(HeartbeatRequest)(version=0, **values)
    return b"i" not in theirs.encode()


def _writes_null_where_none_may_be() -> bool:
    values: dict[str, Any] = {"group_id": None, "generation_id": 1, "member_id": "m"}
    with pytest.raises(EncodeError, match="group_id"):
        encode_request(HeartbeatRequest(**values), 0, 1)
    theirs = oracle.their_class(HeartbeatRequest)(version=0, **values)
    return bool(theirs.encode().startswith(b"\xff\xff"))


#: Where kafka-python differs from Kafka, and so from Coterie.  The oracle works around the first
#: four; the last two do not concern messages that the version can carry.  Each entry says whether
#: it still holds, so that one that no longer does is noticed.
DIFFERENCES: Final[dict[str, Callable[[], bool]]] = {
    "an ApiVersions response with an error is read as version 0": _reads_an_error_as_version_0,
    "authorized operations are a set of bits, not a number": _has_sets_of_operations,
    "a tagged part with all its defaults is left out only as None": (
        _writes_tagged_parts_full_of_defaults
    ),
    "a UUID of zeros is read as None": _reads_uuids_of_zeros_as_none,
    "a field that the version lacks is dropped even if that matters": _drops_what_the_version_lacks,
    "null is written for fields that may not be null": _writes_null_where_none_may_be,
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_listed_differences_still_exist(difference: str) -> None:
    assert DIFFERENCES[difference]()
