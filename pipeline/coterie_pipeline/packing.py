"""Compressed files: what their names say, and their texts, as far as they can be unpacked."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath
from typing import Any, Final, Self, final

import pyarrow as pa

__all__ = [
    "COMPRESSIONS",
    "Unpacked",
    "compression_of",
    "is_damage",
    "plain_name",
    "text_bytes",
    "without_compression",
]

#: How files are compressed, by the ends of their names.
COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}

#: How much is skipped at a time.
_SKIPPED_BYTES: Final = 65_536

#: About how much text a byte of a compressed journal stands for.
_TEXT_OF_A_BYTE: Final = 10


def compression_of(path: str) -> str | None:
    """How a file is compressed; None if it is not."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix)


def plain_name(path: str) -> str:
    """The name of a file before it was compressed."""
    name = PurePosixPath(path)
    return name.stem if compression_of(path) else name.name


def without_compression(path: str) -> str:
    """The path of a file before it was compressed."""
    return path.removesuffix(PurePosixPath(path).suffix) if compression_of(path) else path


def text_bytes(path: str, size: int) -> int:
    """About how much text is in a file of a size."""
    return size if compression_of(path) is None else size * _TEXT_OF_A_BYTE


def is_damage(error: OSError) -> bool:
    """Whether a file can't be unpacked; if not, it can't be read, which may pass."""
    return error.errno is None


@final
class Unpacked:
    """The text of a compressed file; reading fails behind the last byte that can be unpacked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._text = self._opened()
        self._position = 0
        self._error: OSError | None = None

    def _opened(self) -> Any:  # noqa: ANN401  # Arrow has no types
        return pa.input_stream(self._path, compression=compression_of(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._text.close()

    def read(self, size: int, /) -> bytes:
        """The next bytes, so many at most; none at the end."""
        if self._error is not None:
            raise self._error
        try:
            block: bytes = self._text.read(size)
        except OSError as error:
            if not is_damage(error):
                raise
            self._error = error
            block = self._rest(size)
            if not block:
                raise
        self._position += len(block)
        return block

    def _rest(self, size: int) -> bytes:
        """What a read of so many bytes would have had, if it had not failed as a whole."""
        found = bytearray()
        with contextlib.suppress(OSError), self._opened() as text:
            left = self._position
            while left and (skipped := text.read(min(left, _SKIPPED_BYTES))):
                left -= len(skipped)
            while len(found) < size and (byte := text.read(1)):
                found += byte
        return bytes(found)
