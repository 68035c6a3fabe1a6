"""Blocks behind user data, what members tell of themselves in one, and the keys' partitions."""

from __future__ import annotations

import struct

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from coterie_protocol.blocks import add_block, take_block
from coterie_protocol.member_data import (
    ADDRESS_BYTES_MAX,
    LABELS_MAX,
    MemberData,
    join_member_data,
    split_member_data,
)
from coterie_protocol.partitioner import murmur2, partition_of_key
from coterie_protocol.streams import join_user_data, split_user_data

KINDS = st.sampled_from([b"aBCD", b"lOAD", b"wARM", b"mEMB"])
NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
TOLD = st.builds(
    MemberData,
    st.none() | NAMES,
    st.dictionaries(NAMES, NAMES, max_size=LABELS_MAX),
    st.dictionaries(
        st.tuples(NAMES, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=9
    ),
)


# -- blocks ----------------------------------------------------------------------------------------


@given(st.binary(max_size=7), st.dictionaries(KINDS, st.binary(max_size=40)))
def test_blocks_in_a_row_are_taken_in_any_order(own: bytes, blocks: dict[bytes, bytes]) -> None:
    data: bytes | None = own
    for kind, block in blocks.items():
        data = add_block(data, kind, block)
    for kind, block in blocks.items():
        data, found = take_block(data, kind)
        assert found == block
    assert data == own


def test_block_of_an_unknown_kind_hides_none_behind_it() -> None:
    data = add_block(join_user_data(b"own", b"copies"), b"nEXT", b"of a later version")
    own, block = split_user_data(data)
    assert block == b"copies"
    assert own == add_block(b"own", b"nEXT", b"of a later version")


def test_block_that_holds_a_trailer_is_whole() -> None:
    inner = add_block(b"x", b"wARM", b"y")
    data = add_block(b"own", b"lOAD", inner)
    assert take_block(data, b"lOAD") == (b"own", inner)
    assert take_block(data, b"wARM") == (data, None)


@pytest.mark.parametrize("kind", [b"wARMS", b"WARM", b"warm", b"w\0RM", b""])
def test_kind_is_a_small_letter_and_three_capital_ones(kind: bytes) -> None:
    with pytest.raises(ValueError, match="small letter"):
        add_block(None, kind, b"")


@given(st.binary(max_size=200), KINDS, st.integers(0, 2**32 - 1))
def test_any_bytes_are_split_without_harm(data: bytes, kind: bytes, length: int) -> None:
    whole = data + struct.pack(">I", length) + kind
    rest, block = take_block(whole, kind)
    assert (rest == whole) if block is None else (len(rest or b"") + len(block) + 8 == len(whole))


# -- what a member tells of itself -----------------------------------------------------------------


@given(TOLD, st.binary(min_size=1, max_size=7))
def test_what_a_member_tells_comes_back(told: MemberData, own: bytes) -> None:
    assert split_member_data(join_member_data(own, told)) == (own, told)


def test_other_blocks_stay_where_they_were() -> None:
    others = add_block(add_block(b"own", b"wARM", b"1"), b"lOAD", b"2")
    told = MemberData("h:1")
    assert split_member_data(join_member_data(others, told)) == (others, told)
    inside = add_block(join_member_data(b"own", told), b"lOAD", b"2")
    assert split_member_data(inside) == (add_block(b"own", b"lOAD", b"2"), told)


@given(st.binary(max_size=300))
def test_any_block_is_read_without_harm(block: bytes) -> None:
    _, told = split_member_data(add_block(None, b"mEMB", b"\0\0" + block))
    assert told is None or len(told.labels) <= LABELS_MAX


def test_what_makes_no_sense_is_left_out() -> None:
    labels = {"ok": "yes", "": "no name", "line": "a\nb"}
    told = MemberData("a" * (ADDRESS_BYTES_MAX + 1), labels, {("t", 0): -5, ("t", 1): 7})
    _, read = split_member_data(join_member_data(None, told))
    assert read == MemberData(None, {"ok": "yes"}, {("t", 1): 7})


def test_too_many_labels_are_cut_off() -> None:
    told = MemberData(None, {f"label-{n:02}": "x" for n in range(LABELS_MAX + 5)})
    _, read = split_member_data(join_member_data(None, told))
    assert read is not None
    assert list(read.labels) == [f"label-{n:02}" for n in range(LABELS_MAX)]


def test_member_with_very_many_partitions_still_tells_its_address() -> None:
    told = MemberData("h:1", {}, {("a topic", number): number for number in range(20_001)})
    assert split_member_data(join_member_data(None, told))[1] == MemberData("h:1")


def test_later_version_is_read_as_far_as_it_is_known() -> None:
    data = join_member_data(None, MemberData("h:1"))
    _, block = take_block(data, b"mEMB")
    assert block is not None
    later = add_block(None, b"mEMB", b"\0\x05" + block[2:] + b"more")
    assert split_member_data(later) == (None, MemberData("h:1"))


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_javas_clients(key: bytes, expected: int) -> None:
    signed = int.from_bytes(murmur2(key).to_bytes(4, "big"), "big", signed=True)
    assert signed == expected


@given(st.binary(max_size=100))
def test_hash_is_that_of_the_python_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) == murmur2_of_aiokafka(key)


@given(st.binary(max_size=100), st.integers(1, 10_000))
def test_partition_is_one_of_the_topic(key: bytes, partitions: int) -> None:
    expected = (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions
    assert partition_of_key(key, partitions) == expected < partitions
