"""What dates of nodes are worth whose clocks were set, stretch by stretch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Dates"]


@dataclass
class _Stretch:
    """Dates that were skipped, or ran at half speed: each counts for so much."""

    begin: int
    end: int
    worth: int


@dataclass
class Dates:
    """The dates of all nodes, from their lines in order."""

    lines: Iterable[Mapping[str, Any]]
    _of_node: dict[str, list[_Stretch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in self.lines:
            stretches = self._of_node.setdefault(line["node"], [])
            match line["kind"]:
                case "clock_stepped":
                    _step(stretches, line["ts"], line["stepped_ms"])
                case "node_started":
                    _cut(stretches, line["ts"])

    def lasted(self, node: str, begin: int, end: int) -> int:
        """How long it took from one date to another."""
        return (
            end
            - begin
            + sum(
                (each.worth - 1) * (_within(each, end) - _within(each, begin))
                for each in self._of_node.get(node, ())
            )
        )

    def after(self, node: str, date: int, wait: int) -> int:
        """The last date from which on it took as long as from the date after so long a wait."""
        low, high = date - 2 * abs(wait), date + abs(wait) + 1
        for each in self._of_node.get(node, ()):
            low, high = low - (each.end - each.begin), high + (each.end - each.begin)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.lasted(node, date, middle) <= wait else (low, middle)
        return low


def _within(stretch: _Stretch, date: int) -> int:
    return min(max(date, stretch.begin), stretch.end)


def _step(stretches: list[_Stretch], date: int, step: int) -> None:
    last = stretches[-1] if stretches and stretches[-1].worth == 2 else None
    slow_until = last.end if last is not None else 0
    if step < 0:
        if last is not None and slow_until > date:
            last.end -= step
        else:
            _add(stretches, _Stretch(date, date - step, 2))
    elif last is not None and slow_until - date >= step:
        last.end -= step
    else:
        skipped = min(step, step - (slow_until - date + step) // 2)
        _cut(stretches, date - skipped)
        _add(stretches, _Stretch(date - skipped, date, 0))


def _cut(stretches: list[_Stretch], date: int) -> None:
    if stretches and stretches[-1].worth == 2 and stretches[-1].end > date:
        stretches[-1].end = max(stretches[-1].begin, date)


def _add(stretches: list[_Stretch], stretch: _Stretch) -> None:
    if stretches:
        stretch.begin = max(stretch.begin, stretches[-1].end)
    if stretch.begin < stretch.end:
        stretches.append(stretch)
