"""Blocks behind an assignor's own user data, where members that don't know of them do not look.

An assignor reads its user data from the front and ignores surplus bytes, as Kafka's do.  So its own
data comes first and unchanged, then the blocks in a row.  A trailer ends each of them, by which it
is found from the end: the block's length, and four characters that say of what kind it is, the
first of them small and the others capital.  So a reader passes over kinds that it does not know.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["add_block", "split_blocks"]

_TRAILER: Final = struct.Struct(">I4s")
#: More than there are kinds; what other members send must not take long to read.
_BLOCKS_MAX: Final = 16
_KIND_BYTES: Final = 4


def add_block(data: bytes | None, kind: bytes, block: bytes) -> bytes:
    """Put a block behind user data, which may be missing and may have blocks already."""
    if not _is_kind(kind):
        raise ValueError(f"{kind!r} must be a small letter and three capital ones")
    return b"".join((data or b"", block, _TRAILER.pack(len(block), kind)))


def split_blocks(data: bytes | None) -> tuple[bytes | None, dict[bytes, bytes]]:
    """The assignor's own user data, and the blocks by kind; of two of one kind, the last.

    Own data that was empty comes back as None if there are blocks.
    """
    found: dict[bytes, bytes] = {}
    if data is None:
        return None, found
    end = len(data)
    for _ in range(_BLOCKS_MAX):
        start = end - _TRAILER.size
        if start < 0:
            break
        length, kind = _TRAILER.unpack_from(data, start)
        if not _is_kind(kind) or length > start:
            break
        found.setdefault(kind, data[start - length : start])
        end = start - length
    return (data[:end] or None) if found else data, found


def _is_kind(kind: bytes) -> bool:
    first, rest = kind[:1], kind[1:]
    return len(kind) == _KIND_BYTES and kind.isalpha() and first.islower() and rest.isupper()
