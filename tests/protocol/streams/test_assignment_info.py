"""What a leader tells a member with state, byte by byte, in each of Kafka's versions."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import EncodeError, ProtocolError
from coterie_protocol.streams import (
    NO_REBALANCE,
    UNKNOWN_VERSION,
    AssignmentInfo,
    HostInfo,
    TaskId,
    UnknownVersionError,
    decode_assignment_info,
    encode_assignment_info,
)
from tests.support.profiles import examples
from tests.support.streams_infos import VERSIONS, assignment_infos, oldest_and_newest

HOST, OTHER_HOST = HostInfo("h", 8080), HostInfo("é", 1)

INFO = AssignmentInfo(
    active_tasks=(TaskId(0, 1), TaskId(0, 1)),
    standby_tasks={TaskId(2, 3): (("logs", 3), ("x", 3))},
    partitions_by_host={HOST: (("logs", 3), ("x", 1)), OTHER_HOST: (("logs", 0),)},
    standby_partitions_by_host={HOST: (("y", 2),)},
    error_code=4,
    next_rebalance_ms=600_000,
    commonly_supported_version=10,
)
NAMED: dict[str, Any] = {
    "active_tasks": (TaskId(0, 1, "oé"), TaskId(0, 2)),
    "standby_tasks": {TaskId(2, 3, "😀"): (("logs", 3), ("x", 3))},
}

LOGS = bytes.fromhex("0004 6c6f6773")
STANDBY_PARTITIONS = bytes.fromhex("00000002") + (
    LOGS + bytes.fromhex("00000003") + bytes.fromhex("0001 78 00000003")
)
TASKS = (
    bytes.fromhex("00000002 00000000 00000001 00000000 00000001")  # 0_1, twice
    + bytes.fromhex("00000001 00000002 00000003")  # 2_3
    + STANDBY_PARTITIONS
)
NAMED_TASKS = (
    bytes.fromhex(
        "00000002"
        "00000000 00000001 00000002 006f00e9"  # oé__0_1: two units of UTF-16
        "00000000 00000002 00000000"  # 0_2 of no topology
    )
    + bytes.fromhex("00000001 00000002 00000003 00000002 d83dde00")  # a surrogate pair
    + STANDBY_PARTITIONS
)
HOST_BYTES = bytes.fromhex("0001 68 00001f90")
OTHER_HOST_BYTES = bytes.fromhex("0002 c3a9 00000001")
HOSTS = (
    bytes.fromhex("00000002")
    + (HOST_BYTES + bytes.fromhex("00000002") + LOGS + bytes.fromhex("00000003 0001 78 00000001"))
    + (OTHER_HOST_BYTES + bytes.fromhex("00000001") + LOGS + bytes.fromhex("00000000"))
)
NUMBERED_HOSTS = (
    bytes.fromhex("00000002")
    + (HOST_BYTES + bytes.fromhex("00000002 00000000 00000003 00000001 00000001"))
    + (OTHER_HOST_BYTES + bytes.fromhex("00000001 00000000 00000000"))
)
TWO_TOPICS = bytes.fromhex("00000002 00000000") + LOGS + bytes.fromhex("00000001 0001 78")
THREE_TOPICS = b"\0\0\0\3" + TWO_TOPICS[4:] + bytes.fromhex("00000002 0001 79")
STANDBY_HOSTS = bytes.fromhex("00000001") + (
    HOST_BYTES + bytes.fromhex("00000001 00000002 00000002")
)
ERROR = bytes.fromhex("00000004")
NEXT = bytes.fromhex("00000000000927c0")


def front(version: int) -> bytes:
    """A version and, where it is said, 10 as the latest that all members know."""
    return version.to_bytes(4) + (bytes.fromhex("0000000a") if version >= 3 else b"")


SINCE_6 = THREE_TOPICS + NUMBERED_HOSTS + STANDBY_HOSTS + ERROR
BYTES = {
    1: TASKS,
    2: TASKS + HOSTS,
    3: TASKS + HOSTS,
    4: TASKS + HOSTS + ERROR,
    5: TASKS + TWO_TOPICS + NUMBERED_HOSTS + ERROR,
    6: TASKS + SINCE_6,
    **dict.fromkeys((7, 8, 9), TASKS + SINCE_6 + NEXT),
    **dict.fromkeys((10, 11), NAMED_TASKS + SINCE_6 + NEXT),
}
each_version = pytest.mark.parametrize("version", VERSIONS)


def info_of(version: int, **changes: Any) -> AssignmentInfo:
    """What the example says if it is to be written in a version."""
    named = NAMED if version >= 10 else {}
    return dataclasses.replace(INFO, **{"version": version, **named, **changes})


def carried(version: int) -> AssignmentInfo:
    """What a version carries of the example."""
    dropped: dict[str, Any] = {}
    if version < 2:
        dropped["partitions_by_host"] = {}
    if version < 3:
        dropped["commonly_supported_version"] = UNKNOWN_VERSION
    if version < 4:
        dropped["error_code"] = 0
    if version < 6:
        dropped["standby_partitions_by_host"] = {}
    if version < 7:
        dropped["next_rebalance_ms"] = NO_REBALANCE
    return info_of(version, **dropped)


@each_version
def test_byte_by_byte(version: int) -> None:
    written = front(version) + BYTES[version]
    assert encode_assignment_info(info_of(version)) == written
    assert decode_assignment_info(written) == carried(version)


@each_version
def test_an_assignment_of_nothing(version: int) -> None:
    """What Kafka's leaders gave to members whose version was too new."""
    written = front(version) + bytes(8)
    written += bytes({1: 0, 2: 4, 3: 4, 4: 8, 5: 12, 6: 16}.get(version, 16))
    written += NO_REBALANCE.to_bytes(8) if version >= 7 else b""
    nothing = AssignmentInfo(version=version, commonly_supported_version=10)
    assert encode_assignment_info(nothing) == written
    assert decode_assignment_info(written) == dataclasses.replace(
        nothing, commonly_supported_version=10 if version >= 3 else UNKNOWN_VERSION
    )


