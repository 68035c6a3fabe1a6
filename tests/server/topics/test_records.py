"""What the catalogue stores, and that it can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_server.topics import Gone, TopicRow, from_stored, to_stored
from tests.server.topics.harness import topic_id

ROWS = st.builds(
    TopicRow,
    name=st.text(st.characters(codec="utf-8"), max_size=60),
    topic_id=st.uuids(),
    partitions=st.integers(1, 2**31 - 1),
    created_at_ms=st.integers(0, 2**63 - 1),
)


@given(ROWS)
def test_a_stored_row_reads_back_as_it_was(row: TopicRow) -> None:
    key, value = to_stored(row)
    assert value is not None
    assert from_stored(key, value) == row


@given(ROWS)
def test_a_deleted_topic_has_the_key_of_its_row(row: TopicRow) -> None:
    assert to_stored(Gone(row.name)) == (to_stored(row)[0], None)


def test_stored_form_is_pinned() -> None:
    """A change of it needs another version."""
    row = TopicRow(
        name="orders",
        topic_id=topic_id(5),
        partitions=3,
        created_at_ms=1_000,
        changed_at_ms=2_000,
    )
    key = b"\x01orders"
    value = (
        b"\x00" + b"\x00\x06orders" + bytes(15) + b"\x05"  # version, name, id
        b"\x00\x00\x00\x03" + b"\x00\x00\x00\x00\x00\x00\x03\xe8"  # partitions, creation
        b"\x00\x00\x00\x00\x00\x00\x07\xd0"  # the change
    )
    assert (to_stored(row), from_stored(key, value)) == ((key, value), row)


def test_row_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="a row in version 1, which is not known"):
        from_stored(b"\x01orders", b"\x01")


def test_foreign_key_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of kind 9, which is not known"):
        from_stored(b"\x09orders", b"\x00")
