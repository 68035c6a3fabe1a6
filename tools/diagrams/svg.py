"""Pieces of SVG in the colours of the surrounding page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, Literal

__all__ = ["CHAR", "LINE", "arrow_path", "box", "dot", "drawing", "text", "width_of", "wrapped"]

#: The approximate width of a character, and the distance of lines, in pixels.
CHAR: Final = 6.5
LINE: Final = 15.0
_PAD: Final = 8.0
_PAPER: Final = "var(--md-default-bg-color, white)"
_FILL: Final = "var(--md-code-bg-color, #f5f5f5)"
_HEAD: Final = (
    '<defs><marker id="{id}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
    ' markerHeight="7" orient="auto-start-reverse">'
    '<path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>'
)
_ARROW_ID: Final = "diagram-arrow"

Anchor = Literal["start", "middle", "end"]


def width_of(lines: Iterable[str]) -> float:
    """The approximate width of the widest line."""
    return max((len(line) * CHAR for line in lines), default=0.0)


def wrapped(label: str, width: int) -> list[str]:
    """Wrap a label into lines of at most `width` characters."""
    return textwrap.wrap(label, width, break_long_words=False)


def text(x: float, y: float, lines: Sequence[str], anchor: Anchor = "middle") -> str:
    """Lines of text whose middle is at the given height."""
    top = y - (len(lines) - 1) * LINE / 2 + 4
    spans = "".join(
        f'<tspan x="{x:.0f}" y="{top + i * LINE:.0f}">{escape(each)}</tspan>'
        for i, each in enumerate(lines)
    )
    # A margin in the page's colour keeps letters readable where lines cross them.
    return (
        f'<text text-anchor="{anchor}" paint-order="stroke" stroke="{_PAPER}" stroke-width="4"'
        f' fill="currentColor">{spans}</text>'
    )


def box(x: float, y: float, width: float, height: float, *, dashed: bool = False) -> str:
    """A box around the given middle."""
    dashes = ' stroke-dasharray="3 3"' if dashed else ""
    return (
        f'<rect x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" rx="5" fill="{_FILL}" stroke="currentColor"{dashes}/>'
    )


def dot(x: float, y: float) -> str:
    """The start or end of a state diagram."""
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="6" fill="currentColor"/>'


def arrow_path(
    points: Sequence[tuple[float, float]], *, dashed: bool = False, head: bool = True
) -> str:
    """A line through points, with an arrowhead at its end."""
    way = "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    end = f' marker-end="url(#{_ARROW_ID})"' if head else ""
    return (
        f'<path d="M{way}" fill="none" stroke="currentColor" stroke-linejoin="round"{dashes}{end}/>'
    )


def drawing(
    pieces: Iterable[str], left: float, top: float, right: float, bottom: float, label: str
) -> str:
    """A whole drawing, at most as wide as the page."""
    x, y = left - _PAD, top - _PAD
    width, height = right - left + 2 * _PAD, bottom - top + 2 * _PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}"'
        f' viewBox="{x:.0f} {y:.0f} {width:.0f} {height:.0f}" width="{width:.0f}"'
        ' style="max-width:100%;height:auto" font-size="12" font-family="sans-serif">'
        f"{_HEAD.format(id=_ARROW_ID)}{''.join(pieces)}</svg>"
    )
