"""What the name of a file says of how it is compressed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = ["COMPRESSIONS", "compression_of", "plain_name", "text_bytes"]

#: How files are compressed, by the ends of their names.
COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}

#: About how much text a byte of a compressed journal stands for.
_TEXT_OF_A_BYTE: Final = 10


def compression_of(path: str) -> str | None:
    """How a file is compressed; None if it is not."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix)


def plain_name(path: str) -> str:
    """The name of a file before it was compressed."""
    name = PurePosixPath(path)
    return name.stem if compression_of(path) else name.name


def text_bytes(path: str, size: int) -> int:
    """About how much text is in a file of a size."""
    return size if compression_of(path) is None else size * _TEXT_OF_A_BYTE
