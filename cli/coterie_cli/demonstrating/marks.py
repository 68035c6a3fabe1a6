"""What a terminal has room for, and the characters that it can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rich.console import Console

from coterie_cli.demonstrating.side import PARTITIONS

__all__ = ["SMALLEST", "Marks"]

#: Columns and lines that a picture needs.
SMALLEST: Final = (80, 23)

_NAME_WIDTH: Final = 4
_GUTTER: Final = 2
_CELL_WIDTH_MAX: Final = 6
#: From so many lines on there is room for cells of two lines.
_TALL: Final = 32


@dataclass(frozen=True, slots=True)
class Marks:
    """How things are drawn."""

    width: int
    cell_width: int
    cell_height: int
    #: What fills the cell of a partition whose work is ending, and of one that nobody works on.
    ending: str
    stopped: str
    bar: str

    @classmethod
    def of(cls, console: Console) -> Self:
        """What suits a terminal, of whatever size it is now."""
        width, height = max(console.width, SMALLEST[0]), console.height
        cell_width = ((width - _GUTTER) // 2 - _NAME_WIDTH + 1) // PARTITIONS - 1
        cell_width = min(cell_width, _CELL_WIDTH_MAX)
        marks = ":/#" if console.options.ascii_only else "▒░█"
        return cls(_width(cell_width), cell_width, 2 if height >= _TALL else 1, *marks)

    @property
    def side_width(self) -> int:
        """How wide the picture of a group is."""
        return (self.width - _GUTTER) // 2

    def name(self, text: str) -> str:
        """What stands before the cells of a row."""
        return text.ljust(_NAME_WIDTH)


def _width(cell_width: int) -> int:
    return 2 * (_NAME_WIDTH + (cell_width + 1) * PARTITIONS - 1) + _GUTTER
