"""Commits come by date, and are counted in the order of the other lines of their group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from coterie_pipeline.steps.groups import Whole, rows_of_groups
from coterie_protocol.journal import OffsetsCommitted, read_values
from tests.pipeline.scenarios.lines import commits_after_a_clock_was_set_back
from tests.support.journal_builder import JournalBuilder


def lines_of(builder: JournalBuilder) -> list[dict[str, Any]]:
    """The lines as they are handed over: control lines by number, and then commits by date."""
    texts = [text.strip() for file in builder.files.values() for text in file]
    rows = [_row(text, read_values(text)) for text in texts]
    return sorted(rows, key=lambda row: (not row["is_control"], *_order(row)))


def _row(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    is_control = values["kind"] != OffsetsCommitted.kind
    same = {name: values[name] for name in ("group", "node", "seq", "ts")}
    told = {"text": text, "member": ""}
    if not is_control:
        offsets = str(values["offsets"]).replace("'", '"')
        told = {"text": offsets, "member": values["member"]}
    return {**same, "is_control": is_control, **told}


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (0 if row["is_control"] else row["ts"], row["node"], row["seq"])


def commits_of(builder: JournalBuilder, size: int, whole: Whole) -> list[dict[str, Any]]:
    """The rows of the table, if so many lines come at once."""
    rows = lines_of(builder)

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(rows), size):
            yield pa.RecordBatch.from_pylist(rows[begin : begin + size])

    return [row for name, row in rows_of_groups(batches(), whole) if name == "commits"]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_batches_of_any_size_give_the_same_order(size: int) -> None:
    (row,) = commits_of(commits_after_a_clock_was_set_back(), size, Whole())
    assert (row["first_offset"], row["last_offset"], row["regressions"]) == (10, 13, 0)


def test_many_moves_back_and_forth_are_followed() -> None:
    """Each time, the other node's clock is a minute behind."""
    first = JournalBuilder("g", "1")
    first.founded(0, a=[0])
    second = first.on("2")
    second.generation = 1
    offset = 0
    for turn in range(20):
        node, at = ((first, 0), (second, -60_000))[turn % 2]
        at += 100_000 + 10_000 * turn
        node.recovered(at, fence=turn + 2, a=[0])
        for number in range(5):
            offset += 1
            node.committed(at + 100 * number, "a", p0=offset)
    rows = commits_of(first, 7, Whole())
    assert sum(row["regressions"] for row in rows) == 0
    assert sum(row["commits"] for row in rows) == offset == rows[-1]["last_offset"]
