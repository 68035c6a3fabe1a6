"""A block behind an assignor's own user data, where members that don't know of it do not look.

An assignor reads its user data from the front and ignores surplus bytes, as Kafka's do.  So its own
data comes first and unchanged, then the block, and then a trailer by which the block is found from
the end: its length, and four characters that say what it is.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["join_user_data", "split_user_data"]

_TRAILER: Final = struct.Struct(">I4s")
_MAGIC: Final = b"wARM"


def join_user_data(own: bytes | None, block: bytes) -> bytes:
    """Put a block behind an assignor's own user data, which may be missing."""
    return b"".join((own or b"", block, _TRAILER.pack(len(block), _MAGIC)))


def split_user_data(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    """The assignor's own user data and the block; None for whichever is missing.

    Own data that was empty comes back as None.
    """
    if data is None or len(data) < _TRAILER.size:
        return data, None
    length, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    start = len(data) - _TRAILER.size - length
    if magic != _MAGIC or start < 0:
        return data, None
    return data[:start] or None, data[start : start + length]
