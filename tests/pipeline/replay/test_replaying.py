"""Whatever lines say, replaying them gives rows of the declared types, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from coterie_pipeline.tables import FAULTS, OWNERSHIP, REBALANCES, SESSIONS
from coterie_protocol.replay import GroupLines, Source, replay_group, spool
from tests.pipeline.replay.strategies import lines_of_a_group
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


def churn(rebalances: int) -> Iterator[Source]:
    """A group in which one of five members goes and another one comes, again and again."""
    seq, ts = 0, 0
    members = [f"m{number}" for number in range(5)]

    def line(kind: str, **values: Any) -> Source:
        nonlocal seq
        seq += 1
        return Source("n", seq, ts, {"kind": kind, "group": "g", **values}, 800)

    for number in range(rebalances):
        ts += 10_000
        gone, fresh = members.pop(0), f"m{number + 5}"
        members.append(fresh)
        yield line(
            "member_gone", member=gone, instance=None, host="/h", how="session_expired",
            silent_ms=10_000, session_timeout_ms=10_000, reason="",
        )  # fmt: skip
        yield line(
            "member_joined", member=fresh, instance=None, client_id=fresh, host="/h",
            session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocols=["range"],
            topics=["t"], reason="",
        )  # fmt: skip
        yield line(
            "rebalance_started", generation=number, from_state="Stable", cause="session_expired",
            detail="", awaited=members, deadline=None, follows=None,
        )  # fmt: skip
        ts += 100
        phases: list[dict[str, Any]] = [
            {"member": member, "instance": None, "host": "/h", "joined_after_ms": 50, "owned": {}}
            for member in members
        ]
        yield line(
            "phase_joined", generation=number + 1, protocol="range", leader=fresh, members=phases,
            dropped=[], cause="session_expired", took_ms=100,
        )  # fmt: skip
        yield line(
            "rebalance_completed", generation=number + 1, cause="session_expired",
            assigned={member: {"t": [index]} for index, member in enumerate(members)},
            moved=1, revoked=0, needs_rejoin=False, took_ms=1, total_ms=100,
        )  # fmt: skip


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
def test_memory_grows_by_little_with_the_lines() -> None:
    # 20,000 lines are 17 MB of text; of 60,000 more, which are 50 MB, little is held.
    few, more = peak_mb(4_000), peak_mb(16_000)
    assert more - few < 25
