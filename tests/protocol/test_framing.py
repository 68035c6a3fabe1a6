"""Frames come out whole, whatever pieces they arrive in; bad sizes end the stream."""

from __future__ import annotations

import struct
import sys
import tracemalloc
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import FRAME_SIZE_LIMIT, FrameReader, ProtocolError
from tests.support.alone import run_alone


def frame(payload: bytes) -> bytes:
    """A payload, preceded by its size."""
    return struct.pack(">i", len(payload)) + payload


def size_of(number: int) -> bytes:
    """The first four bytes of a frame."""
    return struct.pack(">i", number)


@st.composite
def streams(draw: Any) -> tuple[list[bytes], list[bytes]]:
    """Some payloads, and the stream of their frames, cut anywhere."""
    payloads: list[bytes] = draw(st.lists(st.binary(max_size=30), max_size=8))
    stream = b"".join(frame(payload) for payload in payloads)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[start:stop] for start, stop in pairwise([0, *cuts, len(stream)])]
    return payloads, pieces


# Good frames


@given(streams())
def test_frames_come_out_however_they_came_in(stream: tuple[list[bytes], list[bytes]]) -> None:
    payloads, pieces = stream
    reader = FrameReader()
    assert [payload for piece in pieces for payload in reader.feed(piece)] == payloads
    assert reader.buffered == 0


@given(streams())
def test_frame_comes_out_with_its_last_byte(stream: tuple[list[bytes], list[bytes]]) -> None:
    reader = FrameReader()
    fed = delivered = 0
    for piece in stream[1]:
        payloads = reader.feed(piece)
        fed += len(piece)
        delivered += sum(4 + len(payload) for payload in payloads)
        assert reader.buffered == fed - delivered


def test_payloads_are_bytes() -> None:
    """So they can be kept and hashed, also those that waited in the buffer."""
    reader = FrameReader()
    (direct,) = reader.feed(frame(b"direct"))
    reader.feed(frame(b"in two")[:5])
    (buffered,) = reader.feed(frame(b"in two")[5:])
    assert (type(direct), type(buffered)) == (bytes, bytes)


def test_empty_frame_is_a_frame() -> None:
    assert FrameReader().feed(frame(b"") * 2) == [b"", b""]


def test_nothing_fed_gives_nothing() -> None:
    reader = FrameReader()
    assert reader.feed(b"") == []
    assert reader.feed(frame(b"abc")[:5]) == []
    assert reader.feed(b"") == []
    assert reader.feed(frame(b"abc")[5:]) == [b"abc"]


@pytest.mark.parametrize("rest", [0, 1])
def test_frame_may_have_the_limits_size(rest: int) -> None:
    payload = bytes(100)
    reader = FrameReader(limit=100)
    pieces = [frame(payload)[: 104 - rest], frame(payload)[104 - rest :]]
    assert [found for piece in pieces for found in reader.feed(piece)] == [payload]


def test_default_limit_is_kafkas() -> None:
    assert FRAME_SIZE_LIMIT == 100 * 1024 * 1024
    assert FrameReader().feed(size_of(FRAME_SIZE_LIMIT)) == []
    with pytest.raises(ProtocolError):
        FrameReader().feed(size_of(FRAME_SIZE_LIMIT + 1))


# Bad sizes

BAD_SIZES = [101, 2**31 - 1, -1, -(2**31)]
bad_size = pytest.mark.parametrize("size", BAD_SIZES)


@bad_size
def test_bad_size_is_refused_with_its_fourth_byte(size: int) -> None:
    reader = FrameReader(limit=100)
    assert reader.feed(size_of(size)[:3]) == []
    with pytest.raises(ProtocolError) as caught:
        reader.feed(size_of(size)[3:])
    assert str(caught.value) == (
        f"frame, field size, offset 0: a size of {size} bytes, 100 at most"
    )


@pytest.mark.parametrize(
    ("head", "speech"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST / HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
    ],
)
def test_size_that_begins_another_protocol_is_told_as_that(head: bytes, speech: str) -> None:
    with pytest.raises(ProtocolError, match=f"at most, which is how {speech} begins$"):
        FrameReader().feed(head)


@bad_size
def test_nothing_is_buffered_for_a_bad_size(size: int) -> None:
    reader = FrameReader(limit=100)
    for _ in range(3):
        with pytest.raises(ProtocolError):
            reader.feed(size_of(size) + bytes(1000))
        assert reader.buffered == 0


@bad_size
def test_stream_stays_refused(size: int) -> None:
    """Nothing tells where the next frame would begin."""
    reader = FrameReader(limit=100)
    errors = []
    for data in (size_of(size), frame(b"good"), b""):
        with pytest.raises(ProtocolError) as caught:
            reader.feed(data)
        errors.append(str(caught.value))
    assert len(set(errors)) == 1


@bad_size
@pytest.mark.parametrize("cut", [0, 1, 7, 9, 12])
def test_good_frames_before_a_bad_size_are_delivered(size: int, cut: int) -> None:
    stream = frame(b"abc") + frame(b"de") + size_of(size) + b"rest"
    reader = FrameReader(limit=100)
    delivered = reader.feed(stream[:cut]) + reader.feed(stream[cut:])
    assert delivered == [b"abc", b"de"]
    assert reader.buffered == 0
    with pytest.raises(ProtocolError):
        reader.feed(b"")


# Time


def lines_of(reader: FrameReader, pieces: list[bytes]) -> int:
    """The number of lines of Python that are executed for feeding these pieces."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for piece in pieces:
            reader.feed(piece)
    finally:
        sys.settrace(before)
    return count


def test_byte_at_a_time_is_linear() -> None:
    stream = frame(bytes(4000))
    pieces = [stream[at : at + 1] for at in range(len(stream))]
    reader = FrameReader()
    lines_of(reader, pieces[:10])  # until the size is there, which takes another way
    first = lines_of(reader, pieces[10:500])
    lines_of(reader, pieces[500:3510])
    last = lines_of(reader, pieces[3510:4000])
    assert last == first
    assert reader.buffered == 4000


def copies_while_waiting() -> int:
    """How often a byte more makes room for all that waits, of two hundred behind a million."""
    reader = FrameReader()
    reader.feed(size_of(2_000_000) + bytes(1_000_000))
    copies = 0
    tracemalloc.start()
    for _ in range(200):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        reader.feed(b"x")
        copies += tracemalloc.get_traced_memory()[1] - before > 10_000
    assert reader.buffered == 1_000_204
    return copies


def test_waiting_bytes_are_not_copied() -> None:
    assert run_alone(copies_while_waiting) <= 1


def test_many_small_frames_at_once_are_linear() -> None:
    few = lines_of(FrameReader(), [frame(b"x") * 100])
    many = lines_of(FrameReader(), [frame(b"x") * 1000])
    assert many <= 10 * few


def peak_of_the_last_piece(size: int) -> int:
    """What is allocated at most when a frame's last byte comes."""
    payload = bytes(size)
    reader = FrameReader()
    reader.feed(frame(payload)[:-1])
    tracemalloc.start()
    (found,) = reader.feed(payload[-1:])
    _, peak_bytes = tracemalloc.get_traced_memory()
    assert found == payload
    return peak_bytes


def test_a_large_frame_in_pieces_is_copied_once() -> None:
    """There are the buffer and the payload, and no third copy.

    The buffer has an eighth to spare, and its last piece may have moved it.
    """
    assert run_alone(peak_of_the_last_piece, 4_000_000) < 2.5 * 4_000_000
