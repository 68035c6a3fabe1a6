"""Offsets that are committed together lie together in the store, and are read as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.group import Gone, OffsetRow, StoredRow, to_stored
from coterie_server.group import Record as RowRecord
from coterie_server.group.records import GroupRow
from coterie_server.storage.offset_bundles import BUNDLE_OFFSETS_MAX, OffsetBundles


class Kept:
    """A packing and what a store holds of what it packs."""

    def __init__(self) -> None:
        self.packing = OffsetBundles()
        self.records: dict[bytes, bytes] = {}

    def put(self, *records: RowRecord) -> int:
        """Store rows; return how many records that took."""
        packed = self.packing.pack(records)
        for key, value in packed:
            if value is None:
                del self.records[key]
            else:
                self.records[key] = value
        assert len({key for key, _ in packed}) == len(packed)
        return len(packed)

    def read(self) -> list[StoredRow]:
        """What is read from the records alone."""
        return list(OffsetBundles().unpack(sorted(self.records.items())))

    def restart(self) -> None:
        """Go on with what is stored."""
        self.packing = OffsetBundles()
        assert sum(1 for _ in self.packing.unpack(sorted(self.records.items()))) > 0


def row(partition: int, offset: int = 1, *, topic: str = "t", group: str = "g") -> OffsetRow:
    """An offset."""
    return OffsetRow(group, topic, partition, offset)


def gone(partition: int, *, topic: str = "t", group: str = "g") -> Gone:
    """The deletion of an offset."""
    return Gone(OffsetRow, group, topic, partition)


# -- one record for a commit -----------------------------------------------------------------------


def test_everything_comes_back() -> None:
    rows = [
        OffsetRow("gé", "t", 2**31 - 1, 2**63 - 1, 2**31 - 1, "é" * 9_000, 2**63 - 1, 2**63 - 1),
        OffsetRow("gé", "t" * 30_000, 0, -(2**63), -(2**31), "", 0, -1),
        OffsetRow("gé", "", 7, -7),
    ]
    kept = Kept()
    assert kept.put(*rows) == 1
    assert kept.read() == rows


def test_the_same_partitions_again() -> None:
    kept = Kept()
    kept.put(row(0), row(1), row(2))
    assert kept.put(row(2, 5), row(0, 6), row(1, 7)) == 1
    assert len(kept.records) == 1
    assert {r.partition: r.offset for r in kept.read() if isinstance(r, OffsetRow)} == {
        0: 6,
        1: 7,
        2: 5,
    }


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
    for some in ([rows[0]._replace(**change), rows[1]], [each._replace(**change) for each in rows]):
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


def test_groups_are_kept_apart() -> None:
    kept = Kept()
    assert kept.put(row(0, group="a"), row(0, group="b")) == 2
    assert kept.read() == [row(0, group="a"), row(0, group="b")]


# -- what goes -------------------------------------------------------------------------------------


def test_offsets_that_go() -> None:
    """A bundle is written again without them; the last takes its record with it."""
    kept = Kept()
    kept.put(row(0), row(1))
    kept.put(gone(0))
    assert kept.read() == [row(1)]
    kept.put(gone(1))
    assert kept.records == {}


def test_the_last_word_counts() -> None:
    kept = Kept()
    kept.put(row(0), gone(0), row(1), row(1, 2))
    assert kept.read() == [row(1, 2)]
    kept.put(gone(1), row(1, 3))
    assert kept.read() == [row(1, 3)]


def test_what_was_not_there_may_go() -> None:
    assert Kept().put(gone(0)) == 0


# -- besides offsets -------------------------------------------------------------------------------


def test_other_rows_are_stored_by_themselves() -> None:
    group = GroupRow(group_id="g", state="Empty", generation=0)
    assert OffsetBundles().pack([group, row(0)])[0] == to_stored(group)
    assert OffsetBundles().pack([Gone(GroupRow, "g")]) == [to_stored(Gone(GroupRow, "g"))]
    assert OffsetBundles().pack([]) == []


def test_groups_are_read_before_their_offsets() -> None:
    """Recovery needs them in that order."""
    kept = Kept()
    group = GroupRow(group_id="g", state="Empty", generation=0)
    kept.put(row(0), group)
    assert kept.read() == [group, row(0)]


# -- after a restart -------------------------------------------------------------------------------


def test_numbers_are_not_given_twice() -> None:
    """A new bundle never takes the place of another."""
    kept = Kept()
    kept.put(row(0))
    kept.restart()
    kept.put(row(1))
    assert kept.read() == [row(0), row(1)]


def test_bundles_of_another_version_are_refused() -> None:
    kept = Kept()
    kept.put(row(0))
    ((key, value),) = kept.records.items()
    with pytest.raises(ValueError, match="a bundle in version 1"):
        list(OffsetBundles().unpack([(key, b"\x01" + value[1:])]))


def test_stored_form_is_pinned() -> None:
    kept = Kept()
    rows = [OffsetRow("g", "t", 3, 5, -1, "m", 7, -1), OffsetRow("g", "u", 4, 6, 2, "", 8, 9)]
    kept.put(*rows)
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
    assert kept.records == {b"\x80\x00\x00\x00\x00\x00\x00\x00\x01": value}


# -- at random -------------------------------------------------------------------------------------

PLACES = [(group, topic, index) for group in "ab" for topic in "tu" for index in range(40)]
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(PLACES)), st.sampled_from(["commit", "delete", "restart"])),
    max_size=30,
)


def _found(kept: Kept) -> Sequence[StoredRow]:
    return sorted(row for row in kept.read() if isinstance(row, OffsetRow))


@given(steps=STEPS)
def test_what_is_read_is_what_was_put(steps: list[tuple[set[tuple[str, str, int]], str]]) -> None:
    kept, model = Kept(), dict[tuple[str, str, int], OffsetRow]()
    for offset, (places, what) in enumerate(steps):
        if what == "commit":
            rows = {place: OffsetRow(*place, offset, metadata="m" * place[2]) for place in places}
            model.update(rows)
            kept.put(*rows.values())
        elif what == "delete":
            kept.put(*(Gone(OffsetRow, *place) for place in places))
            model = {place: row for place, row in model.items() if place not in places}
        elif model:
            kept.restart()
        assert _found(kept) == sorted(model.values())
        assert len(kept.records) <= len(model)
