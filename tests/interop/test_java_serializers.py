"""Coterie's bytes are those of Kafka's own Java serializers: every API and version, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.codec import (
    API_VERSIONS,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
)
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    CooperativeStickyData,
    StickyData,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_cooperative_sticky_data,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
    flatten,
    group_by_topic,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import Kind, declaration_of
from tests.interop.java_serializers import JavaSerializers
from tests.support.every_message import by_version
from tests.support.oracle_examples import (
    CLIENT_IDS,
    INT32S,
    UNKNOWN_TAGS,
    examples,
    has_own_fields,
    without_own_fields,
)
from tests.support.strategies import messages

pytestmark = pytest.mark.interop

NEW: Final = "current Kafka"
OLD: Final = "Kafka 3.9"

#: Versions of Coterie's that each Kafka lacks. Kafka 4 dropped the oldest; 3.9 is too old for one.
LACKING: Final[dict[str, dict[ApiKey, set[int]]]] = {
    NEW: {
        ApiKey.PRODUCE: {0, 1, 2},
        ApiKey.FETCH: {0, 1, 2, 3},
        ApiKey.LIST_OFFSETS: {0},
        ApiKey.OFFSET_COMMIT: {0, 1},
        ApiKey.OFFSET_FETCH: {0},
        ApiKey.CREATE_TOPICS: {0, 1},
        ApiKey.DELETE_TOPICS: {0},
        ApiKey.DESCRIBE_ACLS: {0},
        ApiKey.CREATE_ACLS: {0},
        ApiKey.DELETE_ACLS: {0},
    },
    OLD: {ApiKey.FETCH: {18}, ApiKey.DESCRIBE_GROUPS: {6}},
}


@pytest.fixture(scope="module")
def kafkas(java_compiler: None) -> Iterator[dict[str, JavaSerializers]]:  # noqa: ARG001 - its skip
    """Give the serializers of both Kafkas."""
    with JavaSerializers() as new, JavaSerializers(old=True) as old:
        yield {NEW: new, OLD: old}


@pytest.fixture
def java(request: pytest.FixtureRequest, kafkas: dict[str, JavaSerializers]) -> JavaSerializers:
    """Give the serializers of the Kafka that is the parameter."""
    return kafkas[request.param]


_either_kafka = pytest.mark.parametrize("java", [NEW, OLD], indirect=True)
_new_kafka = pytest.mark.parametrize("java", [NEW], indirect=True)


def _messages_of(kind: Kind, *, flexible: bool = False, own: bool = False) -> pytest.MarkDecorator:
    """Every message of a kind in every version, as parameters."""
    return by_version(
        lambda cls, version: (
            declaration_of(cls).kind is kind
            and (version in declaration_of(cls).flexible or not flexible)
            and (has_own_fields(cls, version) or not own)
        )
    )


def _having(
    cls: type[Any], version: int, kafkas: dict[str, JavaSerializers]
) -> list[JavaSerializers]:
    """The Kafkas that have a version of a message: both, or one of them."""
    api = declaration_of(cls).api
    assert api is not None
    having = [java for name, java in kafkas.items() if version not in LACKING[name].get(api, ())]
    assert having
    return having


def _request_header(
    cls: type[Any], version: int, correlation_id: int, client_id: str | None
) -> dict[str, Any]:
    api = declaration_of(cls).api
    assert api is not None
    return {
        "requestApiKey": int(api),
        "requestApiVersion": version,
        "correlationId": correlation_id,
        "clientId": client_id,
    }


@_messages_of(Kind.REQUEST)
def test_request_frames_are_the_same_bytes(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(60)
    @given(messages(cls, version), INT32S, CLIENT_IDS)
    def check(message: Any, correlation_id: int, client_id: str | None) -> None:
        header = _request_header(cls, version, correlation_id, client_id)
        ours = encode_request(message, version, correlation_id, client_id)
        for java in javas:
            assert ours == java.frame(message, version, header)
            assert java.read_frame(cls, version, ours) == (header, message)
        assert decode_request(ours[4:]).message == message

    check()


@_messages_of(Kind.RESPONSE)
def test_response_frames_are_the_same_bytes(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(60)
    @given(messages(cls, version), INT32S)
    def check(message: Any, correlation_id: int) -> None:
        header = {"correlationId": correlation_id}
        ours = encode_response(message, version, correlation_id)
        for java in javas:
            assert ours == java.frame(message, version, header)
            assert java.read_frame(cls, version, ours) == (header, message)
        assert decode_response(cls, version, ours[4:]) == (correlation_id, message)

    check()


@_messages_of(Kind.REQUEST, flexible=True)
def test_unknown_tags_in_requests_are_passed_over(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(10)
    @given(messages(cls, version), UNKNOWN_TAGS)
    def check(message: Any, tags: dict[int, bytes]) -> None:
        header = _request_header(cls, version, 7, "client")
        for java in javas:
            theirs = java.frame(message, version, header, tags)
            assert len(theirs) > len(encode_request(message, version, 7, "client"))
            request = decode_request(theirs[4:])
            assert (request.correlation_id, request.client_id) == (7, "client")
            assert request.message == message

    check()


@_messages_of(Kind.RESPONSE, flexible=True)
def test_unknown_tags_in_responses_are_passed_over(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(10)
    @given(messages(cls, version), UNKNOWN_TAGS)
    def check(message: Any, tags: dict[int, bytes]) -> None:
        for java in javas:
            theirs = java.frame(message, version, {"correlationId": 7}, tags)
            assert len(theirs) > len(encode_response(message, version, 7))
            assert decode_response(cls, version, theirs[4:]) == (7, message)

    check()


@_messages_of(Kind.REQUEST, own=True)
def test_own_fields_of_requests_are_passed_over(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(10)
    @given(messages(cls, version, own=True))
    def check(message: Any) -> None:
        ours = encode_request(message, version, 7, "c")
        for java in javas:
            assert java.read_frame(cls, version, ours)[1] == without_own_fields(message)

    check()


@_messages_of(Kind.RESPONSE, own=True)
def test_own_fields_of_responses_are_passed_over(
    kafkas: dict[str, JavaSerializers], cls: type[Any], version: int
) -> None:
    javas = _having(cls, version, kafkas)

    @examples(10)
    @given(messages(cls, version, own=True))
    def check(message: Any) -> None:
        ours = encode_response(message, version, 7)
        for java in javas:
            assert java.read_frame(cls, version, ours)[1] == without_own_fields(message)

    check()


@_either_kafka
@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_the_same_bytes(java: JavaSerializers, version: int) -> None:
    @examples(60)
    @given(messages(Subscription, version))
    def check(subscription: Subscription) -> None:
        ours = encode_subscription(subscription, version)
        assert ours == java.embedded(subscription, version)
        assert java.read_embedded(Subscription, version, ours) == subscription
        assert decode_subscription(ours) == subscription

    check()


@_either_kafka
@pytest.mark.parametrize("version", range(4))
def test_assignments_are_the_same_bytes(java: JavaSerializers, version: int) -> None:
    @examples(60)
    @given(messages(Assignment, version))
    def check(assignment: Assignment) -> None:
        ours = encode_assignment(assignment, version)
        assert ours == java.embedded(assignment, version)
        assert java.read_embedded(Assignment, version, ours) == assignment
        assert decode_assignment(ours) == assignment

    check()


@_either_kafka
@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_consumers_pass_over_needs_rejoin(java: JavaSerializers, version: int) -> None:
    given_out = (TopicPartitions(topic="t", partitions=(0, 2)),)
    told = Assignment(assigned_partitions=given_out, user_data=b"u", error_code=NEEDS_REJOIN)
    plain = Assignment(assigned_partitions=given_out, user_data=b"u")
    data = encode_assignment(told, version)
    assert len(data) == len(encode_assignment(plain, version)) + 2
    answer = java.ask("read-assignment", hex=data.hex())
    assert answer == {"partitions": [["t", 0], ["t", 2]], "userData": b"u".hex()}


_owned_partitions = st.sets(st.tuples(st.text(st.characters(codec="utf-8")), INT32S), max_size=8)


@_either_kafka
def test_sticky_data_reads_in_both(java: JavaSerializers) -> None:
    """The bytes need not be equal: Java writes the topics in the order of a hash map."""

    @examples(60)
    @given(_owned_partitions, INT32S)
    def check(owned: set[tuple[str, int]], generation: int) -> None:
        pairs = sorted(owned)
        written = java.ask("write-sticky-data", partitions=pairs, generation=generation)
        read = decode_sticky_data(bytes.fromhex(written["hex"]))
        assert flatten(read.previous_assignment) == owned
        assert read.generation == generation
        ours = StickyData(previous_assignment=group_by_topic(owned), generation=generation)
        answer = java.ask("read-sticky-data", hex=encode_sticky_data(ours).hex())
        assert {(topic, number) for topic, number in answer["partitions"]} == owned
        assert answer["generation"] == generation

    check()


@_either_kafka
def test_sticky_data_without_generation_reads_in_java(java: JavaSerializers) -> None:
    ours = StickyData(previous_assignment=(TopicPartitions(topic="t", partitions=(3, 1)),))
    answer = java.ask("read-sticky-data", hex=encode_sticky_data(ours, 0).hex())
    assert answer == {"partitions": [["t", 3], ["t", 1]], "generation": None}


@_either_kafka
@pytest.mark.parametrize("generation", [0, 1, 2**31 - 1])
def test_cooperative_sticky_data_is_the_same_bytes(java: JavaSerializers, generation: int) -> None:
    ours = CooperativeStickyData(generation=generation)
    data = encode(ours, 0)
    assert data.hex() == java.ask("write-cooperative-data", generation=generation)["hex"]
    assert java.ask("read-cooperative-data", hex=data.hex())["generation"] == generation
    assert decode_cooperative_sticky_data(data) == ours


@_new_kafka
def test_error_codes_are_those_of_kafka(java: JavaSerializers) -> None:
    theirs = {
        name: (error["code"], error["retriable"]) for name, error in java.ask("errors").items()
    }
    assert {error.name: (int(error), error.retriable) for error in ErrorCode} == theirs


@_either_kafka
def test_what_a_kafka_lacks_is_listed(
    java: JavaSerializers, request: pytest.FixtureRequest
) -> None:
    theirs = java.ask("apis")
    lacking = {}
    for api, versions in API_VERSIONS.items():
        answer = theirs[api.name]
        assert answer["key"] == api
        missing = set(versions) - set(range(answer["oldest"], answer["latest"] + 1))
        if missing:
            lacking[api] = missing
    assert lacking == LACKING[request.node.callspec.params["java"]]


def test_no_version_is_lacking_in_both() -> None:
    """So every version is held against Java."""
    for api in LACKING[NEW].keys() & LACKING[OLD].keys():
        assert not LACKING[NEW][api] & LACKING[OLD][api]
