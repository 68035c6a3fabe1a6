"""Cutting a byte stream into frames, whatever pieces it arrives in."""

from __future__ import annotations

import struct
from typing import Final

from coterie_protocol.exceptions import ProtocolError

__all__ = ["FRAME_SIZE_LIMIT", "FrameReader"]

#: Kafka's default for `socket.request.max.bytes`.
FRAME_SIZE_LIMIT: Final = 104_857_600

_SIZE: Final = struct.Struct(">i")
_size_at: Final = _SIZE.unpack_from


class FrameReader:
    """Collects bytes and gives back the payload of each complete frame.

    Nothing is buffered for a frame whose announced size is over the limit: it is refused as soon
    as its four bytes are there.  After a `ProtocolError` the stream has lost its rhythm, so every
    further call raises as well.
    """

    __slots__ = ("_buffer", "_limit", "_refused")

    def __init__(self, limit: int = FRAME_SIZE_LIMIT) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._refused: ProtocolError | None = None

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; answer the payloads that they complete, in order.

        If a bad size follows good frames, those are answered first and the next call raises.
        """
        if self._refused is not None:
            raise self._refused
        if not self._buffer:
            size = len(data) - 4
            if 0 <= size <= self._limit and _size_at(data) == (size,):
                return [data[4:]]  # one frame in one piece, as nearly always
            payloads, rest = self._cut(data)
            if rest < len(data):
                self._buffer += data[rest:] if rest else data
        else:
            self._buffer += data
            payloads, rest = self._cut(self._buffer)
            del self._buffer[:rest]
        if self._refused is not None:
            self._buffer.clear()
            if not payloads:
                raise self._refused
        return payloads

    def _cut(self, data: bytes | bytearray) -> tuple[list[bytes], int]:
        payloads = []
        pos, end = 0, len(data)
        view = memoryview(data)
        while end - pos >= _SIZE.size:
            (size,) = _size_at(data, pos)
            if not 0 <= size <= self._limit:
                self._refused = ProtocolError(
                    f"a size of {size} bytes, {self._limit} at most", subject="frame", field="size"
                )
                break
            start = pos + _SIZE.size
            if size > end - start:
                break
            pos = start + size
            # A slice of a bytearray would be a copy of its own, of as much as 100 MB.
            payloads.append(bytes(view[start:pos]))
        view.release()
        return payloads, pos
