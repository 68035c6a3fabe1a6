"""What members write into the opaque bytes of a group, byte by byte and across ages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import EncodeError, ProtocolError
from coterie_protocol.codec import encode
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
from tests.support.strategies import messages

ORDERS = TopicPartitions(topic="orders", partitions=(0, 2))

SUBSCRIPTION = Subscription(
    topics=("orders", "é"),
    user_data=b"\x01\x02",
    owned_partitions=(ORDERS,),
    generation_id=5,
    rack_id="r1",
)
SUBSCRIPTION_V0 = bytes.fromhex(
    "00000002"  # two topics
    "0006 6f7264657273"  # "orders"
    "0002 c3a9"  # "é"
    "00000002 0102"  # user data
)
OWNED = bytes.fromhex(
    "00000001"  # one topic with partitions that the member owns
    "0006 6f7264657273"
    "00000002 00000000 00000002"  # 0 and 2
)
GENERATION = bytes.fromhex("00000005")
RACK = bytes.fromhex("0002 7231")

ASSIGNMENT = Assignment(assigned_partitions=(ORDERS,), user_data=None)
ASSIGNMENT_BODY = OWNED + bytes.fromhex("ffffffff")  # no user data


def versioned(version: int, body: bytes) -> bytes:
    """A structure behind its version."""
    return version.to_bytes(2) + body


# Subscription

SUBSCRIPTION_BYTES = [
    (0, SUBSCRIPTION_V0),
    (1, SUBSCRIPTION_V0 + OWNED),
    (2, SUBSCRIPTION_V0 + OWNED + GENERATION),
    (3, SUBSCRIPTION_V0 + OWNED + GENERATION + RACK),
]
each_subscription = pytest.mark.parametrize(("version", "body"), SUBSCRIPTION_BYTES)


def known_to(version: int) -> Subscription:
    """What a version carries of the subscription."""
    return Subscription(
        topics=SUBSCRIPTION.topics,
        user_data=SUBSCRIPTION.user_data,
        owned_partitions=SUBSCRIPTION.owned_partitions if version >= 1 else (),
        generation_id=SUBSCRIPTION.generation_id if version >= 2 else -1,
        rack_id=SUBSCRIPTION.rack_id if version >= 3 else None,
    )


@each_subscription
def test_subscription_byte_by_byte(version: int, body: bytes) -> None:
    assert encode_subscription(SUBSCRIPTION, version) == versioned(version, body)
    assert decode_subscription(versioned(version, body)) == known_to(version)


def test_subscription_is_written_in_the_newest_version() -> None:
    assert encode_subscription(SUBSCRIPTION) == encode_subscription(SUBSCRIPTION, 3)


def test_subscription_without_anything() -> None:
    empty = Subscription(topics=())
    written = bytes.fromhex("0003 00000000 ffffffff 00000000 ffffffff ffff")
    assert encode_subscription(empty) == written
    assert decode_subscription(written) == empty


@pytest.mark.parametrize("version", [4, 5, 32767])
def test_subscription_of_a_newer_version_is_read_as_the_newest_known(version: int) -> None:
    """Newer versions add fields at the end."""
    _, body = SUBSCRIPTION_BYTES[3]
    assert decode_subscription(versioned(version, body + b"more")) == SUBSCRIPTION


@each_subscription
def test_bytes_behind_a_subscription_are_passed_over(version: int, body: bytes) -> None:
    assert decode_subscription(versioned(version, body + b"\0\1more")) == known_to(version)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_subscription_with_too_high_a_version_is_read_by_its_content(version: int) -> None:
    """Sarama wrote 1 for version 0."""
    assert decode_subscription(versioned(version, SUBSCRIPTION_V0)) == known_to(0)


def test_subscription_is_read_as_the_newest_older_version_that_fits() -> None:
    """A version 1 that is labelled 2 keeps the owned partitions."""
    assert decode_subscription(versioned(2, SUBSCRIPTION_V0 + OWNED)) == known_to(1)


@each_subscription
def test_subscription_that_fits_no_version_is_refused(version: int, body: bytes) -> None:
    with pytest.raises(ProtocolError, match="Subscription") as caught:
        decode_subscription(versioned(version, body[:-1]))
    assert caught.value.version == version


# Assignment


@pytest.mark.parametrize("version", range(4))
def test_assignment_byte_by_byte(version: int) -> None:
    written = versioned(version, ASSIGNMENT_BODY)
    assert encode_assignment(ASSIGNMENT, version) == written
    assert decode_assignment(written) == ASSIGNMENT


def test_assignment_is_written_in_the_newest_version() -> None:
    assert encode_assignment(ASSIGNMENT) == encode_assignment(ASSIGNMENT, 3)


@pytest.mark.parametrize("version", [4, 5, 32767])
def test_assignment_of_a_newer_version_is_read_as_the_newest_known(version: int) -> None:
    """Newer versions add fields at the end."""
    assert decode_assignment(versioned(version, ASSIGNMENT_BODY + b"more")) == ASSIGNMENT


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("behind", [b"\1", b"\0\0\1", b"\0\1more"])
def test_bytes_behind_an_assignment_are_skipped(version: int, behind: bytes) -> None:
    """Except for exactly two, which are the draft's error code."""
    assert decode_assignment(versioned(version, ASSIGNMENT_BODY + behind)) == ASSIGNMENT


