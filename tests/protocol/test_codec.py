"""Frames, headers, and what lies around and between the fields of messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coterie_protocol import (
    API_VERSIONS,
    ApiKey,
    EncodeError,
    ProtocolError,
    RequestHeader,
    UnsupportedRequest,
    correlation_id_of,
    decode,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
    encode_response_in_turns,
    request_class,
    response_class,
)
from coterie_protocol.messages import (
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListedGroup,
    ListGroupsResponse,
)
from coterie_protocol.schema import Array, Kind, Primitive, WireType, declaration_of
from tests.support.every_message import by_class
from tests.support.samples import filled, places
from tests.support.strategies import MESSAGES

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=5, member_id="m")


def is_request(cls: type[Any], _version: int) -> bool:
    """Whether a class is a request."""
    return declaration_of(cls).kind is Kind.REQUEST


def is_response(cls: type[Any], _version: int) -> bool:
    """Whether a class is a response."""
    return declaration_of(cls).kind is Kind.RESPONSE


def is_flexible(cls: type[Any], version: int) -> bool:
    """Whether a version has tagged fields."""
    return version in declaration_of(cls).flexible


def has_tags(cls: type[Any], version: int) -> bool:
    """Whether a version may have tagged fields that are declared."""
    is_tagged = any(place.spec.tag is not None for place in places(cls, version))
    return is_flexible(cls, version) and is_tagged


def payload_of(frame: bytes) -> bytes:
    """A frame's payload, once its length has been checked."""
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    return frame[4:]


