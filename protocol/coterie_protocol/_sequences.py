"""What can be written as an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

__all__ = ["SEQUENCES", "ByColumn"]

T = TypeVar("T")


class ByColumn(Sequence[T]):
    """A sequence of structures that is kept by column, and written as a tuple of them is."""

    __slots__ = ()


#: Not any sequence: a text is one as well.
SEQUENCES: Final = (list, tuple, ByColumn)
