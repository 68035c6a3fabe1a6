"""Keys and values as statements have them.

Values become literals of hexadecimal digits or numbers, so that a statement is a single message
whatever lies between node and server, and nothing in a value can be taken for SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

__all__ = ["KEY_BYTES", "array", "blob", "blobs", "key_of", "literal_size", "place_of", "text"]

KEY_BYTES: Final = 1024
"""How much of a key is in the index, which refuses more than some 2,700 bytes."""


def place_of(key: bytes) -> tuple[bytes, bytes]:
    """Where a key is in the index, and the rest of it if it is too long for that."""
    if len(key) <= KEY_BYTES:
        return key, b""
    # Longer than any short key, so it differs from all of them.
    return key[:KEY_BYTES] + sha256(key).digest(), key[KEY_BYTES:]


def key_of(place: bytes, rest: bytes | None) -> bytes:
    """The key at a place."""
    return place if len(place) <= KEY_BYTES else place[:KEY_BYTES] + (rest or b"")


def literal_size(key: bytes, value: bytes | None) -> int:
    """About how many characters a record takes."""
    return 2 * (len(key) + len(value or b"")) + 60


def array(items: Iterable[str]) -> str:
    """What is between the quotes of an array of numbers, or of elements that are quoted."""
    return f"{{{','.join(items)}}}"


def blobs(items: Iterable[bytes]) -> str:
    """An array of bytes, without NULL, which servers with array_nulls off take for a text."""
    # In an E'' string, four backslashes are one of the array's element, whatever the settings.
    elements = array(f'"\\\\\\\\x{item.hex()}"' for item in items)
    return f"E'{elements}'::bytea[]"


def blob(value: bytes) -> str:
    """Bytes."""
    return f"decode('{value.hex()}', 'hex')"


def text(value: str) -> str:
    """A text, in whatever encoding the database has."""
    return f"convert_from({blob(value.encode())}, 'UTF8')"