@oldest_and_newest
def test_what_a_version_carries_comes_back(version: int) -> None:
    @examples(60)
    @given(assignment_infos(version) | assignment_infos(version, own=True))
    def check(info: AssignmentInfo) -> None:
        written = encode_assignment_info(info)
        assert decode_assignment_info(written) == info
        assert encode_assignment_info(decode_assignment_info(written)) == written

    check()


@each_version
@pytest.mark.parametrize("behind", [b"m", b"\0\0", b"\0\0\1", b"\0\1\1\1\0", b"\0\0\1\1\0more"])
def test_foreign_bytes_behind_an_assignment_are_passed_over(version: int, behind: bytes) -> None:
    written = front(version) + BYTES[version] + behind
    assert decode_assignment_info(written) == carried(version)


@each_version
def test_an_assignment_that_is_cut_off_is_refused(version: int) -> None:
    written = front(version) + BYTES[version]
    for size in range(len(written)):
        with pytest.raises(ProtocolError, match="AssignmentInfoData"):
            decode_assignment_info(written[:size])


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.parametrize("field", ["active_tasks", "standby_tasks"])
def test_names_of_topologies_are_refused_where_they_would_be_lost(version: int, field: str) -> None:
    with pytest.raises(EncodeError, match=f"v{version}, field {field}") as caught:
        encode_assignment_info(info_of(version, **{field: NAMED[field]}))
    assert "has no place in this version" in caught.value.reason


def test_version_5_has_no_topics_of_standbys_only() -> None:
    """So the numbers are those that Kafka gives."""
    written = encode_assignment_info(info_of(5, partitions_by_host={}))
    assert written == front(5) + TASKS + bytes(8) + ERROR


