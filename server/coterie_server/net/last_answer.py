"""Answers that are the same object again and again are encoded once."""

from __future__ import annotations

from typing import Any, Final, final

from coterie_protocol import encode_response

__all__ = ["LastAnswer"]

#: Where an answer's frame has the number that joins it to its request, and what is around that.
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)

#: A longer answer is not remembered: each connection might hold many times as much, as objects.
_REMEMBERED_MAX_BYTES: Final = 512


@final
class LastAnswer:
    """The last answer on a connection, as an object and as bytes."""

    __slots__ = ("_before", "_behind", "_message", "_version")

    def __init__(self) -> None:
        self._message: object = None
        self._version = -1
        self._before = self._behind = b""

    def encode(self, message: Any, version: int, number: bytes) -> bytes:  # noqa: ANN401  # any response
        """The frame of an answer, with the four bytes by which the client knows it."""
        if message is self._message and version == self._version:
            return self._before + number + self._behind
        frame = encode_response(message, version, int.from_bytes(number, signed=True))
        if len(frame) <= _REMEMBERED_MAX_BYTES:
            self._message, self._version = message, version
            self._before, self._behind = frame[_BEFORE], frame[_BEHIND]
        return frame
