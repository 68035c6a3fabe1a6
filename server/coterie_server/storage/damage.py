"""What tells a record that is as it was written from one that is not."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

__all__ = ["Damage", "check_record", "check_records", "checksum", "damaged"]


class Damage(Exception):  # noqa: N818  # what was found, not what went wrong
    """Something in a store is not what was written; the text says what."""


def checksum(shard: int, key: bytes, value: bytes) -> int:
    """What a record is stored with: it would hardly fit another shard, key or value."""
    return zlib.crc32(value, zlib.crc32(key, shard & 0xFFFFFFFF))


def check_record(shard: int, key: bytes, value: bytes, check: int) -> None:
    """Raise `Damage` unless a record is as it was written."""
    if checksum(shard, key, value) != check:
        raise Damage(f"a record of shard {shard} is not what was written")


def check_records(connection: sqlite3.Connection) -> None:
    """Raise `Damage` unless all records of a database are as they were written."""
    for row in connection.execute("SELECT shard, key, value, checksum FROM records"):
        check_record(*row)


def damaged(path: Path, found: str) -> str:
    """What a person is told of a damaged store."""
    return (
        f"{path} is damaged ({found}): keep a copy of it and of its -wal and -mark files, then"
        f" restore a backup, or see how to recover a store in the documentation"
    )