# Versions that are not known


@pytest.mark.parametrize("version", [0, -1, 12])
def test_a_version_that_is_none_cannot_be_written(version: int) -> None:
    with pytest.raises(EncodeError, match="no such version"):
        encode_assignment_info(info_of(version))


@pytest.mark.parametrize("version", [0, -1, -(2**31)])
def test_a_version_that_is_none_is_refused(version: int) -> None:
    data = version.to_bytes(4, signed=True) + BYTES[11]
    with pytest.raises(ProtocolError, match=f"field version, offset 0: version {version}$"):
        decode_assignment_info(data)


def test_of_a_newer_version_its_two_numbers_are_known() -> None:
    with pytest.raises(UnknownVersionError, match="AssignmentInfoData v12") as caught:
        decode_assignment_info(bytes.fromhex("0000000c 0000000d") + b"whatever")
    assert (caught.value.version, caught.value.latest_supported) == (12, 13)


def test_a_reader_may_know_fewer_versions() -> None:
    assert decode_assignment_info(front(9) + BYTES[9], latest=9) == carried(9)
    with pytest.raises(UnknownVersionError):
        decode_assignment_info(front(10) + BYTES[10], latest=9)


# Numbers of topics


def test_a_number_without_a_topic_is_refused() -> None:
    data = (front(6) + BYTES[6]).replace(
        STANDBY_HOSTS, STANDBY_HOSTS.replace(b"\0\0\0\2\0\0\0\2", b"\0\0\0\3\0\0\0\2")
    )
    with pytest.raises(ProtocolError, match=r"field standby_hosts, .*: no topic has the number 3"):
        decode_assignment_info(data)


def test_topics_may_come_in_any_order_of_their_numbers() -> None:
    """Kafka writes them as they lie in its hash map."""
    turned = b"\0\0\0\2" + bytes.fromhex("00000001 0001 78 00000000") + LOGS
    data = (front(5) + BYTES[5]).replace(TWO_TOPICS, turned)
    assert data != front(5) + BYTES[5]
    assert decode_assignment_info(data) == carried(5)


# Coterie's own fields

WARMING = dataclasses.replace(
    AssignmentInfo(),
    standby_tasks={TaskId(0, 1, "a"): (), TaskId(0, 2, "a"): ()},
    warmups=frozenset({TaskId(0, 2, "a")}),
    targets={TaskId(0, 3, "a"): "m", TaskId(4, 5): "n"},
)
WARMING_BYTES = bytes.fromhex(
    "0000"  # version 0 of what Coterie writes
    "02 00000000 00000002 02 61 00"  # one warm-up: a__0_2
    "03 00000000 00000003 02 61 00 02 6d 00"  # a__0_3 is to go to m
    "00000004 00000005 00 00 02 6e 00"  # 4_5 is to go to n
    "00"
)


def test_warmups_and_targets_are_written_behind_the_assignment() -> None:
    """Kafka's members do not look there."""
    plain = dataclasses.replace(WARMING, warmups=frozenset(), targets={})
    written = encode_assignment_info(WARMING)
    assert written == encode_assignment_info(plain) + WARMING_BYTES
    assert decode_assignment_info(written) == WARMING


def test_a_later_kind_of_own_fields_is_passed_over() -> None:
    written = encode_assignment_info(WARMING).removesuffix(WARMING_BYTES)
    later = decode_assignment_info(written + b"\0\1" + WARMING_BYTES[2:])
    assert (later.warmups, later.targets) == (frozenset(), {})


def test_own_fields_may_get_more_of_them() -> None:
    """A tag that is unknown today."""
    more = WARMING_BYTES[:-1] + b"\1\7\2ab"
    written = encode_assignment_info(WARMING).removesuffix(WARMING_BYTES) + more
    assert decode_assignment_info(written) == WARMING


