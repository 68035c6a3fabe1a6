"""Reading what a broker stores of a topic partition: the batches of records in `.log` files.

Only what `__consumer_offsets` needs: record batches of the format that Kafka writes since 0.11,
plain or packed by gzip.  Brokers pack this topic only if `offsets.topic.compression.codec` says so.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["Batch", "StoredRecord", "Unreadable", "read_batches"]

_START: Final = struct.Struct(">qi")
#: Leader epoch, magic, CRC, attributes, last offset delta, base and last time, producer's id and
#: epoch, base sequence, count.
_HEADER: Final = struct.Struct(">ibIhiqqqhii")
_MAGIC: Final = 2
_MAGIC_AT: Final = 4
_CODEC_MASK: Final = 0x07
_CODECS: Final = {0: "", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_GZIP_WINDOW: Final = 31


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record."""

    ts_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were written at once; `producer_id` is one if they are of a transaction."""

    offset: int
    producer_id: int | None
    #: Whether it only says how a transaction ended.
    is_control: bool
    records: tuple[StoredRecord, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A batch that can't be read, and why."""

    offset: int
    why: str


def read_batches(path: Path) -> Iterator[Batch | Unreadable]:
    """The batches of a segment; a last one that is cut off, as in a copy, ends it."""
    with path.open("rb") as file:
        while True:
            start = file.read(_START.size)
            if len(start) < _START.size:
                return
            offset, size = _START.unpack(start)
            body = _body(file, size)
            if body is None:
                return
            yield _batch(offset, body)


def _body(file: BinaryIO, size: int) -> bytes | None:
    """The rest of a batch; None at the end, behind which a segment can have zeros."""
    if size <= 0:
        return None
    body = file.read(size)
    return body if len(body) == size else None


def _batch(offset: int, body: bytes) -> Batch | Unreadable:
    if len(body) < _HEADER.size or body[_MAGIC_AT] != _MAGIC:
        return Unreadable(offset, "a format older than Kafka 0.11")
    _, _, _, attributes, _, base_ms, last_ms, producer_id, _, _, count = _HEADER.unpack_from(body)
    codec = _CODECS.get(attributes & _CODEC_MASK, "something newer")
    if codec not in ("", "gzip"):
        return Unreadable(offset, f"packed by {codec}")
    try:
        data = body[_HEADER.size :]
        if codec:
            data = zlib.decompress(data, _GZIP_WINDOW)
        appended_ms = last_ms if attributes & _APPEND_TIME else None
        records = tuple(_records(data, count, base_ms, appended_ms))
    except (IndexError, zlib.error):
        return Unreadable(offset, "damaged")
    is_transactional = bool(attributes & _TRANSACTIONAL)
    return Batch(
        offset, producer_id if is_transactional else None, bool(attributes & _CONTROL), records
    )


def _records(
    data: bytes, count: int, base_ms: int, appended_ms: int | None
) -> Iterator[StoredRecord]:
    position = 0
    for _ in range(count):
        size, start = _varint(data, position)
        position = start + size
        delta_ms, at = _varint(data, start + 1)  # behind its attributes, which mean nothing
        _, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, _ = _bytes(data, at)
        yield StoredRecord(base_ms + delta_ms if appended_ms is None else appended_ms, key, value)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, the sign in its last bit; and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
