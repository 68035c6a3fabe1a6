"""What Java does with texts, where what a client or an ACL is called depends on it."""

from __future__ import annotations

from typing import Final

__all__ = ["trimmed"]

_TRIMMED: Final = "".join(map(chr, range(0x21)))


def trimmed(text: str) -> str:
    """A text without the characters up to the space at its ends; other blanks stay."""
    return text.strip(_TRIMMED)
