"""Checksums of records, and what is said of a store in which one is wrong."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

__all__ = ["Damage", "check_pages", "check_record", "check_records", "checksum", "damaged"]


class Damage(Exception):  # noqa: N818  # it is found, not committed
    """A part of a store is not what was written; the text says which."""


def checksum(shard: int, key: bytes, value: bytes) -> int:
    """The checksum of a record, which covers its shard, key and value."""
    return zlib.crc32(value, zlib.crc32(key, shard & 0xFFFFFFFF))


def check_record(shard: int, key: bytes, value: bytes, check: int) -> None:
    """Raise `Damage` unless a record is as it was written."""
    try:
        is_right = checksum(shard, key, value) == check
    except TypeError:  # SQLite keeps values of any type in any column
        is_right = False
    if not is_right:
        raise Damage(f"a record of shard {shard} is not what was written")


def check_pages(connection: sqlite3.Connection) -> None:
    """Raise `Damage` unless the pages of a database hold together; this reads all of them."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise Damage(found.splitlines()[-1])


def check_records(connection: sqlite3.Connection) -> None:
    """Raise `Damage` unless all records of a database are as they were written."""
    for row in connection.execute("SELECT shard, key, value, checksum FROM records"):
        check_record(*row)


def damaged(path: Path, found: str) -> str:
    """The message about a damaged store."""
    return (
        f"{path} is damaged ({found}): keep a copy of it and of its -wal and -mark files, then"
        f" restore a backup, or see how to recover a store in the documentation"
    )
