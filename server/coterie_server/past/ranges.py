"""Numbers of partitions as text: `0-4,7`."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["in_ranges"]


def in_ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges, in their order, each once."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
