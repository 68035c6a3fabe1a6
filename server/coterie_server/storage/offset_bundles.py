"""Turns the rows of a shard into records of its store, with many offsets to a record.

A worker commits the same partitions again and again.  So offsets that were committed together are
kept together, in a *bundle*, and the next commit writes one record instead of one for each
partition.  Every offset is in one bundle.  A commit of a different set of partitions moves their
offsets to a new bundle, and the bundles that they were in are written again without them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final

from coterie_server.group import Gone, OffsetRow, StoredRow, from_stored, to_stored
from coterie_server.group import Record as RowRecord
from coterie_server.later_version import LaterVersionError
from coterie_server.storage import KeptRecord, Record

__all__ = ["BUNDLE_OFFSETS_MAX", "OffsetBundles"]

#: The most offsets in a bundle, so that a commit of one of them stays cheap.
BUNDLE_OFFSETS_MAX: Final = 64

#: Group, topic and partition.
_Place = tuple[str, str, int]

#: The first byte of a bundle's key, which no row's key begins with; the bundle's number follows.
_KIND: Final = 0x80
_KEY: Final = struct.Struct(">BQ")
_VERSION: Final = 0
#: Version, number of offsets, number of texts.
_HEAD: Final = struct.Struct(">BHH")


class _Bundle:
    """Offsets that are kept in one record."""

    __slots__ = ("_frame", "key", "places", "rows")

    def __init__(self, key: bytes, rows: Sequence[OffsetRow]) -> None:
        self.key = key
        self.places: list[_Place] = [row[:3] for row in rows]
        self.rows = rows
        #: What its bytes were made of when its partitions were committed again.
        self._frame: _Frame | None = None

    def commit_again(self, rows: Sequence[OffsetRow]) -> bytes | None:
        """Take over rows of the same partitions, and encode them; None if they are of others."""
        columns = tuple(zip(*rows, strict=True))
        frame = self._frame
        if frame is None or not frame.fits(columns):
            if [row[:3] for row in rows] != self.places:
                return None
            # Metadata may be long, and mostly differ each time.
            frame = self._frame = None if any(columns[5]) else _Frame(columns)
        self.rows = rows
        return _written_columns(columns) if frame is None else frame.filled(columns)

    def without(self, places: Collection[_Place]) -> list[OffsetRow]:
        """The offsets that are left when some go."""
        both = zip(self.places, self.rows, strict=True)
        return [row for place, row in both if place not in places]


class OffsetBundles:
    """Converts between rows and records, for one shard, from the moment it is read."""

    def __init__(self) -> None:
        self._homes: dict[_Place, _Bundle] = {}
        self._last_number = 0

    def unpack(self, records: Iterable[KeptRecord]) -> Iterator[StoredRow]:
        """The rows in records that were read from the store."""
        for key, value in records:
            if key[0] == _KIND:
                _, number = _KEY.unpack(key)
                self._last_number = max(self._last_number, number)
                rows = _read(value)
                self._settle(_Bundle(key, rows))
                yield from rows
            else:
                yield from_stored(key, value)

    def pack(self, records: Sequence[RowRecord]) -> list[Record]:
        """The records that store these rows, and the deletions of others."""
        rows = [record for record in records if type(record) is OffsetRow]
        if rows and len(rows) == len(records):
            home = self._homes.get(rows[0][:3])
            if home is not None and (value := home.commit_again(rows)) is not None:
                # The same partitions as last time, as nearly always.
                return [(home.key, value)]
        packed = [to_stored(record) for record in records if not _is_about_an_offset(record)]
        if len(packed) == len(records):
            return packed
        fresh: dict[_Place, OffsetRow] = {}
        gone: set[_Place] = set()
        for record in records:
            if type(record) is OffsetRow:
                fresh[record[:3]] = record
                gone.discard(record[:3])
            elif isinstance(record, Gone) and record.row is OffsetRow:
                place = record.group_id, record.name, record.partition
                fresh.pop(place, None)
                gone.add(place)
        packed += self._place(fresh, gone)
        return packed

    def _place(self, fresh: dict[_Place, OffsetRow], gone: set[_Place]) -> Iterator[Record]:
        """Put offsets into the bundles they were in if they fill these, else into new ones."""
        homes = self._homes
        moving = gone | fresh.keys()
        touched = {id(home): home for place in moving if (home := homes.get(place)) is not None}
        are_few = len(touched) <= 2 * (1 + len(fresh) // BUNDLE_OFFSETS_MAX)
        for home in touched.values():
            if are_few and all(place in fresh for place in home.places):
                home.rows = [fresh.pop(place) for place in home.places]
                yield home.key, _written(home.rows)
            else:
                for place in moving.intersection(home.places):
                    del homes[place]
                left = home.without(moving)
                self._settle(_Bundle(home.key, left))
                yield home.key, _written(left) if left else None
        yield from self._bundle(fresh.values())

    def _bundle(self, rows: Iterable[OffsetRow]) -> Iterator[Record]:
        """Put offsets into new bundles, each of one group."""
        by_group: dict[str, list[OffsetRow]] = {}
        for row in rows:
            by_group.setdefault(row.group_id, []).append(row)
        for each in by_group.values():
            for start in range(0, len(each), BUNDLE_OFFSETS_MAX):
                together = each[start : start + BUNDLE_OFFSETS_MAX]
                self._last_number += 1
                key = _KEY.pack(_KIND, self._last_number)
                self._settle(_Bundle(key, together))
                yield key, _written(together)

    def _settle(self, bundle: _Bundle) -> None:
        self._homes.update(dict.fromkeys(bundle.places, bundle))


def _is_about_an_offset(record: RowRecord) -> bool:
    return type(record) is OffsetRow or (isinstance(record, Gone) and record.row is OffsetRow)


# -- a bundle's bytes ------------------------------------------------------------------------------


_Columns = tuple[tuple[Any, ...], ...]


@lru_cache(2 * BUNDLE_OFFSETS_MAX)
def _columns(offsets: int, texts: int) -> struct.Struct:
    """The numbers of all offsets, field by field, and the lengths of the texts behind them."""
    fields = ("H", "i", "q", "i", "q", "q")
    return struct.Struct(">" + "".join(f"{offsets}{field}" for field in fields) + f"{texts}I")


def _written(rows: Collection[OffsetRow]) -> bytes:
    """Encode a bundle."""
    return _written_columns(tuple(zip(*rows, strict=True)))


def _written_columns(columns: _Columns) -> bytes:
    """Encode a bundle; its texts are the names of group and topics, and the metadata if any."""
    groups, topics, partitions, offsets, epochs, metadata, committed_ms, expires_ms = columns
    numbers = {topic: number for number, topic in enumerate(dict.fromkeys(topics))}
    texts = [text.encode() for text in (groups[0], *numbers, *(metadata if any(metadata) else ()))]
    written = _columns(len(groups), len(texts)).pack(
        *[numbers[topic] for topic in topics],
        *partitions,
        *offsets,
        *epochs,
        *committed_ms,
        *expires_ms,
        *map(len, texts),
    )
    return b"".join((_HEAD.pack(_VERSION, len(groups), len(texts)), written, *texts))


@lru_cache(BUNDLE_OFFSETS_MAX)
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f">{count}q")


class _Frame:
    """The bytes of a bundle around what each commit changes: the offsets, and when they came."""

    __slots__ = ("_after", "_before", "_between", "_columns", "_numbers")

    def __init__(self, columns: _Columns) -> None:
        value, count = _written_columns(columns), len(columns[0])
        self._columns = _without_changing(columns)
        self._numbers = _numbers(count)
        sizes = _HEAD.size + 6 * count, 8 * count, 4 * count, 8 * count
        offsets_at, epochs_at, committed_at, expiry_at = accumulate(sizes)
        self._before = value[:offsets_at]
        self._between = value[epochs_at:committed_at]
        self._after = value[expiry_at:]

    def fits(self, columns: _Columns) -> bool:
        """Whether the bytes for these are the same, apart from what each commit changes."""
        return _without_changing(columns) == self._columns

    def filled(self, columns: _Columns) -> bytes:
        """The bytes for these."""
        pack = self._numbers.pack
        offsets, committed_ms = columns[3], columns[6]
        return b"".join(
            (self._before, pack(*offsets), self._between, pack(*committed_ms), self._after)
        )


def _without_changing(columns: _Columns) -> _Columns:
    return columns[:3] + columns[4:6] + columns[7:]


def _read(value: bytes) -> list[OffsetRow]:
    version, count, text_count = _HEAD.unpack_from(value)
    if version != _VERSION:
        raise LaterVersionError(f"a bundle in version {version}")
    columns = _columns(count, text_count)
    numbers = columns.unpack_from(value, _HEAD.size)
    at = [*accumulate(numbers[6 * count :], initial=_HEAD.size + columns.size)]
    group_id, *texts = (value[start:end].decode() for start, end in pairwise(at))
    topic_count = max(numbers[:count]) + 1
    metadata = texts[topic_count:] or [""] * count
    fields = [numbers[start : start + count] for start in range(0, 6 * count, count)]
    return [
        OffsetRow(group_id, texts[topic], partition, offset, epoch, text, committed_ms, expires_ms)
        for (topic, partition, offset, epoch, committed_ms, expires_ms), text in zip(
            zip(*fields, strict=True), metadata, strict=True
        )
    ]
