"""The warm assignor's block behind an assignor's own user data."""

from __future__ import annotations

from typing import Final

from coterie_protocol.blocks import add_block, take_block

__all__ = ["join_user_data", "split_user_data"]

_KIND: Final = b"wARM"


def join_user_data(own: bytes | None, block: bytes) -> bytes:
    """Put a block behind an assignor's own user data, which may be missing."""
    return add_block(own, _KIND, block)


def split_user_data(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    """The assignor's own user data and the block; None for whichever is missing.

    Own data that was empty comes back as None.
    """
    own, block = take_block(data, _KIND)
    return (data, None) if block is None else (own or None, block)
