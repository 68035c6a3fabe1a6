"""Which partition a key belongs to, as Kafka's default partitioner has it: murmur2, as in Java."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["murmur2", "partition_of_key"]

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_UINT32: Final = 0xFFFFFFFF
_INT32_MAX: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The hash of some bytes, as an unsigned number; Java has the same 32 bits with a sign."""
    length = len(data)
    whole = length - length % 4
    found = _SEED ^ length
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (word * _FACTOR) & _UINT32
        mixed = ((mixed ^ (mixed >> _SHIFT)) * _FACTOR) & _UINT32
        found = ((found * _FACTOR) & _UINT32) ^ mixed
    if whole < length:
        found = ((found ^ int.from_bytes(data[whole:], "little")) * _FACTOR) & _UINT32
    found = ((found ^ (found >> 13)) * _FACTOR) & _UINT32
    return found ^ (found >> 15)


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, of a topic with so many partitions."""
    return (murmur2(key) & _INT32_MAX) % partitions