def header_bytes(api: int, version: int, correlation_id: int, client_id: bytes | None) -> bytes:
    """A request header without tagged fields."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api, version, correlation_id, size) + (client_id or b"")


# What is spoken


def test_versions_spoken_are_those_promised() -> None:
    """Produce is there because librdkafka talks to no broker without it."""
    assert {api.title: str(versions) for api, versions in API_VERSIONS.items()} == {
        "Produce": "0-9",
        "Fetch": "0-18",
        "ListOffsets": "0-8",
        "Metadata": "0-12",
        "OffsetCommit": "0-9",
        "OffsetFetch": "0-9",
        "FindCoordinator": "0-6",
        "JoinGroup": "0-9",
        "Heartbeat": "0-4",
        "LeaveGroup": "0-5",
        "SyncGroup": "0-5",
        "DescribeGroups": "0-6",
        "ListGroups": "0-5",
        "SaslHandshake": "0-1",
        "ApiVersions": "0-4",
        "CreateTopics": "0-7",
        "DeleteTopics": "0-6",
        "SaslAuthenticate": "0-2",
        "CreatePartitions": "0-3",
        "DeleteGroups": "0-2",
        "OffsetDelete": "0-0",
        "DescribeClientQuotas": "0-1",
        "DescribeAcls": "0-3",
        "CreateAcls": "0-3",
        "DeleteAcls": "0-3",
        "DescribeUserScramCredentials": "0-0",
        "AlterUserScramCredentials": "0-0",
    }


def test_versions_are_listed_in_the_order_of_the_keys() -> None:
    assert list(API_VERSIONS) == sorted(ApiKey)


@pytest.mark.parametrize("api", list(ApiKey), ids=lambda api: api.title)
def test_request_and_response_have_the_same_versions_and_flexibility(api: ApiKey) -> None:
    asked, answered = declaration_of(request_class(api)), declaration_of(response_class(api))
    assert (asked.api, asked.kind) == (api, Kind.REQUEST)
    assert (answered.api, answered.kind) == (api, Kind.RESPONSE)
    assert (asked.versions, asked.flexible) == (answered.versions, answered.flexible)


# Requests as frames


def test_request_frame_byte_by_byte() -> None:
    assert encode_request(HEARTBEAT, 0, 7, "c") == bytes.fromhex(
        "00000015 000c 0000 00000007 0001 63  0001 67 00000005 0001 6d"
    )


def test_flexible_request_frame_byte_by_byte() -> None:
    """The client id stays as it is, tagged fields follow it, the rest shrinks."""
    assert encode_request(HEARTBEAT, 4, 7, "c") == bytes.fromhex(
        "00000016 000c 0004 00000007 0001 63 00  02 67 00000005 02 6d 00 00"
    )


@by_class(is_request)
def test_every_request_is_read_as_it_was_written(cls: type[Any], versions: list[int]) -> None:
    for version in versions:
        message = filled(cls, version)
        request = decode_request(payload_of(encode_request(message, version, -(2**31), "client")))
        assert request.api_key is declaration_of(cls).api
        assert (request.api_version, request.correlation_id) == (version, -(2**31))
        assert (request.client_id, request.message) == ("client", message)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("client_id", [None, "", "c", "é" * 1000, "x" * 32767])
def test_null_empty_short_and_long_client_ids_are_read_as_written(
    client_id: str | None, version: int
) -> None:
    payload = payload_of(encode_request(HEARTBEAT, version, 1, client_id))
    assert decode_request(payload).client_id == client_id
    assert decode_request_header(payload).client_id == client_id


def test_header_alone_is_read_whatever_follows() -> None:
    assert decode_request_header(header_bytes(12, 4, 9, b"c") + b"\xff") == RequestHeader(
        api_key=12, api_version=4, correlation_id=9, client_id="c"
    )


@pytest.mark.parametrize(
    ("api", "version"),
    [(12, 5), (12, -1), (12, 32767), (68, 0), (7, 0), (-1, 0), (32767, 32767), (47, 1)],
)
@pytest.mark.parametrize("client_id", [b"c", b"", None])
def test_unsupported_request_is_reported_with_its_header(
    api: int, version: int, client_id: bytes | None
) -> None:
    """An answer of UNSUPPORTED_VERSION needs API, version and correlation id."""
    payload = header_bytes(api, version, 77, client_id) + b"whatever"
    with pytest.raises(UnsupportedRequest) as caught:
        decode_request(payload)
    error = caught.value
    assert (error.api_key, error.api_version, error.correlation_id) == (api, version, 77)
    assert decode_request_header(payload).correlation_id == 77


def test_unsupported_request_is_a_protocol_error() -> None:
    """So a caller that only wants to close the connection need not tell the two apart."""
    error = UnsupportedRequest(68, 1, 77)
    assert isinstance(error, ProtocolError)
    assert str(error) == "API 68 request v1, offset 0: not spoken here"


@pytest.mark.parametrize("version", [3, 4, 99])
@pytest.mark.parametrize("size", range(13))
def test_header_that_is_cut_off_is_refused(size: int, version: int) -> None:
    payload = header_bytes(12, version, 1, b"abc")[:size]
    for read in (decode_request, decode_request_header):
        with pytest.raises(ProtocolError) as caught:
            read(payload)
        assert caught.value.subject == "request header"
        assert caught.value.field == ("client_id" if size >= 10 else None)


@pytest.mark.parametrize(
    ("size", "rest", "reason"),
    [
        (-2, b"", "-2 bytes announced, 0 left"),
        (-32768, b"abc", "-32768 bytes announced, 3 left"),
        (4, b"abc", "4 bytes announced, 3 left"),
        (2, b"\xff\xfe", "invalid start byte"),
    ],
)
def test_bad_client_id_is_refused_naming_field_and_offset(
    size: int, rest: bytes, reason: str
) -> None:
    payload = struct.pack(">hhih", 12, 0, 1, size) + rest
    for read in (decode_request, decode_request_header):
        with pytest.raises(ProtocolError, match=reason) as caught:
            read(payload)
        error = caught.value
        assert (error.subject, error.field, error.offset) == ("request header", "client_id", 8)


# Responses as frames


def in_turns(message: Any, version: int) -> tuple[bytes, int]:
    """A frame that was written in turns, and how many there were."""
    writing, turns = encode_response_in_turns(message, version, 7), 0
    while True:
        try:
            assert next(writing) > 0
        except StopIteration as written:
            return written.value, turns
        turns += 1


@by_class(is_response)
def test_a_response_that_is_written_in_turns_is_the_same(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        message = filled(cls, version)
        assert in_turns(message, version)[0] == encode_response(message, version, 7)


@pytest.mark.parametrize("version", [0, 4])
def test_a_long_response_takes_many_turns(version: int) -> None:
    groups = tuple(ListedGroup(group_id=f"g{n}", protocol_type="") for n in range(20_000))
    message = ListGroupsResponse(groups=groups)
    frame, turns = in_turns(message, version)
    assert frame == encode_response(message, version, 7)
    assert turns > 10
    *_, written_bytes = encode_response_in_turns(message, version, 7)
    assert len(frame) * 0.9 < written_bytes < len(frame)


def test_what_can_not_be_written_in_turns_is_named() -> None:
    groups = (*(ListedGroup(group_id="g", protocol_type="") for _ in range(5000)), "no group")
    message: Any = ListGroupsResponse(groups=groups)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(EncodeError, match=r"ListGroups response v4.*groups\[5000\]"):
        in_turns(message, 4)


@by_class(is_response)
def test_every_response_is_read_as_it_was_written(cls: type[Any], versions: list[int]) -> None:
    for version in versions:
        message = filled(cls, version)
        payload = payload_of(encode_response(message, version, 2**31 - 1))
        assert decode_response(cls, version, payload) == (2**31 - 1, message)
        assert correlation_id_of(payload) == 2**31 - 1


def test_response_header_has_tagged_fields_in_flexible_versions_only() -> None:
    answer = HeartbeatResponse(error_code=27)
    assert encode_response(answer, 3, 7) == bytes.fromhex("0000000a 00000007  00000000 001b")
    assert encode_response(answer, 4, 7) == bytes.fromhex("0000000c 00000007 00  00000000 001b 00")


@pytest.mark.parametrize("version", [3, 4])
def test_answer_to_api_versions_has_the_old_header_for_ever(version: int) -> None:
    """So that a client of any age can read the header (KIP-511)."""
    answer = ApiVersionsResponse(error_code=35, api_keys=())
    frame = encode_response(answer, version, 7)
    assert frame == bytes.fromhex("0000000c 00000007  0023 01 00000000 00")
    assert decode_response(ApiVersionsResponse, version, frame[4:]) == (7, answer)


def test_request_for_api_versions_has_the_flexible_header() -> None:
    """The exception is for the answer alone."""
    message = ApiVersionsRequest(client_software_name="n", client_software_version="1")
    frame = encode_request(message, 3, 7, "c")
    assert frame[4:] == header_bytes(18, 3, 7, b"c") + b"\0" + b"\x02n\x021\0"


@pytest.mark.parametrize("size", range(4))
def test_response_without_correlation_id_is_refused(size: int) -> None:
    for read in (correlation_id_of, lambda data: decode_response(HeartbeatResponse, 0, data)):
        with pytest.raises(ProtocolError, match="response header, field correlation_id"):
            read(bytes(size))


def test_response_that_ends_with_its_header_is_refused() -> None:
    """A flexible response needs at least the count of its header's tagged fields."""
    with pytest.raises(ProtocolError) as caught:
        decode_response(HeartbeatResponse, 4, bytes(4))
    error = caught.value
    assert (error.subject, error.field, error.offset) == ("response header", "tagged fields", 4)


