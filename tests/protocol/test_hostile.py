"""What bad bytes can do: make a decoder raise ProtocolError, at a cost in line with their number.

`make fuzz` hunts for more of them, for longer, and guided by coverage.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import (
    FrameReader,
    ProtocolError,
    UnsupportedRequest,
    correlation_id_of,
    decode_request,
    decode_request_header,
)
from coterie_protocol.schema import declaration_of
from tests.support.alone import run_alone
from tests.support.cases import for_each
from tests.support.hostile import TARGETS, Target, crowds, liars, mutated, tag_floods
from tests.support.profiles import examples

# Memory for each byte of input, at most.  The worst that is legitimate takes 35: a topic in a
# Metadata request whose name is one character of two bytes.  Its 4 bytes become an object of 48, a
# string of 76, and 16 for its place in a list and in the tuple made from that.
MEMORY_PER_BYTE = 40
# For an error with its text, its traceback and the local variables of the frame that raised.
MEMORY_AT_LEAST = 8 * 1024

# Lines of Python for each byte of input, at most.  The worst takes 16: an unknown tagged field
# without content, 2 bytes.  The worst but for tagged fields takes 9: an empty string in a compact
# array of strings, a single byte.
LINES_PER_BYTE = 20
# For the fields that a message has once, and for explaining what is wrong.
LINES_AT_LEAST = 300

# Subscriptions and assignments that cannot be read are tried as up to three older versions, one
# after another, while the first failure is still at hand.
TRIES_IN_TIME = 4
TRIES_IN_MEMORY = 2

Read = Callable[[bytes], object]

by_class: dict[str, list[Target]] = {}
for each in TARGETS:
    by_class.setdefault(f"{each.kind}-{each.cls.__name__}", []).append(each)
every_class = pytest.mark.parametrize("targets", list(by_class.values()), ids=list(by_class))

some = examples(25)


# Nothing but ProtocolError

HEADERS_AND_FRAMES = {"request header", "response header", "frame"}
SUBJECTS = HEADERS_AND_FRAMES | {declaration_of(target.cls).subject for target in TARGETS}


def assert_harmless(read: Read, data: bytes) -> None:
    """The bytes are read, or refused by an error that says of what and where."""
    error: ProtocolError | None = None
    try:
        read(data)
    except UnsupportedRequest:
        decode_request_header(data)  # is in order
    except ProtocolError as raised:
        error = raised
    if error is not None:
        assert error.subject in SUBJECTS
        assert 0 <= error.offset <= len(data)
        assert error.field or error.reason == "cut off" or error.reason.endswith("left over")
        if error.subject not in HEADERS_AND_FRAMES and error.field != "version":
            assert error.version is not None


@every_class
def test_mutated_bytes_are_read_or_refused(targets: list[Target]) -> None:
    """Flipped, cut, spliced, with wild lengths."""

    def meddled(target: Target) -> st.SearchStrategy[tuple[Target, bytes]]:
        valid = [target.sample, *crowds(target, 3, "é")]
        return st.tuples(st.just(target), mutated(st.sampled_from(valid)))

    @some
    @given(st.one_of([meddled(target) for target in targets]))
    def check(case: tuple[Target, bytes]) -> None:
        target, data = case
        assert_harmless(target.read, data)

    check()


@every_class
def test_random_bytes_are_read_or_refused(targets: list[Target]) -> None:
    """They follow a valid header or version, or few would get past that."""

    @some
    @given(st.sampled_from(targets), st.binary(max_size=60))
    def check(target: Target, data: bytes) -> None:
        before = {
            "request": target.sample[:4] + struct.pack(">ih", 7, -1),
            "response": struct.pack(">i", 7),
            "embedded": struct.pack(">h", target.version),
            "nested": target.sample[:8],
        }
        assert_harmless(target.read, before.get(target.kind, b"") + data)

    check()


@examples(150)
@given(st.binary(max_size=100))
def test_random_payloads_are_read_or_refused(data: bytes) -> None:
    """Here even the header is random."""
    for read in (decode_request, decode_request_header, correlation_id_of):
        assert_harmless(read, data)


@examples(150)
@given(st.lists(st.binary(max_size=20)), st.integers(0, 100))
def test_random_streams_are_cut_or_refused(pieces: list[bytes], limit: int) -> None:
    reader = FrameReader(limit)
    for piece in pieces:
        assert_harmless(reader.feed, piece)


# Memory and time


def attempt(read: Read, data: bytes) -> None:
    """Let a decoder make of some bytes what it can."""
    with contextlib.suppress(ProtocolError):
        read(data)


def memory_of(read: Read, data: bytes) -> int:
    """How many bytes more than before were in use at the peak of reading."""
    tracemalloc.start()
    try:
        attempt(read, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak


def lines_of(read: Read, data: bytes) -> int:
    """How many lines of Python, generated ones and calls included, were executed for reading."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        attempt(read, data)
    finally:
        sys.settrace(before)
    return count


