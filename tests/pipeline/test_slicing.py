"""Pieces of work: cut where lines end, put together by size; and what names say of packing."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_pipeline.packing import compression_of, plain_name, text_bytes
from coterie_pipeline.slicing import grouped
from coterie_protocol.line_breaks import first_line_end, line_start


@given(st.text(alphabet="a\n", max_size=30), st.integers(0, 30), st.integers(1, 5))
def test_lines_begin_and_end_where_they_do(text: str, position: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie_protocol.line_breaks._BLOCK_BYTES", block)
        data = text.encode()
        position = min(position, len(data))
        end = data.find(b"\n", position)
        assert first_line_end(io.BytesIO(data), position) == (None if end < 0 else end + 1)
        assert line_start(io.BytesIO(data), position) == data.rfind(b"\n", 0, position) + 1


@given(st.lists(st.integers(0, 12)), st.integers(1, 10))
def test_items_are_put_together_up_to_a_size(items: list[int], most: int) -> None:
    groups = list(grouped(items, lambda item: item, most))
    assert [item for group in groups for item in group] == items
    assert all(groups)
    assert all(sum(group) <= most or len(group) == 1 for group in groups)
    assert all(sum(group) + after[0] > most for group, after in itertools.pairwise(groups))


@pytest.mark.parametrize(
    ("path", "compression", "name"),
    [
        ("file:/a.gz/journal-n-1.jsonl", None, "journal-n-1.jsonl"),
        ("/a/journal-n-1.jsonl.gz", "gzip", "journal-n-1.jsonl"),
        ("s3a://b/journal-n-1.jsonl.zst", "zstd", "journal-n-1.jsonl"),
        ("journal-n-1.jsonl.bz2", None, "journal-n-1.jsonl.bz2"),
    ],
)
def test_names_say_how_files_are_packed(path: str, compression: str | None, name: str) -> None:
    assert (compression_of(path), plain_name(path)) == (compression, name)
    assert (text_bytes(path, 7) == 7) == (compression is None)