# Bytes behind the end


@by_class()
def test_left_over_bytes_are_refused(cls: type[Any], versions: list[int]) -> None:
    for version in versions:
        written = encode(filled(cls, version), version)
        with pytest.raises(ProtocolError, match="2 bytes left over") as caught:
            decode(cls, version, written + b"\0\0")
        error = caught.value
        assert (error.subject, error.version) == (declaration_of(cls).subject, version)
        assert (error.field, error.offset) == (None, len(written))


def test_left_over_bytes_of_a_request_are_refused() -> None:
    """The offset counts from the start of the payload."""
    payload = payload_of(encode_request(HEARTBEAT, 4, 1, "c"))
    with pytest.raises(ProtocolError, match="1 bytes left over") as caught:
        decode_request(payload + b"\0")
    assert caught.value.offset == len(payload)


def test_librdkafkas_request_for_all_topics_is_read() -> None:
    """It writes a null topic list as four bytes instead of one; the rest is surplus."""
    payload = bytes.fromhex("0003000c00000003000772646b61666b610000000000010000")
    assert decode_request(payload).message.topics is None


def test_librdkafkas_request_to_set_a_password_is_read() -> None:
    """It ends with one byte too many."""
    message = AlterUserScramCredentialsRequest(deletions=(), upsertions=())
    payload = payload_of(encode_request(message, 0, 1, "rdkafka"))
    assert decode_request(payload + b"\0").message == message


def test_left_over_bytes_of_a_response_are_refused() -> None:
    payload = payload_of(encode_response(HeartbeatResponse(), 4, 1))
    with pytest.raises(ProtocolError, match="1 bytes left over") as caught:
        decode_response(HeartbeatResponse, 4, payload + b"\0")
    assert caught.value.offset == len(payload)


