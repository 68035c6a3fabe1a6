"""Whatever lines say, replaying them gives rows of the declared types, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from coterie_pipeline.tables import FAULTS, OWNERSHIP, REBALANCES, SESSIONS
from coterie_protocol.journal import MemberReplaced
from coterie_protocol.replay import GroupLines, Source, replay_group, spool
from tests.pipeline.replay.churn import churn
from tests.pipeline.replay.strategies import lines_of_a_group
from tests.support.journal_events import phase, phase_joined
from tests.support.profiles import examples

_TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "ARRAY<STRING>": pa.list_(pa.string()),
}

#: The columns of the tables that replaying gives, as Arrow has them.
SCHEMAS = {
    table.name: [
        (column.name, _TYPES[column.type]) for column in table.columns if column.name != "late"
    ]
    for table in (REBALANCES, OWNERSHIP, FAULTS, SESSIONS)
}


def rows_of(lines: list[Source]) -> list[tuple[str, dict[str, Any]]]:
    """All that a group's lines tell; a topic was deleted in between."""
    return list(replay_group("g", GroupLines(lines), {"a": [10_000, 20_000]}))


@examples(75)
@given(lines=lines_of_a_group())
def test_any_lines_give_rows_that_can_be_stored(lines: list[Source]) -> None:
    for name, row in rows_of(lines):
        for column, type_ in SCHEMAS.get(name, ()):
            pa.array([row[column]], type_)
        assert row.get("from_ms", 0) >= 0
        assert row.get("to_ms", 0) >= row.get("from_ms", 0)


def test_interval_that_ends_before_its_last_holder_came_has_no_length() -> None:
    """A join is dated back to when it came: before its member came back, by a clock set back."""
    first, second = (
        replace(phase(member, 0, owned), instance="i")
        for member, owned in (("a", {"t": (0,)}), ("b", {}))
    )
    back = MemberReplaced(
        group="g",
        instance="i",
        member="b",
        host="h",
        former_member="a",
        former_host="h",
        silent_ms=0,
    )
    told = (
        (0, phase_joined(first, took_ms=0), "phase_joined"),
        (1_000, back, "member_replaced"),
        (0, phase_joined(second, took_ms=1), "phase_joined"),
    )
    lines = [
        Source(node="n", seq=seq, ts=ts, values={**asdict(event), "kind": kind}, size=400)
        for seq, (ts, event, kind) in enumerate(told, 1)
    ]
    held = [row for name, row in rows_of(lines) if name == OWNERSHIP.name]
    assert [(row["member"], row["from_ms"], row["to_ms"]) for row in held] == [
        ("a", 0, 1_000),
        ("b", 1_000, 1_000),
    ]
    assert all(row["released_ms"] >= row["to_ms"] for row in held)


@examples(20)
@given(lines=lines_of_a_group())
def test_what_does_not_fit_into_memory_changes_nothing(lines: list[Source]) -> None:
    expected = rows_of(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_HELD_BYTES", 0)
        patch.setattr(spool, "_FRAME_ITEMS", 2)
        patch.setattr(spool, "_HELD_ROWS", 3)
        patch.setattr(spool, "_MERGED_ROWS", 2)
        assert rows_of(lines) == expected


def peak_mb(rebalances: int) -> float:
    """The most memory that replaying takes, if what comes out is passed on."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in replay_group("g", GroupLines(churn(rebalances)), {}))
        assert count > 10 * rebalances
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_grows_by_little_with_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    # An eighth of what is held otherwise: that many lines take a while.
    monkeypatch.setattr(spool, "_HELD_BYTES", 1 << 20)
    monkeypatch.setattr(spool, "_HELD_ROWS", 2_500)
    # Of what 1,500 more rebalances have, which is twice as much, little is held.
    few, more = peak_mb(500), peak_mb(2_000)
    assert more - few < 6


def peak_rss_mb(lines: int) -> float:
    """The most memory that a process takes in which all tables of a group are made."""
    command = [sys.executable, "-m", "tests.pipeline.replay.long_group", str(lines)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] > lines
    return float(found["peak_mb"])


@pytest.mark.slow
def test_process_does_not_grow_with_the_lines_of_a_group() -> None:
    # All of it: Arrow's batches, the tables' rows, and what sums them up.
    few, more = peak_rss_mb(20_000), peak_rss_mb(80_000)
    assert more < 1.5 * few
