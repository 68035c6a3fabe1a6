"""The lines of files that may be compressed, as those of old journals are."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from coterie_protocol.file_errors import naming

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ArchiveError", "DamagedError", "is_packed", "lines_of", "plain_name"]

_PACKED: Final = (".gz", ".zst")

#: Python has the module from this version on.
_HAS_ZSTD: Final = sys.version_info >= (3, 14)

#: How much is skipped at a time.
_SKIPPED_BYTES: Final = 65_536


class ArchiveError(Exception):
    """Journals can't be read; the text is a sentence that says why, and what to do."""


class DamagedError(Exception):
    """The rest of a compressed file can't be unpacked; the text says why."""


def is_packed(path: Path) -> bool:
    """Whether a file is compressed."""
    return path.suffix in _PACKED


def plain_name(path: Path) -> str:
    """The name of a file before it was compressed."""
    return path.stem if is_packed(path) else path.name


def lines_of(path: Path) -> Generator[bytes]:
    """A file's lines, each with its line break.

    Raises `DamagedError` behind all that can be unpacked, `ArchiveError` if there is nothing to
    unpack it with, and `OSError`.
    """
    with naming(path), _opened(path) as file:
        damage: tuple[type[Exception], ...] = (EOFError, zlib.error, *_errors_of_zstd(path))
        try:
            yield from iter(file.readline, b"")
        except damage as error:
            raise DamagedError(f"the rest can't be unpacked: {error}") from error
        except OSError as error:
            # What is said of the bytes rather than of the file has no number.
            if error.errno is not None:
                raise
            raise DamagedError(f"the rest can't be unpacked: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return _opened_zst(path) if path.suffix == ".zst" else path.open("rb")


def _opened_zst(path: Path) -> IO[bytes]:
    try:
        if _HAS_ZSTD:
            return cast("IO[bytes]", import_module("compression.zstd").open(path, "rb"))
        arrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise ArchiveError(
            f"{path} is compressed by zstd, and there is nothing here to unpack it with: unpack it"
            " with `zstd -d`, or install coterie[pipeline]."
        ) from error

    def open_stream() -> Any:  # noqa: ANN401  # pyarrow has no types
        return arrow.input_stream(str(path), compression="zstd")

    return cast("IO[bytes]", io.BufferedReader(_ArrowText(open_stream(), open_stream)))


def _errors_of_zstd(path: Path) -> tuple[type[Exception], ...]:
    is_pythons = _HAS_ZSTD and path.suffix == ".zst"
    return (import_module("compression.zstd").ZstdError,) if is_pythons else ()


class _ArrowText(io.RawIOBase):
    """The text of a file that Arrow unpacks, whose streams read no lines.

    A read of theirs that fails in the middle has nothing; this one has what comes before.
    """

    def __init__(self, stream: Any, open_again: Callable[[], Any]) -> None:  # noqa: ANN401
        self._stream = stream
        self._open_again = open_again
        self._position = 0
        self._error: OSError | None = None

    def readable(self) -> bool:
        """That is all it is."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read some bytes; raise what is wrong with the next one if there is none before it."""
        if self._error is not None:
            raise self._error
        place = memoryview(buffer).cast("B")
        try:
            block: bytes = self._stream.read(len(place))
        except OSError as error:
            block = self._before(error, len(place))
        place[: len(block)] = block
        self._position += len(block)
        return len(block)

    def _before(self, error: OSError, most: int) -> bytes:
        """What a read of so many bytes would have had, if it had not failed as a whole."""
        found = bytearray()
        with self._open_again() as again:
            try:
                left = self._position
                while left and (skipped := again.read(min(left, _SKIPPED_BYTES))):
                    left -= len(skipped)
                while len(found) < most and (byte := again.read(1)):
                    found += byte
            except OSError as same:
                self._error = same
        if not found:
            raise error
        return bytes(found)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._stream.close()
        super().close()
