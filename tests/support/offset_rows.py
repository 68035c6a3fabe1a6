"""Offsets one by one, as tests look at them, and in bundles, as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.group import BundleRow, OffsetRow, StoredRow
from coterie_server.group.bundle import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["bundled", "one_by_one"]


def bundled(*rows: OffsetRow, number: int = 1) -> BundleRow:
    """A bundle of offsets of one group."""
    groups, topics, partitions, offsets, epochs, metadata, dates, expiries = zip(*rows, strict=True)
    (group_id,) = set(groups)
    places = tuple(zip(topics, partitions, strict=True))
    return BundleRow(number, Shape(group_id, places, epochs, metadata, expiries), offsets, dates)


def one_by_one(rows: Iterable[StoredRow]) -> Iterator[StoredRow | OffsetRow]:
    """Stored rows, with a row for each offset."""
    for row in rows:
        if isinstance(row, BundleRow):
            yield from row.rows()
        else:
            yield row
