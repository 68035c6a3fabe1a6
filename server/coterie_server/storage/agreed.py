"""What nodes agree on in a store: texts that one of them wrote, and damage may have changed.

They have no checksums, as records do.
"""

from __future__ import annotations

import re
from typing import Final

from coterie_server.storage.abc import StoreError
from coterie_server.storage.damage import Damage

__all__ = ["NO_NUMBER_OF_FILES", "agreed_bytes", "agreed_number", "number_of_files"]

#: What is said where the number of a store's files is none, or too low.
NO_NUMBER_OF_FILES: Final = "it does not say of how many files it consists"

_NUMBER: Final = re.compile("[1-9][0-9]{0,5}")


def agreed_number(url: str, name: str, text: str) -> int:
    """The number that a store has under a name; raises `StoreError` if it is none."""
    if _NUMBER.fullmatch(text) is None:
        raise _never_agreed(url, name)
    return int(text)


def agreed_bytes(url: str, name: str, text: str) -> bytes:
    """The bytes that a store has under a name in hex; raises `StoreError` if these are none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise _never_agreed(url, name) from None


def number_of_files(text: str) -> int:
    """Of how many files a store consists; raises `Damage` if that is no number of files."""
    if _NUMBER.fullmatch(text) is None:
        raise Damage(NO_NUMBER_OF_FILES)
    return int(text)


def _never_agreed(url: str, name: str) -> StoreError:
    return StoreError(
        f"{url} is damaged (what it has as {name} was never agreed on): restore a backup, or see"
        " how to recover a store in the documentation"
    )
