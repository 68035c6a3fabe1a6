"""Replays of one setting are summarize up, and what has no outcome is counted."""

from __future__ import annotations

from typing import Any

from coterie_pipeline.whatif.replays import summarize
from coterie_pipeline.whatif.table import RUNS, WHAT_IF


def run(seed: int, **values: Any) -> dict[str, Any]:
    """One replay."""
    good: dict[str, Any] = {
        "group": "g",
        "place": 2,
        "setting": "assignor=range",
        "seed": seed,
        "lines": 7,
        "left_out": 1,
        "from_ms": 1_000,
        "to_ms": 2_000,
        "assumed": [],
        "session_timeout_ms": 10_000,
        "by_cause": {"member_joined": 2},
        "stopped_s": 4.0,
        "moved": 3,
        "overlap_s": 0.0,
        "steps": 100,
    }
    return dict.fromkeys(RUNS.names) | good | values


def test_row_has_medians_and_spreads() -> None:
    # A cause that a replay does not have counts as none; a time that it does not have is none.
    row = summarize(
        [
            run(2, by_cause={"member_joined": 2, "member_left": 4}, stopped_s=8.0, overlap_s=0.5),
            run(0, slowest_takeover_s=11.0, takeover_s=10.0),
            run(1, moved=5),
        ]
    )
    assert row == dict.fromkeys(WHAT_IF.names) | {
        "group": "g",
        "place": 2,
        "setting": "assignor=range",
        "replays": 3,
        "failed": 0,
        "lines": 7,
        "left_out": 1,
        "from_ms": 1_000,
        "to_ms": 2_000,
        "assumed": [],
        "session_timeout_ms": 10_000,
        "rebalances": 2.0,
        "rebalances_least": 2,
        "rebalances_most": 6,
        "by_cause": {"member_joined": 2.0, "member_left": 0.0},
        "stopped_s": 4.0,
        "stopped_least_s": 4.0,
        "stopped_most_s": 8.0,
        "moved": 3.0,
        "moved_least": 3,
        "moved_most": 5,
        "takeover_s": 10.0,
        "slowest_takeover_s": 11.0,
        "slowest_takeover_least_s": 11.0,
        "slowest_takeover_most_s": 11.0,
        "overlap_s": 0.5,
        "steps": 300,
    }


def test_failed_replays_are_counted_and_left_out() -> None:
    failed = {"by_cause": None, "steps": None, "from_ms": None, "why": "too long"}
    row = summarize([run(0, **failed), run(1)])
    assert (row["replays"], row["failed"], row["why"]) == (2, 1, "too long")
    assert (row["rebalances"], row["from_ms"], row["steps"]) == (2.0, 1_000, 100)
    row = summarize([run(0, **failed)])
    assert (row["failed"], row["rebalances"], row["by_cause"]) == (1, None, None)


def test_row_of_the_journal_itself_counts_no_replays() -> None:
    assert summarize([run(0, place=0)])["replays"] == 0
