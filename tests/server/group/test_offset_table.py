"""Offsets that are committed together lie together in the store, and are read as they were."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.group import OffsetRow, from_stored, to_stored
from coterie_server.group.bundle import BundleRow, Place
from coterie_server.group.offset_table import BUNDLE_OFFSETS_MAX, Committed, OffsetTable
from coterie_server.group.records import GroupRow
from tests.support.offset_rows import bundled, one_by_one

GROUP = "gé"


class Kept:
    """The offsets of a group and what a store holds of them."""

    def __init__(self) -> None:
        self.table = OffsetTable(GROUP)
        self.records: dict[bytes, bytes] = {}
        self.numbers: Iterator[int] = count(1)

    def put(self, *rows: OffsetRow) -> int:
        """Commit offsets, which are of one date; return how many records that took."""
        (date_ms,) = {row.committed_at_ms for row in rows}
        (expires_at_ms,) = {row.expires_at_ms for row in rows}
        committed = Committed(
            tuple((row.topic, row.partition) for row in rows),
            tuple(row.offset for row in rows),
            tuple(row.leader_epoch for row in rows),
            tuple(row.metadata for row in rows),
            date_ms,
            expires_at_ms,
        )
        bundles = self.table.commit(committed, self.numbers)
        self._store(bundles)
        return len(bundles)

    def drop(self, *places: Place) -> int:
        """Forget offsets; return how many records that took."""
        bundles = self.table.drop(places)
        assert not any(bundle.is_news for bundle in bundles)
        self._store(bundles)
        return len(bundles)

    def _store(self, bundles: Collection[BundleRow]) -> None:
        packed = [to_stored(bundle) for bundle in bundles]
        for key, value in packed:
            if value is None:
                del self.records[key]
            else:
                self.records[key] = value
        assert len({key for key, _ in packed}) == len(packed)
        assert dict(self.table) == {(row.topic, row.partition): row for row in self.read()}
        assert sorted(self.table.rows()) == sorted(self.table.values())

    def bundles(self) -> list[BundleRow]:
        """The records as they are read."""
        rows = [from_stored(*each) for each in sorted(self.records.items())]
        return [row for row in rows if isinstance(row, BundleRow)]

    def read(self) -> list[OffsetRow]:
        """What is read from the records alone."""
        return [row for row in one_by_one(self.bundles()) if isinstance(row, OffsetRow)]

    def restart(self) -> None:
        """Go on with what is stored."""
        self.table = OffsetTable(GROUP)
        for bundle in self.bundles():
            self.table.restore(bundle)
        assert self.table


def row(partition: int, offset: int = 1, *, topic: str = "t") -> OffsetRow:
    """An offset."""
    return OffsetRow(GROUP, topic, partition, offset)


# -- one record for a commit -----------------------------------------------------------------------


def test_everything_comes_back() -> None:
    rows = [
        OffsetRow(GROUP, "t", 2**31 - 1, 2**63 - 1, 2**31 - 1, "é" * 9_000, 2**63 - 1, 2**63 - 1),
        OffsetRow(GROUP, "t" * 30_000, 0, -(2**63), -(2**31), "", 2**63 - 1, 2**63 - 1),
        OffsetRow(GROUP, "", 7, -7, -1, "", 2**63 - 1, 2**63 - 1),
    ]
    kept = Kept()
    assert kept.put(*rows) == 1
    assert kept.read() == rows


def test_the_same_partitions_again() -> None:
    kept = Kept()
    kept.put(row(0), row(1), row(2))
    assert kept.put(row(2, 5), row(0, 6), row(1, 7)) == 1
    assert len(kept.records) == 1
    assert {each.partition: each.offset for each in kept.read()} == {0: 6, 1: 7, 2: 5}


@pytest.mark.parametrize(
    "change",
    [{"leader_epoch": 4}, {"metadata": "m"}, {"expires_at_ms": 9}, {"committed_at_ms": 5}],
    ids=lambda change: next(iter(change)),
)
def test_the_same_partitions_with_something_else(change: dict[str, Any]) -> None:
    kept = Kept()
    rows = [row(0), row(1)]
    for _ in range(3):
        assert kept.put(*rows) == 1
    some_change = [[each._replace(**change) for each in rows]]
    if change.keys() <= {"leader_epoch", "metadata"}:  # a commit has one date
        some_change.append([rows[0]._replace(**change), rows[1]])
    for some in some_change:
        for each in (some, rows):
            for _ in range(2):
                assert kept.put(*each) == 1
                assert kept.read() == each


def test_some_of_the_partitions() -> None:
    """What is committed by itself moves to a new bundle; the rest is written again without it."""
    kept = Kept()
    kept.put(row(0), row(1), row(2))
    assert kept.put(row(1, 9)) == 2
    assert kept.read() == [row(0), row(2), row(1, 9)]
    assert kept.put(row(1, 10)) == 1


def test_partitions_from_everywhere() -> None:
    kept = Kept()
    for partition in range(10):
        kept.put(row(partition))
    assert len(kept.records) == 10
    kept.put(*(row(partition, 2) for partition in range(10)))
    assert len(kept.records) == 1
    assert kept.read() == [row(partition, 2) for partition in range(10)]


def test_large_commits_are_divided() -> None:
    kept = Kept()
    rows = [row(partition) for partition in range(2 * BUNDLE_OFFSETS_MAX + 1)]
    assert kept.put(*rows) == 3
    assert kept.put(*rows) == 3
    assert len(kept.records) == 3
    assert kept.read() == rows


def test_what_one_bundle_takes_does_not_grow_with_the_commit() -> None:
    """Else the largest commits would take longer by the square of their partitions."""

    def took_bytes(partitions: int) -> int:
        places = tuple(("t", partition) for partition in range(partitions))
        committed = Committed(places, (1,) * partitions, (-1,) * partitions, ("",) * partitions, 7)
        tracemalloc.start()
        try:
            committed.bundle(1, GROUP, [0])
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = took_bytes(2), took_bytes(200_000)
    assert many < 10 * few


def test_bytes_are_remembered_only_of_what_is_committed_again() -> None:
    """They take a fourth of the memory of an offset by itself, which may never come again."""
    shape = bundled(row(0)).shape
    first, second, third = (shape.around() for _ in range(3))
    assert first is not second
    assert second is third


# -- what goes -------------------------------------------------------------------------------------


def test_offsets_that_go() -> None:
    """A bundle is written again without them; the last takes its record with it."""
    kept = Kept()
    kept.put(row(0), row(1))
    assert kept.drop(("t", 0)) == 1
    assert kept.read() == [row(1)]
    assert kept.drop(("t", 1)) == 1
    assert kept.records == {}


def test_all_offsets_of_some_bundles_go_at_once() -> None:
    kept = Kept()
    rows = [row(partition) for partition in range(2 * BUNDLE_OFFSETS_MAX)]
    kept.put(*rows)
    assert kept.drop(*(("t", partition) for partition in range(BUNDLE_OFFSETS_MAX + 1))) == 2
    assert kept.read() == rows[BUNDLE_OFFSETS_MAX + 1 :]


def test_the_last_word_counts() -> None:
    kept = Kept()
    kept.put(row(0), row(1), row(1, 2), row(0, 3), row(0, 4))
    assert kept.read() == [row(0, 4), row(1, 2)]
    kept.put(row(1, 5), row(0, 6), row(1, 7))
    assert sorted(kept.read()) == [row(0, 6), row(1, 7)]


def test_what_was_not_there_may_go() -> None:
    assert Kept().drop(("t", 0)) == 0


def test_copy_stays_as_it_was() -> None:
    """It is told of in pieces, while further commits come."""
    kept = Kept()
    kept.put(row(0), row(1))
    kept.put(row(2))
    before = kept.table.copy()
    kept.put(row(0, 5), row(1, 5))
    kept.put(row(1, 6), row(2, 6))
    kept.drop(("t", 0))
    assert list(before.values()) == [row(0), row(1), row(2)]


def test_partitions_that_were_read_come_again() -> None:
    """They are other objects than those of the commits."""
    kept = Kept()
    kept.put(row(0), row(1))
    kept.restart()
    for offset in range(3):
        assert kept.put(row(0, offset), row(1, offset)) == 1
    assert len(kept.records) == 1


def test_groups_are_read_before_their_offsets() -> None:
    """Recovery needs them in that order."""
    group = GroupRow(group_id="\uffff" * 10_000, state="Empty", generation=0)
    assert to_stored(group)[0] < to_stored(bundled(row(0)))[0]


# -- bytes -----------------------------------------------------------------------------------------


def test_bundles_of_another_version_are_refused() -> None:
    kept = Kept()
    kept.put(row(0))
    ((key, value),) = kept.records.items()
    with pytest.raises(ValueError, match="a bundle in version 1"):
        from_stored(key, b"\x01" + value[1:])


def test_stored_form_is_pinned() -> None:
    """Each offset has a date of its own there, as those of one bundle once could differ."""
    bundle = bundled(
        OffsetRow("g", "t", 3, 5, -1, "m", 7, -1), OffsetRow("g", "u", 4, 6, 2, "", 8, 9)
    )
    key = b"\x80\x00\x00\x00\x00\x00\x00\x00\x01"
    value = (
        b"\x00" + b"\x00\x02" + b"\x00\x05"  # version, offsets, texts
        b"\x00\x00\x00\x01"  # topics
        b"\x00\x00\x00\x03\x00\x00\x00\x04"  # partitions
        b"\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06"  # offsets
        b"\xff\xff\xff\xff\x00\x00\x00\x02"  # leader epochs
        b"\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x08"  # commits
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x09"  # ends
         + b"".join(length.to_bytes(4) for length in (1, 1, 1, 1, 0)) + b"gtum"
    )
    assert to_stored(bundle) == (key, value)
    read = from_stored(key, value)
    assert list(one_by_one([read])) == list(bundle.rows())
    assert to_stored(read) == (key, value)


# -- at random -------------------------------------------------------------------------------------

PLACES = [(topic, index) for topic in "tu" for index in range(80)]
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(PLACES)), st.sampled_from(["commit", "delete", "restart"])),
    max_size=30,
)


@given(steps=STEPS)
def test_what_is_read_is_what_was_put(steps: list[tuple[set[Place], str]]) -> None:
    kept, model = Kept(), dict[Place, OffsetRow]()
    for offset, (places, what) in enumerate(steps):
        if what == "commit" and places:
            rows = {
                place: OffsetRow(GROUP, *place, offset, metadata="m" * place[1], committed_at_ms=7)
                for place in places
            }
            model.update(rows)
            kept.put(*rows.values())
        elif what == "delete":
            kept.drop(*places)
            model = {place: row for place, row in model.items() if place not in places}
        elif what == "restart" and model:
            kept.restart()
        assert sorted(kept.read()) == sorted(model.values())
        assert len(kept.records) <= len(model)
