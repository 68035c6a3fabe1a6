"""Cuts a byte stream into frames."""

from __future__ import annotations

import struct
from typing import Final

from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.strangers import HEAD_BYTES, spoken_in

__all__ = ["FRAME_SIZE_LIMIT", "FrameReader"]

#: Kafka's default for `socket.request.max.bytes`.
FRAME_SIZE_LIMIT: Final = 104_857_600

_SIZE: Final = struct.Struct(">i")
_size_at: Final = _SIZE.unpack_from


class FrameReader:
    """Collects bytes and returns the payload of each complete frame.

    A frame over the size limit is refused as soon as its four bytes of size have arrived; nothing
    is buffered for it.  After a `ProtocolError` nothing tells where the next frame would begin, so
    every further call raises as well.
    """

    __slots__ = ("_buffer", "_refused", "limit")

    def __init__(self, limit: int = FRAME_SIZE_LIMIT) -> None:
        self._buffer = bytearray()
        #: The largest frame; may be changed at any time.
        self.limit = limit
        self._refused: ProtocolError | None = None

    @property
    def buffered(self) -> int:
        """The number of bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the payloads that they complete, in order.

        If a bad size follows good frames, this call returns those and the next one raises.
        """
        if self._refused is not None:
            raise self._refused
        if not self._buffer:
            size = len(data) - 4
            if 0 <= size <= self.limit and _size_at(data) == (size,):
                return [data[4:]]  # the common case: exactly one frame
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
            if not 0 <= size <= self.limit:
                guess = _guess(bytes(view[pos : pos + HEAD_BYTES]))
                self._refused = ProtocolError(
                    f"a size of {size} bytes, {self.limit} at most{guess}",
                    subject="frame",
                    field="size",
                )
                break
            start = pos + _SIZE.size
            if size > end - start:
                break
            pos = start + size
            # Slicing a bytearray would make another copy, of up to 100 MB.
            payloads.append(bytes(view[start:pos]))
        view.release()
        return payloads, pos


def _guess(head: bytes) -> str:
    """What else these bytes begin, if that is well known: raising the limit would not help then."""
    speech = spoken_in(head)
    return "" if speech is None else f", which is how {speech} begins"