# What errors say


def test_error_in_a_request_names_message_field_and_offset() -> None:
    """The path leads through arrays, and the offset counts from the start of the payload."""
    protocols = tuple(JoinGroupRequestProtocol(name=n, metadata=b"data") for n in ("a", "b", "c"))
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    payload = payload_of(encode_request(message, 5, 1, "me"))
    with pytest.raises(ProtocolError) as caught:
        decode_request(payload[:-3])
    assert str(caught.value) == (
        f"JoinGroup request v5, field protocols[2].metadata, offset {len(payload) - 8}:"
        " 4 elements announced, 1 bytes left"
    )


def test_error_in_a_response_counts_from_the_start_of_the_payload() -> None:
    """Correlation id and tagged fields come before the message."""
    with pytest.raises(ProtocolError) as caught:
        decode_response(HeartbeatResponse, 4, bytes(4 + 1 + 4 + 1))
    assert str(caught.value) == (
        "Heartbeat response v4, field error_code, offset 9: needs 2 bytes, 1 left"
    )


# Frames that cannot be written


@pytest.mark.parametrize("correlation_id", [2**31, -(2**31) - 1, "1", None])
@pytest.mark.parametrize("version", [3, 4])
def test_bad_correlation_id_is_refused(correlation_id: Any, version: int) -> None:
    with pytest.raises(EncodeError, match="request header, field correlation_id"):
        encode_request(HEARTBEAT, version, correlation_id)
    with pytest.raises(EncodeError, match="response header, field correlation_id"):
        encode_response(HeartbeatResponse(), version, correlation_id)


@pytest.mark.parametrize("client_id", ["x" * 32768, "\ud800", b"client", 1])
@pytest.mark.parametrize("version", [3, 4])
def test_client_id_that_cannot_be_sent_is_refused(client_id: Any, version: int) -> None:
    with pytest.raises(EncodeError, match="request header, field client_id"):
        encode_request(HEARTBEAT, version, 1, client_id)


def test_bad_field_of_a_frame_is_named() -> None:
    bad_request = HeartbeatRequest(group_id="g", generation_id=2**31, member_id="m")
    with pytest.raises(EncodeError, match="Heartbeat request v4, field generation_id: "):
        encode_request(bad_request, 4, 1)
    with pytest.raises(EncodeError, match="Heartbeat response v4, field error_code: "):
        encode_response(HeartbeatResponse(error_code=2**15), 4, 1)


def test_version_that_does_not_exist_is_refused() -> None:
    """Asking for it is the caller's mistake, whatever the bytes."""
    calls: list[Callable[[], object]] = [
        lambda: encode(HEARTBEAT, 5),
        lambda: encode_request(HEARTBEAT, 5, 1),
        lambda: encode_response(HeartbeatResponse(), -1, 1),
        lambda: decode(HeartbeatRequest, 5, b""),
        lambda: decode_response(HeartbeatResponse, 5, bytes(10)),
    ]
    for call in calls:
        with pytest.raises(EncodeError, match="no such version"):
            call()


def test_request_and_response_are_not_mixed_up() -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: encode_request(HeartbeatResponse(), 4, 1), "Heartbeat response: not a request"),
        (lambda: encode_response(HEARTBEAT, 4, 1), "Heartbeat request: not a response"),
        (
            lambda: decode_response(HeartbeatRequest, 4, bytes(20)),
            "Heartbeat request: not a response",
        ),
    ]
    for call, text in calls:
        with pytest.raises(EncodeError, match=text):
            call()


# Unknown tagged fields


Tags = dict[int, bytes]

#: Behind all tags that are known; their sizes need one and two bytes, the last tag needs five.
UNKNOWN_TAGS: Tags = {40: b"", 41: b"\xff" * 3, 200: b"z" * 300, 2**31 - 1: b"\0"}


def varint(number: int) -> bytes:
    """An unsigned varint."""
    low, rest = number % 128, number // 128
    return bytes([low + 128]) + varint(rest) if rest else bytes([low])


