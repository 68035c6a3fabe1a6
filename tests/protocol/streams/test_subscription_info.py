"""What a member with state tells its leader, byte by byte, in each of Kafka's versions."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import EncodeError, ProtocolError
from coterie_protocol.streams import (
    LATEST_OFFSET,
    UNKNOWN_OFFSET_SUM,
    UNKNOWN_VERSION,
    SubscriptionInfo,
    TaskId,
    UnknownVersionError,
    decode_subscription_info,
    encode_subscription_info,
)
from tests.support.profiles import examples
from tests.support.streams_infos import VERSIONS, oldest_and_newest, subscription_infos

PROCESS = UUID("00112233-4455-6677-8899-aabbccddeeff")
PROCESS_BYTES = PROCESS.bytes

INFO = SubscriptionInfo(
    process_id=PROCESS,
    task_offset_sums={
        TaskId(0, 1): LATEST_OFFSET,
        TaskId(0, 2): 500,
        TaskId(3, 4): UNKNOWN_OFFSET_SUM,
    },
    user_endpoint="h:1",
    unique_field=-1,
    error_code=4,
    client_tags={"zone": "é"},
)
NAMED_SUMS = {TaskId(0, 1, "orders"): 500, TaskId(3, 4): LATEST_OFFSET}

ENDPOINT = bytes.fromhex("00000003 683a31")
# One task that the member works on, and two of which it has state.
ROLES = bytes.fromhex(
    "00000001 00000000 00000001"  # 0_1
    "00000002 00000000 00000002 00000003 00000004"  # 0_2 and 3_4
)
SUMS_BY_SUBTOPOLOGY = bytes.fromhex(
    "00000002"  # two subtopologies
    "00000000 00000002"  # subtopology 0 with two tasks
    "00000001 fffffffffffffffe"  # 0_1: -2
    "00000002 00000000000001f4"  # 0_2: 500
    "00000003 00000001"  # subtopology 3 with one
    "00000004 fffffffffffffffd"  # 3_4: -3
)
SUMS_WITH_NAMES = bytes.fromhex(
    "00000002"
    "00000000 00000001 00000000000001f4 0006 6f7264657273"  # orders__0_1: 500
    "00000003 00000004 fffffffffffffffe ffff"  # 3_4 of no topology: -2
)
UNIQUE = b"\xff"
ERROR = bytes.fromhex("00000004")
TAGS = bytes.fromhex("00000001 00000004 7a6f6e65 00000002 c3a9")


def front(version: int) -> bytes:
    """A version and, where it is said, 11 as the latest."""
    return version.to_bytes(4) + (bytes.fromhex("0000000b") if version >= 3 else b"")


BYTES = {
    1: PROCESS_BYTES + ROLES,
    **dict.fromkeys((2, 3, 4, 5, 6), PROCESS_BYTES + ROLES + ENDPOINT),
    7: PROCESS_BYTES + ENDPOINT + SUMS_BY_SUBTOPOLOGY,
    8: PROCESS_BYTES + ENDPOINT + SUMS_BY_SUBTOPOLOGY + UNIQUE,
    9: PROCESS_BYTES + ENDPOINT + SUMS_BY_SUBTOPOLOGY + UNIQUE + ERROR,
    10: PROCESS_BYTES + ENDPOINT + SUMS_WITH_NAMES + UNIQUE + ERROR,
    11: PROCESS_BYTES + ENDPOINT + SUMS_WITH_NAMES + UNIQUE + ERROR + TAGS,
}
each_version = pytest.mark.parametrize("version", VERSIONS)


def info_of(version: int) -> SubscriptionInfo:
    """What the example says if it is to be written in a version."""
    sums = NAMED_SUMS if version >= 10 else INFO.task_offset_sums
    return dataclasses.replace(INFO, version=version, task_offset_sums=sums)


def carried(version: int) -> SubscriptionInfo:
    """What a version carries of the example."""
    said = info_of(version)
    sums = dict(said.task_offset_sums)
    if version < 7:
        sums[TaskId(0, 2)] = UNKNOWN_OFFSET_SUM
    return SubscriptionInfo(
        process_id=PROCESS,
        task_offset_sums=sums,
        user_endpoint="h:1" if version >= 2 else None,
        unique_field=-1 if version >= 8 else 0,
        error_code=4 if version >= 9 else 0,
        client_tags={"zone": "é"} if version >= 11 else {},
        version=version,
        latest_supported_version=11 if version >= 3 else UNKNOWN_VERSION,
    )


def latest_version_bytes() -> bytes:
    """The example in the latest version."""
    return front(11) + BYTES[11]


@each_version
def test_byte_by_byte(version: int) -> None:
    written = front(version) + BYTES[version]
    assert encode_subscription_info(info_of(version)) == written
    assert decode_subscription_info(written) == carried(version)


@each_version
def test_a_member_without_state(version: int) -> None:
    empty = SubscriptionInfo(process_id=PROCESS, version=version)
    read = decode_subscription_info(encode_subscription_info(empty))
    assert (read.task_offset_sums, read.user_endpoint, read.client_tags) == ({}, None, {})


@oldest_and_newest
def test_what_a_version_carries_comes_back(version: int) -> None:
    @examples(60)
    @given(subscription_infos(version))
    def check(info: SubscriptionInfo) -> None:
        assert decode_subscription_info(encode_subscription_info(info)) == info

    check()


@oldest_and_newest
def test_bytes_that_were_read_are_written_again_as_they_were(version: int) -> None:
    """The order of tasks and tags is kept."""

    @examples(60)
    @given(subscription_infos(version))
    def check(info: SubscriptionInfo) -> None:
        written = encode_subscription_info(info)
        assert encode_subscription_info(decode_subscription_info(written)) == written

    check()


@each_version
def test_bytes_behind_a_subscription_are_passed_over(version: int) -> None:
    written = front(version) + BYTES[version] + b"more"
    assert decode_subscription_info(written) == carried(version)


@each_version
def test_a_subscription_that_is_cut_off_is_refused(version: int) -> None:
    written = front(version) + BYTES[version]
    for size in range(len(written)):
        with pytest.raises(ProtocolError, match="SubscriptionInfoData"):
            decode_subscription_info(written[:size])


@pytest.mark.parametrize("version", range(1, 10))
def test_names_of_topologies_are_refused_where_they_would_be_lost(version: int) -> None:
    named = dataclasses.replace(INFO, version=version, task_offset_sums=NAMED_SUMS)
    with pytest.raises(EncodeError, match=r"task orders__0_1: .* need version 10"):
        encode_subscription_info(named)


def test_an_empty_name_of_a_topology_is_none() -> None:
    info = SubscriptionInfo(process_id=PROCESS, task_offset_sums={TaskId(1, 2, ""): 3})
    written = encode_subscription_info(info)
    assert written == encode_subscription_info(
        dataclasses.replace(info, task_offset_sums={TaskId(1, 2): 3})
    )
    empty = written.replace(
        bytes.fromhex("0000000000000003 ffff"), bytes.fromhex("0000000000000003 0000")
    )
    assert empty != written
    assert decode_subscription_info(empty).task_offset_sums == {TaskId(1, 2): 3}


@pytest.mark.parametrize("version", range(1, 7))
def test_the_state_of_a_task_in_both_roles_is_unknown(version: int) -> None:
    """Kafka reads it so; nothing honest writes it."""
    task = bytes.fromhex("00000001 00000000 00000001")
    end = bytes(4) if version >= 2 else b""
    both = front(version) + PROCESS_BYTES + task + task + end
    assert decode_subscription_info(both).task_offset_sums == {TaskId(0, 1): UNKNOWN_OFFSET_SUM}


# Versions that are not known


@pytest.mark.parametrize("version", [0, -1, 12, 2**31])
def test_a_version_that_is_none_cannot_be_written(version: int) -> None:
    with pytest.raises(EncodeError, match=r"no such version|can't be the latest"):
        encode_subscription_info(dataclasses.replace(INFO, version=version))


@pytest.mark.parametrize("version", [0, -1, -(2**31)])
def test_a_version_that_is_none_is_refused(version: int) -> None:
    data = version.to_bytes(4, signed=True) + BYTES[11]
    with pytest.raises(ProtocolError, match=f"field version, offset 0: version {version}$"):
        decode_subscription_info(data)


@pytest.mark.parametrize(("version", "latest"), [(12, 12), (12, 14), (2**31 - 1, 2**31 - 1)])
def test_of_a_newer_version_its_two_numbers_are_known(version: int, latest: int) -> None:
    data = version.to_bytes(4) + latest.to_bytes(4) + b"whatever is there by then"
    with pytest.raises(UnknownVersionError) as caught:
        decode_subscription_info(data)
    assert (caught.value.version, caught.value.latest_supported) == (version, latest)
    assert str(caught.value) == (
        f"SubscriptionInfoData v{version}, field version, offset 0: "
        f"newer than the latest known; the writer knows versions up to {latest}"
    )


def test_a_reader_may_know_fewer_versions() -> None:
    data = front(10) + BYTES[10]
    assert decode_subscription_info(data, latest=10) == carried(10)
    with pytest.raises(UnknownVersionError) as caught:
        decode_subscription_info(data, latest=9)
    assert (caught.value.version, caught.value.latest_supported) == (10, 11)


def test_a_reader_does_not_know_more_versions_than_there_are() -> None:
    with pytest.raises(UnknownVersionError):
        decode_subscription_info(bytes.fromhex("0000000c 0000000c"), latest=12)


def test_the_error_of_a_newer_version_can_be_pickled() -> None:
    error = UnknownVersionError(12, 13, subject="SubscriptionInfoData")
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert (type(twin), vars(twin), str(twin)) == (type(error), vars(error), str(error))


@pytest.mark.parametrize("size", range(4, 8))
def test_a_newer_version_alone_is_cut_off(size: int) -> None:
    with pytest.raises(ProtocolError, match="v12, field latest_supported_version") as caught:
        decode_subscription_info(bytes.fromhex("0000000c 0000000c")[:size])
    assert not isinstance(caught.value, UnknownVersionError)


@pytest.mark.parametrize(("version", "latest"), [(3, 2), (11, 10), (11, -1), (12, 11), (12, -1)])
def test_a_claim_to_write_a_version_without_knowing_it_is_refused(
    version: int, latest: int
) -> None:
    """Kafka refuses that as well."""
    data = version.to_bytes(4) + latest.to_bytes(4, signed=True) + BYTES[min(version, 11)]
    with pytest.raises(ProtocolError, match=f"{latest} can't be the latest") as caught:
        decode_subscription_info(data)
    assert not isinstance(caught.value, UnknownVersionError)


def test_the_latest_known_version_has_to_be_the_written_one_or_later() -> None:
    info = dataclasses.replace(INFO, version=9, latest_supported_version=8)
    with pytest.raises(EncodeError, match="v9, field latest_supported_version: 8 can't be"):
        encode_subscription_info(info)


# Values that cannot be


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("user_endpoint", latest_version_bytes().replace(b"h:1", b"h:\xff")),
        ("client_tags[0].key", latest_version_bytes().replace(b"zone", b"zon\xff")),
        ("client_tags[0].value", latest_version_bytes().replace("é".encode(), b"\xff\xff")),
    ],
)
def test_bad_utf8_is_refused(field: str, data: bytes) -> None:
    with pytest.raises(ProtocolError, match="bad UTF-8") as caught:
        decode_subscription_info(data)
    assert (caught.value.field, caught.value.version) == (field, 11)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_endpoint", "\ud800"),
        ("client_tags", {"\ud800": ""}),
        ("client_tags", {"": "\ud800"}),
        ("unique_field", 128),
        ("error_code", 2**31),
        ("process_id", "p"),
        ("task_offset_sums", {TaskId(0, 2**31): 0}),
        ("task_offset_sums", {TaskId(0, 0): 2**63}),
        ("task_offset_sums", {TaskId(0, 0, "\ud800"): 0}),
    ],
)
def test_a_value_that_cannot_be_written_is_refused(field: str, value: Any) -> None:
    with pytest.raises(EncodeError, match=f"SubscriptionInfoData v11, field {field}"):
        encode_subscription_info(
            dataclasses.replace(INFO, **{"task_offset_sums": {}, field: value})
        )


@examples(200)
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(version: int, data: bytes) -> None:
    try:
        info = decode_subscription_info(front(version) + data)
    except ProtocolError:
        return
    assert decode_subscription_info(encode_subscription_info(info)) == info