@pytest.mark.parametrize("size", range(2, len(ASSIGNMENT_BODY) + 2))
def test_assignment_that_is_cut_off_is_refused(size: int) -> None:
    """A member must not work on other members' partitions."""
    with pytest.raises(ProtocolError, match="Assignment v1, field"):
        decode_assignment(versioned(1, ASSIGNMENT_BODY)[:size])


# NEEDS_REJOIN

REJOIN = Assignment(assigned_partitions=(ORDERS,), user_data=None, error_code=NEEDS_REJOIN)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_needs_rejoin_is_written_behind_the_user_data(version: int) -> None:
    written = versioned(version, ASSIGNMENT_BODY + b"\0\1")
    assert encode_assignment(REJOIN, version) == written
    assert decode_assignment(written) == REJOIN


def test_needs_rejoin_is_refused_in_version_0() -> None:
    """The draft gave the error code to version 1."""
    with pytest.raises(EncodeError, match="Assignment v0, field error_code"):
        encode_assignment(REJOIN, 0)


def test_needs_rejoin_is_not_read_from_version_0() -> None:
    """Coterie does not write it there, so the bytes are another client's."""
    assert decode_assignment(versioned(0, ASSIGNMENT_BODY + b"\0\1")) == ASSIGNMENT


def test_needs_rejoin_is_not_read_from_a_future_version() -> None:
    """Version 4 may have a new field there."""
    assert decode_assignment(versioned(4, ASSIGNMENT_BODY + b"\0\1")) == ASSIGNMENT


@pytest.mark.parametrize("error_code", [2**15, -(2**15) - 1, "1"])
def test_error_code_out_of_range_is_refused(error_code: Any) -> None:
    bad = Assignment(assigned_partitions=(), error_code=error_code)
    with pytest.raises(EncodeError, match="Assignment v3, field error_code"):
        encode_assignment(bad)


@given(messages(Assignment, 3), st.integers(-(2**15), 2**15 - 1), st.integers(1, 3))
def test_error_code_comes_back(assignment: Assignment, error_code: int, version: int) -> None:
    sent = Assignment(
        assigned_partitions=assignment.assigned_partitions,
        user_data=assignment.user_data,
        error_code=error_code,
    )
    assert decode_assignment(encode_assignment(sent, version)) == sent


# Refusals

REFUSING = Subscription(topics=("orders",), refused_partitions=(ORDERS,))


def test_refusals_are_written_behind_the_subscription() -> None:
    """Stock members do not look there."""
    plain = encode_subscription(Subscription(topics=("orders",)))
    written = encode_subscription(REFUSING)
    assert written.startswith(plain)
    assert len(written) > len(plain)
    assert decode_subscription(written) == REFUSING


@pytest.mark.parametrize("version", [0, 1, 2])
def test_refusals_are_not_written_in_older_versions(version: int) -> None:
    """They would be lost."""
    with pytest.raises(EncodeError, match=f"Subscription v{version}, field refused_partitions"):
        encode_subscription(REFUSING, version)


