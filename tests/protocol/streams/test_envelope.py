"""The block behind an assignor's own user data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.consumer import CooperativeStickyData, decode_cooperative_sticky_data
from coterie_protocol.streams import join_user_data, split_user_data

TRAILER = bytes.fromhex("00000003") + b"wARM"


def test_the_block_comes_between_own_data_and_trailer() -> None:
    joined = join_user_data(b"\0\0\0\5", b"abc")
    assert joined == b"\0\0\0\5" + b"abc" + TRAILER
    assert split_user_data(joined) == (b"\0\0\0\5", b"abc")


@pytest.mark.parametrize("own", [None, b""])
def test_a_block_without_own_data(own: bytes | None) -> None:
    assert join_user_data(own, b"abc") == b"abc" + TRAILER
    assert split_user_data(b"abc" + TRAILER) == (None, b"abc")


def test_the_own_assignor_reads_its_data_as_if_there_were_no_block() -> None:
    joined = join_user_data(b"\0\0\0\5", b"abc")
    assert decode_cooperative_sticky_data(joined) == CooperativeStickyData(generation=5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\5",
        b"wARM",
        b"\0\0\0wARM",  # half a trailer
        b"abc\0\0\0\4wARM",  # a block that begins before the data
        b"abc\xff\xff\xff\xffwARM",
        b"abc\0\0\0\3WARM",
        b"abc\0\0\0\3wARM\0",
    ],
)
def test_data_without_a_trailer_is_the_assignors_own(data: bytes) -> None:
    assert split_user_data(data) == (data, None)


def test_no_data_is_nothing() -> None:
    assert split_user_data(None) == (None, None)


@given(st.none() | st.binary(min_size=1), st.binary())
def test_what_was_joined_is_split_again(own: bytes | None, block: bytes) -> None:
    assert split_user_data(join_user_data(own, block)) == (own, block)


@given(st.binary())
def test_all_bytes_can_be_split(data: bytes) -> None:
    own, block = split_user_data(data)
    if block is not None:
        assert join_user_data(own, block) == data
