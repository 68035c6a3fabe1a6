"""From times to positions: everything is placed in per cent of the width of its chart.

So a chart fits any width without a script, and zooming is only a wider chart behind the same
window: shapes, letters and hatching keep their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import Span
from coterie_pipeline.report.words import day, moment

__all__ = ["Scale", "plot"]

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

#: Distances between the marks of an axis that people can read.
_STEPS: Final = (
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14, 28, 91, 364)),
)

_TICKS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Scale:
    """The time that a chart shows."""

    span: Span

    def at(self, at_ms: int) -> str:
        """The position of a moment; one outside of the chart is at its edge."""
        return self._share(min(max(at_ms, self.span.from_ms), self.span.to_ms) - self.span.from_ms)

    def width(self, from_ms: int, to_ms: int) -> str:
        """The width of what lies between two moments."""
        inside_from = max(from_ms, self.span.from_ms)
        return self._share(max(min(to_ms, self.span.to_ms) - inside_from, 0))

    def share(self, from_ms: int, to_ms: int) -> float:
        """How much of the chart lies between two moments."""
        return (to_ms - from_ms) / max(self.span.length_ms, 1)

    def _share(self, length_ms: int) -> str:
        # Eight digits: a millisecond of three weeks still has a place of its own.
        written = f"{100 * length_ms / max(self.span.length_ms, 1):.6f}".rstrip("0").rstrip(".")
        return f"{written}%"

    def ticks(self) -> Iterator[tuple[int, str]]:
        """The moments that an axis marks, and their labels."""
        step = next(
            (each for each in _STEPS if self.span.length_ms / each <= _TICKS_MAX), _STEPS[-1]
        )
        first = -(-self.span.from_ms // step) * step
        for at_ms in range(first, self.span.to_ms + 1, step):
            at = moment(at_ms)
            if at_ms % _DAY == 0:
                yield at_ms, day(at_ms)
            else:
                yield at_ms, f"{at:%H:%M:%S}" if step < _MINUTE else f"{at:%H:%M}"


def plot(height: int, label: str, *children: Markup | None, class_: str = "") -> Markup:
    """A chart as wide as its container: a window, and in it what a script may move and widen."""
    inner = element("svg", *children, class_="plot", width="100%", height=height)
    return element(
        "svg",
        inner,
        class_=f"window {class_}".rstrip(),
        width="100%",
        height=height,
        role="img",
        aria_label=label,
    )