@pytest.mark.parametrize("foreign", [b"\0", b"\0\0\0\1", b"\0\0\0\0\0", b"whatever"])
def test_other_bytes_behind_a_subscription_are_skipped(foreign: bytes) -> None:
    """Other clients may put something of their own there."""
    plain = Subscription(topics=("orders",))
    assert decode_subscription(encode_subscription(plain) + foreign) == plain


def test_refusals_are_not_read_from_a_future_version() -> None:
    """Version 4 may have a new field there."""
    written = b"\0\4" + encode_subscription(REFUSING)[2:]
    assert decode_subscription(written).refused_partitions == ()


# Versions that are none

READERS: list[Callable[[bytes], object]] = [decode_subscription, decode_assignment]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [b"", b"\0"])
def test_bytes_without_version_are_refused(read: Callable[[bytes], object], data: bytes) -> None:
    """Empty bytes mean "nothing assigned" in places; callers must check for them first."""
    with pytest.raises(ProtocolError, match="field version, offset 0: cut off"):
        read(data)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("version", [b"\xff\xff", b"\x80\x00"])
def test_negative_version_is_refused(read: Callable[[bytes], object], version: bytes) -> None:
    with pytest.raises(ProtocolError, match="field version, offset 0: version -"):
        read(version + ASSIGNMENT_BODY)


@pytest.mark.parametrize("version", [-1, 4, 40000])
def test_unknown_version_cannot_be_written(version: int) -> None:
    """Writing is stricter than reading."""
    with pytest.raises(EncodeError, match="no such version"):
        encode_subscription(SUBSCRIPTION, version)
    with pytest.raises(EncodeError, match="no such version"):
        encode_assignment(ASSIGNMENT, version)


# The sticky assignors' user data

STICKY = StickyData(previous_assignment=(ORDERS,), generation=5)


def test_sticky_data_byte_by_byte() -> None:
    """It does not begin with a version."""
    assert encode_sticky_data(STICKY, 0) == OWNED
    assert encode_sticky_data(STICKY, 1) == encode_sticky_data(STICKY) == OWNED + GENERATION


def test_sticky_data_is_read_as_the_version_that_fits() -> None:
    assert decode_sticky_data(OWNED + GENERATION) == STICKY
    assert decode_sticky_data(OWNED) == StickyData(previous_assignment=(ORDERS,), generation=-1)


def test_bytes_behind_sticky_data_are_passed_over() -> None:
    assert decode_sticky_data(OWNED + GENERATION + b"more") == STICKY


@pytest.mark.parametrize("size", range(len(OWNED)))
def test_sticky_data_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match="StickyData"):
        decode_sticky_data(OWNED[:size])


def test_cooperative_sticky_data_byte_by_byte() -> None:
    data = CooperativeStickyData(generation=5)
    assert encode(data, 0) == GENERATION
    assert decode_cooperative_sticky_data(GENERATION) == data
    assert decode_cooperative_sticky_data(GENERATION + b"more") == data


@pytest.mark.parametrize("size", range(4))
def test_cooperative_sticky_data_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match="CooperativeStickyData v0, field generation"):
        decode_cooperative_sticky_data(bytes(size))


# Pairs


def test_pairs_are_grouped_by_topic_in_order() -> None:
    """So equal sets of pairs give equal bytes."""
    assert group_by_topic([("b", 1), ("a", 3), ("b", 0), ("a", 10)]) == (
        TopicPartitions(topic="a", partitions=(3, 10)),
        TopicPartitions(topic="b", partitions=(0, 1)),
    )


def test_no_pairs_give_no_topics() -> None:
    assert group_by_topic([]) == ()


def test_flatten_gives_the_pairs() -> None:
    listed = [
        ORDERS,
        TopicPartitions(topic="empty", partitions=()),
        TopicPartitions(topic="orders", partitions=(2, 7)),
    ]
    assert flatten(listed) == {("orders", 0), ("orders", 2), ("orders", 7)}


@given(st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 20))))
def test_flatten_undoes_grouping(pairs: frozenset[tuple[str, int]]) -> None:
    assert flatten(group_by_topic(pairs)) == pairs
