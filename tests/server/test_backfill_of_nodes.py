"""What a node tells of rebalances of which other nodes have written, or nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_protocol.journal import Event, OffsetsCommitted
from coterie_server.history import Beginning, HistoryLimit, RebalanceOutcome
from tests.server.restarts import (
    STARTED_MS,
    known,
    recovered,
    restarted,
    round_of,
    uninterrupted,
    write,
)

COMMIT = OffsetsCommitted(group="other", member="", generation=-1, offsets={"t": {"0": 5}})


def test_lines_of_workers_that_took_turns_are_in_the_order_of_time(tmp_path: Path) -> None:
    """Their files lie in one folder, and each holds what was before and after the other's turn."""
    began = [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)]
    back = [(48_000, recovered(4)), *round_of(50_000, 5)]
    between = [(18_000, recovered(2)), *round_of(20_000, 3), *round_of(30_000, 4)]
    write(tmp_path, began + back, node="1")
    write(tmp_path, between, node="2")
    history, beginning = restarted(tmp_path)
    assert history.last("g") == uninterrupted(began, between, back).last("g")
    assert known(history) == [5, 4, 3, 2, 1]
    assert beginning == Beginning(None, HistoryLimit.COMPLETE)


def test_only_so_many_rebalances_are_read_back_whoever_had_the_group(tmp_path: Path) -> None:
    began = [event for n in range(1, 20) for event in round_of(10_000 * n, n)]
    between = [(198_000, recovered(19)), *round_of(200_000, 20), *round_of(210_000, 21)]
    back = [(218_000, recovered(21)), *round_of(220_000, 22)]
    write(tmp_path, began + back, node="1")
    write(tmp_path, between, node="2")
    history, _ = restarted(tmp_path, kept=3)
    assert known(history) == [22, 21, 20]


@pytest.mark.parametrize("is_told", [True, False])
def test_rebalances_that_no_line_tells_of_are_said_to_be_missing(
    tmp_path: Path, *, is_told: bool
) -> None:
    """Another node had the group meanwhile, or this one was killed before it had written them."""
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)])
    live = [(STARTED_MS + 7, recovered(6)), *round_of(STARTED_MS + 9, 7)] if is_told else []
    history, beginning = restarted(tmp_path, live, generation=7 if is_told else 6)
    assert known(history) == [7, 2, 1][not is_told :]
    since_ms = STARTED_MS + 7 if is_told else STARTED_MS
    assert beginning == Beginning(since_ms, HistoryLimit.MISSING)


def test_rebalances_that_were_missing_in_a_former_life_still_are(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty"), (8_000, recovered(3)), *round_of(9_000, 4)])
    history, beginning = restarted(tmp_path, [(STARTED_MS, recovered(4))])
    assert known(history) == [4, 1]
    assert beginning == Beginning(8_000, HistoryLimit.MISSING)


def test_what_is_missing_matters_no_more_once_later_rebalances_are_all_that_is_kept(
    tmp_path: Path,
) -> None:
    later = [event for n in range(4, 8) for event in round_of(10_000 * n, n)]
    write(tmp_path, [*round_of(1_000, 1, "Empty"), (8_000, recovered(3)), *later])
    history, beginning = restarted(tmp_path, kept=2)
    assert known(history) == [7, 6]
    assert beginning == Beginning(52_000, HistoryLimit.KEPT)


def test_rebalance_is_not_put_together_with_one_of_a_later_generation(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)[:1]])
    live = [(STARTED_MS, recovered(6, "PreparingRebalance")), *round_of(STARTED_MS, 7)[1:]]
    history, beginning = restarted(tmp_path, live)
    outcomes = [(each.generation, each.outcome) for each in history.last("g")]
    assert outcomes[:2] == [
        (7, RebalanceOutcome.COMPLETED),
        (1, RebalanceOutcome.INTERRUPTED),
    ]
    assert history.last("g")[0].detail == ""
    assert beginning == Beginning(STARTED_MS, HistoryLimit.MISSING)


@pytest.mark.parametrize(
    ("former", "known_since_ms"),
    [
        ([], STARTED_MS),
        ([(8_000, recovered(3)), *round_of(9_000, 4)], 8_000),
        ([*round_of(9_000, 4)], 4_000),
    ],
)
def test_before_a_node_had_the_group_its_journal_tells_nothing(
    tmp_path: Path, former: list[tuple[int, Event]], known_since_ms: int
) -> None:
    """Where other nodes share the store, theirs do; the journal as such goes back further."""
    write(tmp_path, [(4_000, COMMIT), *former])
    live = [(STARTED_MS, recovered(4))]
    _, beginning = restarted(tmp_path, live, has_all=False)
    is_missing = known_since_ms > 4_000
    limit = HistoryLimit.MISSING if is_missing else HistoryLimit.JOURNAL
    assert beginning == Beginning(known_since_ms, limit)
    _, alone = restarted(tmp_path, live)
    assert alone == Beginning(4_000, HistoryLimit.JOURNAL)


def test_a_group_that_was_founded_here_is_known_in_full(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty")])
    assert restarted(tmp_path, [(STARTED_MS, recovered(1))], has_all=False)[1] == Beginning(
        None, HistoryLimit.COMPLETE
    )
    new = round_of(STARTED_MS, 1, "Empty")
    (tmp_path / "empty").mkdir()
    assert restarted(tmp_path / "empty", new, has_all=False)[1] == Beginning(
        None, HistoryLimit.COMPLETE
    )