def corners(targets: Iterable[Target]) -> Iterator[Target]:
    """The versions in which it shows what is costly: first, last, and the first flexible one."""
    for target in targets:
        declared = declaration_of(target.cls)
        if target.version in (
            declared.versions.first,
            declared.versions.last,
            declared.flexible.first,
        ):
            yield target


def memory_out_of_line(inputs: Callable[[Target], Iterable[bytes]]) -> list[str]:
    """The inputs whose reading needs more than a bounded multiple of their size."""
    found = []
    for target in corners(TARGETS):
        attempt(target.read, target.sample)  # compiles the format
        tries = TRIES_IN_MEMORY if target.kind == "embedded" else 1
        for data in inputs(target):
            attempt(target.read, data)  # and any that only this input leads to
            used = memory_of(target.read, data)
            if used > tries * MEMORY_PER_BYTE * len(data) + MEMORY_AT_LEAST:
                found.append(f"{target}: {used} bytes for {len(data)}: {data[:200]!r}")
    return found


def assert_time_in_line(
    targets: Iterable[Target], inputs: Callable[[Target], Iterable[bytes]]
) -> None:
    """Reading each of the inputs executes a bounded number of lines for each of its bytes."""
    for target in corners(targets):
        attempt(target.read, target.sample)
        tries = TRIES_IN_TIME if target.kind == "embedded" else 1
        for data in inputs(target):
            lines = lines_of(target.read, data)
            allowed = tries * (LINES_PER_BYTE * len(data) + LINES_AT_LEAST)
            assert lines <= allowed, f"{target}: {data[:200]!r}"


def crowds_of_all_sorts(target: Target) -> Iterator[bytes]:
    """Arrays of hundreds of the smallest elements, and of some that hold the smallest strings.

    The latter lack their last byte: nearly everything has been read when that turns out.
    """
    yield from crowds(target, 200, "")
    for data in crowds(target, 200, "Ā"):
        yield data[:-1]


@pytest.mark.slow
def test_large_arrays_take_memory_in_proportion_to_their_bytes() -> None:
    assert run_alone(memory_out_of_line, crowds_of_all_sorts) == []


@pytest.mark.slow
def test_false_lengths_reserve_no_memory() -> None:
    assert run_alone(memory_out_of_line, liars) == []


@for_each("targets", by_class.values())
def test_large_arrays_take_time_in_proportion_to_their_bytes(targets: list[Target]) -> None:
    assert_time_in_line(targets, crowds_of_all_sorts)


@for_each("targets", by_class.values())
def test_false_lengths_start_no_long_loops(targets: list[Target]) -> None:
    assert_time_in_line(targets, liars)


@for_each("targets", by_class.values())
def test_many_tagged_fields_take_time_in_proportion(targets: list[Target]) -> None:
    assert_time_in_line(targets, tag_floods)
