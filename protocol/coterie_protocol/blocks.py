"""Blocks behind an assignor's own user data, where members that don't know of them do not look.

An assignor reads its user data from the front and ignores surplus bytes, as Kafka's do.  So its own
data comes first and unchanged, then the blocks in a row.  A trailer ends each of them, by which it
is found from the end: the block's length, and four characters that say of what kind it is, the
first of them small and the others capital.  So a reader passes over kinds that it does not know.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["add_block", "take_block"]

_TRAILER: Final = struct.Struct(">I4s")
_KIND_BYTES: Final = 4
#: More than there are kinds; what other members send must not take long to read.
_BLOCKS_MAX: Final = 16


def add_block(data: bytes | None, kind: bytes, block: bytes) -> bytes:
    """Put a block behind user data, which may be missing and may have blocks already."""
    if not _is_kind(kind):
        raise ValueError(f"{kind!r} must be a small letter and three capital ones")
    return b"".join((data or b"", block, _TRAILER.pack(len(block), kind)))


def take_block(data: bytes | None, kind: bytes) -> tuple[bytes | None, bytes | None]:
    """User data without its last block of a kind, and that block; None if there is none."""
    end = len(data or b"")
    for _ in range(_BLOCKS_MAX):
        trailer = end - _TRAILER.size
        if data is None or trailer < 0:
            break
        length, found = _TRAILER.unpack_from(data, trailer)
        start = trailer - length
        if start < 0 or not _is_kind(found):
            break
        if found == kind:
            return data[:start] + data[end:], data[start:trailer]
        end = start
    return data, None


def _is_kind(kind: bytes) -> bool:
    first, rest = kind[:1], kind[1:]
    return len(kind) == _KIND_BYTES and kind.isalpha() and first.islower() and rest.isupper()
