"""Server-sent events out of the bytes of an HTTP answer."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_client.directory.http_stream import EventStream, ServerEvent
from coterie_client.errors import UnexpectedAnswerError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PLAIN = HEAD + b"\r\n"
EVENTS = b'id: a.1\nevent: change\ndata: {"x":1}\n\n: alive\n\nid: a.2\ndata: y\ndata: z\n\n'
EXPECTED = [ServerEvent("change", "a.1", '{"x":1}'), ServerEvent("message", "a.2", "y\nz")]


def chunks(data: bytes, *sizes: int) -> bytes:
    parts, rest = [], data
    for size in sizes:
        part, rest = rest[:size], rest[size:]
        if part:
            parts.append(b"%x\r\n%s\r\n" % (len(part), part))
    if rest:
        parts.append(b"%X;of=it\r\n%s\r\n" % (len(rest), rest))
    return b"".join(parts)


@given(st.lists(st.integers(1, 30), max_size=9), st.lists(st.integers(0, 300), max_size=9))
def test_events_are_the_same_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    data = CHUNKED + chunks(EVENTS, *sizes) + b"0\r\n\r\n"
    stream, found, begin = EventStream(), [], 0
    for cut in sorted(cuts):
        found += stream.feed(data[begin:cut])
        begin = max(begin, cut)
    found += stream.feed(data[begin:])
    assert found == EXPECTED
    assert stream.is_over


def test_stream_without_chunks_goes_on_until_the_connection_ends() -> None:
    stream = EventStream()
    assert stream.feed(PLAIN + EVENTS) == EXPECTED
    assert not stream.is_over


def test_refusal_is_kept() -> None:
    stream = EventStream()
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nContent-Type: application/json\r\n\r\n"
    assert stream.feed(head + b"no") == []
    assert not stream.is_over
    stream.feed(b"ne")
    assert (stream.status, stream.refusal, stream.is_over) == (404, b"none", True)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x12kafka",
        b"SSH-2.0-OpenSSH",
        b"HTTP/1.1 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        CHUNKED + b"nonsense\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"ffffffffffff\r\n",
        CHUNKED + b"1" * 2000,
    ],
)
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(UnexpectedAnswerError):
        EventStream().feed(data)


@given(st.binary(max_size=300))
def test_any_bytes_do_no_harm(data: bytes) -> None:
    stream = EventStream()
    with contextlib.suppress(UnexpectedAnswerError):
        stream.feed(CHUNKED + data)