class PlainWriter:
    """Writes flexible messages from their declarations, one field after another.

    It shares no code with what it tests.  `more` are the unknown tags to put into the section of
    that number, counted from the innermost first one, or into all sections.  `twist` may change
    what is written of known tagged fields.
    """

    def __init__(
        self,
        version: int,
        more: Tags | None = None,
        only_section: int | None = None,
        twist: Callable[[str, bytes], bytes] = lambda _, content: content,
    ) -> None:
        self.sections = 0
        self._version = version
        self._more = more or {}
        self._only_section = only_section
        self._twist = twist

    def record(self, message: Any) -> bytes:
        """A message or part with its tagged fields."""
        out, tags = b"", {}
        for spec in declaration_of(type(message)).fields:
            value = getattr(message, spec.name)
            if self._version not in spec.versions:
                continue
            if spec.tag is None:
                out += self._value(spec.type, value)
            elif value != spec.default:
                tags[spec.tag] = self._twist(spec.name, self._value(spec.type, value))
        return out + self._section(tags)

    def _section(self, tags: Tags) -> bytes:
        if self._only_section in (None, self.sections):
            tags = tags | self._more
        self.sections += 1
        fields = (varint(tag) + varint(len(tags[tag])) + tags[tag] for tag in sorted(tags))
        return varint(len(tags)) + b"".join(fields)

    def _value(self, wire_type: WireType, value: Any) -> bytes:
        formats = {Primitive.BOOL: ">?", Primitive.INT8: ">b", Primitive.INT16: ">h"}
        formats |= {Primitive.INT32: ">i", Primitive.INT64: ">q", Primitive.FLOAT64: ">d"}
        match wire_type:
            case Primitive.STRING | Primitive.BYTES | Primitive.RECORDS:
                content = value if isinstance(value, bytes) else value.encode()
                return varint(len(content) + 1) + bytes(content)
            case Primitive.UUID:
                return bytes(value.bytes)
            case Primitive():
                return struct.pack(formats[wire_type], value)
            case Array():
                elements = [self._value(wire_type.element, element) for element in value]
                return varint(len(elements) + 1) + b"".join(elements)
        return self.record(value)


def sections_of(cls: type[Any], version: int) -> int:
    """How many sections of tagged fields the sample of a message has."""
    writer = PlainWriter(version)
    writer.record(filled(cls, version))
    return writer.sections


