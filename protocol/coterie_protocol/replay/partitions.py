"""Partitions, which lines of the journal tell as numbers by topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["Partition", "partitions_of"]

Partition = tuple[str, int]


def partitions_of(owned: Mapping[str, Iterable[int]] | None) -> list[Partition]:
    """Numbers by topic as partitions, each once."""
    each = ((topic, number) for topic, numbers in (owned or {}).items() for number in numbers)
    return list(dict.fromkeys(each))