def test_a_warmup_has_to_be_a_standby() -> None:
    wrong = dataclasses.replace(WARMING, standby_tasks={TaskId(0, 1, "a"): ()})
    with pytest.raises(EncodeError, match="v11, field warmups"):
        encode_assignment_info(wrong)


def test_own_fields_that_contradict_the_assignment_are_passed_over() -> None:
    plain = dataclasses.replace(WARMING, standby_tasks={}, warmups=frozenset(), targets={})
    assert decode_assignment_info(encode_assignment_info(plain) + WARMING_BYTES) == plain


# Values that cannot be


@pytest.mark.parametrize("name", ["a\0b", "a😀"])
@pytest.mark.parametrize("version", [4, 11])
def test_names_that_java_writes_in_another_way_are_refused(name: str, version: int) -> None:
    """Neither topics nor hosts have such characters."""
    pairs = ((name, 1),)
    topics, hosts = ("topics", "numbered_hosts") if version >= 5 else ("hosts", "hosts")
    for field, changes in (
        ("standby_tasks", {"standby_tasks": {TaskId(0, 1): pairs}}),
        (topics, {"partitions_by_host": {HOST: pairs}}),
        (hosts, {"partitions_by_host": {HostInfo(name, 1): ()}}),
    ):
        info = AssignmentInfo(version=version, **changes)
        with pytest.raises(EncodeError, match=f"v{version}, field {field}: .* Java"):
            encode_assignment_info(info)
    standby = AssignmentInfo(standby_partitions_by_host={HostInfo(name, 1): ()})
    with pytest.raises(EncodeError, match=r"v11, field standby_hosts: .* Java"):
        encode_assignment_info(standby)


def test_names_that_java_would_not_have_written_are_refused() -> None:
    data = (front(6) + BYTES[6]).replace(LOGS, b"\0\4\xf0\x9f\x98\x80")
    with pytest.raises(ProtocolError, match=r"field standby_tasks, .* Java"):
        decode_assignment_info(data)


def test_half_a_surrogate_pair_is_refused() -> None:
    data = (front(11) + BYTES[11]).replace(bytes.fromhex("d83dde00"), bytes.fromhex("d83d0041"))
    with pytest.raises(ProtocolError, match="field standby_tasks, offset 0: bad UTF-16"):
        decode_assignment_info(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("active_tasks", (TaskId(0, 2**31),)),
        ("active_tasks", (TaskId(0, 0, "\ud800"),)),
        ("standby_tasks", {TaskId(0, 0, "\ud800"): ()}),
        ("standby_tasks", {TaskId(0, 0): (("a", 2**31),)}),
        ("standby_tasks", {TaskId(0, 0): (("\ud800", 0),)}),
        ("numbered_hosts", {HostInfo("h", 2**31): ()}),
        ("error_code", 2**31),
        ("next_rebalance_ms", 2**63),
        ("commonly_supported_version", 2**31),
    ],
)
def test_a_value_that_cannot_be_written_is_refused(field: str, value: Any) -> None:
    name = {"numbered_hosts": "partitions_by_host"}.get(field, field)
    with pytest.raises(EncodeError, match=f"AssignmentInfoData v11, field {field}"):
        encode_assignment_info(AssignmentInfo(**{name: value}))


def test_a_long_name_of_many_partitions_is_looked_at_once() -> None:
    """It is written once; the bytes for each partition are few."""
    name = "é" * 16_000
    pairs = tuple((name, number) for number in range(20_000))
    written = encode_assignment_info(AssignmentInfo(partitions_by_host={HOST: pairs}))
    before = time.process_time()
    assert decode_assignment_info(written).partitions_by_host == {HOST: pairs}
    # A few hundredths of a second, or many seconds.
    assert time.process_time() - before < 2


@examples(200)
@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(version: int, data: bytes) -> None:
    try:
        info = decode_assignment_info(front(version) + data)
    except ProtocolError:
        return
    assert decode_assignment_info(encode_assignment_info(info)) == info