@by_class(is_flexible)
def test_flexible_messages_are_as_the_plain_writer_makes_them(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        message = filled(cls, version)
        assert encode(message, version) == PlainWriter(version).record(message)


@by_class(is_flexible)
def test_unknown_tagged_fields_are_skipped_at_every_level(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        message = filled(cls, version)
        for section in (None, *range(sections_of(cls, version))):
            written = PlainWriter(version, UNKNOWN_TAGS, section).record(message)
            assert len(written) > len(encode(message, version)) + 300
            assert decode(cls, version, written) == message


@by_class(is_flexible)
def test_unknown_tagged_field_that_is_cut_off_is_refused(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        written = PlainWriter(version, {40_000: b"z" * 300}, sections_of(cls, version) - 1).record(
            filled(cls, version)
        )
        with pytest.raises(ProtocolError) as caught:
            decode(cls, version, written[:-1])
        error = caught.value
        assert (error.field, error.offset) == ("tagged fields", len(written) - 300)
        assert error.reason == "a tagged field of 300 bytes, 299 left"


def known_tags(cls: type[Any], version: int) -> Iterator[tuple[str, str]]:
    """Name and path of each tagged field that a class declares for a version."""
    for place in places(cls, version):
        if place.spec.tag is not None and version in place.spec.versions and not place.is_element:
            yield place.spec.name, place.path


def changed_tags(
    cls: type[Any], version: int, change: Callable[[bytes], bytes]
) -> Iterator[tuple[str, bytes]]:
    """Each known tagged field's path, and a message in which its content is changed."""
    for name, path in known_tags(cls, version):

        def twist(found: str, content: bytes, name: str = name) -> bytes:
            return change(content) if found == name else content

        yield path, PlainWriter(version, twist=twist).record(filled(cls, version))


@by_class(has_tags)
def test_known_tagged_field_that_is_too_long_is_refused(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        for path, written in changed_tags(cls, version, lambda content: content + b"\0"):
            with pytest.raises(ProtocolError, match="does not fill its") as caught:
                decode(cls, version, written)
            assert caught.value.field == path


@by_class(has_tags)
def test_known_tagged_field_that_is_too_short_is_refused(
    cls: type[Any], versions: list[int]
) -> None:
    for version in versions:
        for path, written in changed_tags(cls, version, lambda content: content[:-1]):
            with pytest.raises(ProtocolError) as caught:
                decode(cls, version, written)
            assert (caught.value.field or "").startswith(path)


def test_known_tags_exist() -> None:
    """The tests above look at these."""
    found = {
        path
        for cls, version in MESSAGES
        if has_tags(cls, version)
        for _, path in known_tags(cls, version)
    }
    assert found == {
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
        "by_itself",
        "cluster_id",
        "replica_state",
        "topics[0].partitions[0].replica_directory_id",
        "topics[0].partitions[0].high_watermark",
        "node_endpoints",
        "responses[0].partitions[0].diverging_epoch",
        "responses[0].partitions[0].current_leader",
        "responses[0].partitions[0].snapshot_id",
        "topics[0].topic_config_error_code",
        # Coterie's own.
        "wants_http",
        "shards_are_free",
        "http_address",
        "wants_token",
        "registration_timeout_ms",
        "wants_absences",
        "members[0].away_with",
        "wants_operations",
        "members[0].assigned_last",
        "operations",
        "groups[0].operations",
        "groups[0].operations_not_followed",
        "groups[0].members[0].away_since_ms",
        "fencing_token",
        "sequence",
    }


# The same in headers


def tag_section(tags: Tags) -> bytes:
    """A section of tagged fields."""
    return PlainWriter(0, tags)._section({})  # noqa: SLF001  # no other code needs one alone


def test_unknown_tagged_fields_in_a_request_header_are_skipped() -> None:
    body = encode(HEARTBEAT, 4)
    payload = header_bytes(12, 4, 7, b"c") + tag_section(UNKNOWN_TAGS) + body
    assert decode_request(payload).message == HEARTBEAT


def test_inflexible_request_header_has_no_tagged_fields() -> None:
    payload = header_bytes(12, 3, 7, b"c") + b"\0" + encode(HEARTBEAT, 3)
    with pytest.raises(ProtocolError, match="Heartbeat request v3"):
        decode_request(payload)


def test_unknown_tagged_fields_in_a_response_header_are_skipped() -> None:
    answer = HeartbeatResponse(error_code=27)
    payload = struct.pack(">i", 7) + tag_section(UNKNOWN_TAGS) + encode(answer, 4)
    assert decode_response(HeartbeatResponse, 4, payload) == (7, answer)


BAD_SECTIONS = [
    (b"", 0, "cut off"),
    (b"\x80", 0, "cut off"),
    (b"\x80\x80\x80\x80\x80\x01", 0, "more than five bytes"),
    (b"\x01", 1, "1 tagged fields announced, 0 bytes left"),
    (b"\xff\xff\xff\xff\x0f", 5, "announced, 0 bytes left"),
    (b"\x02\x28\x00\x29", 1, "2 tagged fields announced, 3 bytes left"),
    (
        b"\xe9\x07" + b"\x28\x00" * 1001,
        2,
        "1001 tagged fields announced, 2002 bytes left, 1000 allowed",
    ),
    (b"\x01\x28\x05zzzz", 3, "a tagged field of 5 bytes, 4 left"),
    (b"\x01\x28\xff\xff\xff\xff\x0f", 7, "a tagged field of 4294967295 bytes, 0 left"),
    (b"\x01\x28\xff", 2, "cut off"),
]


@pytest.mark.parametrize(("section", "at", "reason"), BAD_SECTIONS)
def test_bad_tagged_fields_in_a_request_header_are_refused_with_name_and_offset(
    section: bytes, at: int, reason: str
) -> None:
    header = header_bytes(12, 4, 7, b"c")
    with pytest.raises(ProtocolError, match=reason) as caught:
        decode_request(header + section)
    error = caught.value
    assert (error.subject, error.field) == ("request header", "tagged fields")
    assert error.offset == len(header) + at


@pytest.mark.parametrize(("section", "at", "reason"), BAD_SECTIONS)
def test_bad_tagged_fields_in_a_response_header_are_refused_with_name_and_offset(
    section: bytes, at: int, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason) as caught:
        decode_response(HeartbeatResponse, 4, bytes(4) + section)
    error = caught.value
    assert (error.subject, error.field) == ("response header", "tagged fields")
    assert error.offset == 4 + at
