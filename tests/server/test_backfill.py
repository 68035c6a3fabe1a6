"""What a node tells of a group's rebalances after a restart, from its journal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from coterie_protocol.journal import (
    GroupDeleted,
    GroupRecovered,
    Line,
    OffsetsCommitted,
)
from coterie_protocol.journal_text import segment_name
from coterie_server.backfill import Backfill
from coterie_server.history import Beginning, History, HistoryLimit, RebalanceOutcome
from coterie_server.journal import backwards, list_segments
from coterie_server.journal.backwards import ReadLimits
from tests.server.restarts import (
    OWNED,
    RECOVERED,
    STARTED_MS,
    known,
    recovered,
    restarted,
    round_of,
    uninterrupted,
    write,
)
from tests.support.journal_events import completed, joined, started
from tests.support.journals import simulated, write_journal
from tests.support.profiles import by_profile

COMMIT = OffsetsCommitted(group="g", member="", generation=-1, offsets={"t": {"0": 5}})


# -- what is known after a restart -----------------------------------------------------------------


def test_rebalances_before_the_restart_are_known_with_the_same_figures(tmp_path: Path) -> None:
    before = [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2), *round_of(20_000, 3)]
    write(tmp_path, before)
    history, beginning = restarted(tmp_path, [(STARTED_MS, RECOVERED)])
    assert history.last("g") == uninterrupted(before).last("g")
    assert history.last("g")[0].stopped_partition_ms == 2 * 2_000
    assert beginning == Beginning(None, HistoryLimit.COMPLETE)


def test_later_rebalances_come_on_top(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)])
    history, _ = restarted(tmp_path, [(STARTED_MS, RECOVERED), *round_of(STARTED_MS, 3)])
    assert known(history) == [3, 2, 1]
    for ts, event in round_of(STARTED_MS + 9_000, 4):
        history.observe(ts, event)
    assert known(history) == [4, 3, 2, 1]


@pytest.mark.parametrize("seed", range(by_profile(quick=5, long=12)))
def test_restart_makes_no_difference_to_simulated_groups(tmp_path: Path, seed: int) -> None:
    lines = simulated(seed, "hostile")
    groups = {line.event.group for line in lines} - {""}
    restarts = [
        number
        for number, line in enumerate(lines)
        if isinstance(line.event, GroupRecovered)
        and not isinstance(lines[number - 1].event, GroupRecovered)
    ]
    for number in restarts:
        folder = tmp_path / str(number)
        write_journal(lines[:number], folder, packed_each=10**6)
        asyncio.run(_compare(lines, number, groups, folder))


async def _compare(lines: Sequence[Line], number: int, groups: set[str], folder: Path) -> None:
    whole, live = History(5), History(5)
    for line in lines:
        whole.observe(line.ts, line.event)
    backfill = Backfill(live, list_segments(folder), STARTED_MS)
    for line in lines[number:]:
        live.observe(line.ts, line.event)
    for group in groups:
        await backfill.look_up(group, 9)
        assert live.last(group) == whole.last(group)
        assert live.running(group) == whole.running(group)


# -- what was going on -----------------------------------------------------------------------------


@pytest.mark.parametrize("asked_after", [0, 1, 2, 3])
def test_rebalance_taken_over_a_restart_is_one(tmp_path: Path, asked_after: int) -> None:
    before = [*round_of(1_000, 1, "Empty"), (9_000, joined("n")), (9_000, started(detail="n came"))]
    write(tmp_path, before)
    recovered = GroupRecovered(
        group="g", state="PreparingRebalance", generation=1, members=("m",), assigned=OWNED
    )
    after = [(STARTED_MS, recovered), (STARTED_MS, joined("n")), *round_of(STARTED_MS, 2)[1:]]

    async def ask() -> History:
        history = History(20)
        backfill = Backfill(history, list_segments(tmp_path), STARTED_MS)
        for ts, event in after[: asked_after + 1]:
            history.observe(ts, event)
        await backfill.look_up("g", 1)
        for ts, event in after[asked_after + 1 :]:
            history.observe(ts, event)
        return history

    found = asyncio.run(ask()).last("g")
    assert found == uninterrupted(before, after).last("g")
    assert (found[0].detail, found[0].came.names) == ("n came", ("n",))
    assert found[0].started_ms == 9_000


def test_rebalance_whose_end_is_not_in_the_journal_is_interrupted(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)[:2]])
    history, _ = restarted(tmp_path, [(STARTED_MS, RECOVERED)])
    last = history.last("g")[0]
    assert (last.outcome, last.ended_ms) == (RebalanceOutcome.INTERRUPTED, STARTED_MS)


def test_group_deleted_and_created_again_has_no_past(tmp_path: Path) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"))
    gone = GroupDeleted(group="g", generation=1, how="requested")
    history, beginning = restarted(
        tmp_path, [(STARTED_MS, gone), *round_of(STARTED_MS, 2, "Empty")]
    )
    assert known(history) == [2]
    assert beginning.limit is HistoryLimit.COMPLETE


def test_group_deleted_in_a_former_life_has_no_past(tmp_path: Path) -> None:
    gone = GroupDeleted(group="g", generation=1, how="requested")
    write(tmp_path, [*round_of(1_000, 1, "Empty"), (5_000, gone), *round_of(9_000, 2, "Empty")])
    history, beginning = restarted(tmp_path)
    assert known(history) == [2]
    assert beginning.limit is HistoryLimit.COMPLETE


# -- journals as they are --------------------------------------------------------------------------


def test_torn_line_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, round_of(1_000, 1, "Empty"))
    with path.open("ab") as file:
        file.write(b'{"v":1,"ts":1,"node":"1","seq":4,"group":"g","kind":"rebalance_sta')
    write(tmp_path, [(8_000, recovered(1)), *round_of(9_000, 2)], seq=4)
    history, _ = restarted(tmp_path)
    assert known(history) == [2, 1]
    assert history.last("g")[0].stopped_partition_ms == 4_000


def test_figures_next_to_missing_lines_are_unknown_and_not_wrong(tmp_path: Path) -> None:
    """The lines that are missing may have told of other owners."""
    write(tmp_path, round_of(1_000, 1, "Empty"))
    write(tmp_path, [*round_of(9_000, 2), *round_of(20_000, 3)], seq=10)
    history, _ = restarted(tmp_path)
    assert [each.stopped_partition_ms for each in history.last("g")] == [4_000, None, 0]


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"{}\n", b"\xff\xfe[]\n", b"\n"])
def test_damaged_line_is_like_a_missing_one(tmp_path: Path, damage: bytes) -> None:
    path = write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)[:1]])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = damage  # the start of the second
    path.write_bytes(b"".join(lines))
    write(tmp_path, round_of(20_000, 3), seq=5)
    history, _ = restarted(tmp_path)
    assert [(each.generation, each.stopped_partition_ms) for each in history.last("g")] == [
        (3, None),
        (1, 0),
    ]


def test_rebalance_with_missing_lines_before_the_next_is_interrupted(tmp_path: Path) -> None:
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *round_of(9_000, 2)[:2]])
    write(tmp_path, round_of(20_000, 3), seq=7)
    history, _ = restarted(tmp_path)
    outcomes = [each.outcome for each in history.last("g")]
    assert outcomes[1] is RebalanceOutcome.INTERRUPTED


def test_former_node_ids_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"), node="9")
    write(tmp_path, [(8_000, recovered(1)), *round_of(9_000, 2)], node="10")
    write(tmp_path, [(18_000, recovered(2)), *round_of(19_000, 3)], node="9", seq=4)
    history, beginning = restarted(tmp_path)
    assert known(history) == [3, 2, 1]
    assert [each.stopped_partition_ms for each in history.last("g")] == [4_000, 4_000, 0]
    assert beginning.limit is HistoryLimit.COMPLETE


def test_other_groups_and_commits_are_not_read(tmp_path: Path) -> None:
    other = [(ts, started(group='g","kind":"x')) for ts in range(100)]
    write(tmp_path, [*round_of(1_000, 1, "Empty"), *other, *[(5_000, COMMIT)] * 100])
    assert known(restarted(tmp_path)[0]) == [1]


@pytest.mark.parametrize("group", ['"', "\\", "ä", "a.b*", "", " ", "\u2028"])
def test_any_name_is_found(tmp_path: Path, group: str) -> None:
    write(tmp_path, [(1_000, started(group=group)), (2_000, completed(group=group))])

    async def ask() -> History:
        history = History(20)
        await Backfill(history, list_segments(tmp_path), STARTED_MS).look_up(group, 1)
        return history

    assert len(asyncio.run(ask()).last(group)) == 1


# -- where the memory ends -------------------------------------------------------------------------


def test_journal_that_goes_back_no_further_is_named(tmp_path: Path) -> None:
    write(tmp_path, [(4_000, COMMIT), *round_of(9_000, 7)], seq=500)
    assert restarted(tmp_path)[1] == Beginning(4_000, HistoryLimit.JOURNAL)


def test_group_that_never_rebalanced_needs_no_journal(tmp_path: Path) -> None:
    backfill = Backfill(History(20), list_segments(tmp_path), STARTED_MS)
    found = asyncio.run(backfill.look_up("g", 0))
    assert found == Beginning(None, HistoryLimit.COMPLETE)


def test_node_without_a_journal_knows_what_happened_since_its_start() -> None:
    assert restarted(None)[1] == Beginning(STARTED_MS, HistoryLimit.NO_JOURNAL)


def test_journal_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / segment_name("1", 1)).mkdir()
    assert restarted(tmp_path, generation=9)[1] == Beginning(STARTED_MS, HistoryLimit.UNREADABLE)


def test_only_the_end_of_a_long_journal_is_read(tmp_path: Path) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"))
    write(tmp_path, round_of(9_000, 2), seq=4)
    history, beginning = restarted(tmp_path, limits=ReadLimits(bytes_max=1))
    assert known(history) == [2]
    assert beginning == Beginning(9_000, HistoryLimit.READ_BACK)


def test_only_so_many_rebalances_are_read_back(tmp_path: Path) -> None:
    rounds = [event for n in range(1, 40) for event in round_of(10_000 * n, n)]
    write(tmp_path, rounds)
    live = [(STARTED_MS, RECOVERED), *round_of(STARTED_MS, 40)]
    history, beginning = restarted(tmp_path, live, kept=3)
    assert history.last("g") == uninterrupted(rounds, live, kept=3).last("g")
    assert beginning == Beginning(10_000 * 37 + 2_000, HistoryLimit.KEPT)


def test_files_deleted_meanwhile_are_the_journals_beginning(tmp_path: Path) -> None:
    first = write(tmp_path, round_of(1_000, 1, "Empty"))
    write(tmp_path, round_of(9_000, 2), seq=4)
    segments = list_segments(tmp_path)
    first.unlink()
    backfill = Backfill(History(20), segments, STARTED_MS)
    assert asyncio.run(backfill.look_up("g", 2)) == Beginning(9_000, HistoryLimit.JOURNAL)


@pytest.mark.parametrize("has_journal", [True, False])
def test_group_that_is_new_in_this_life_is_known_in_full(
    tmp_path: Path, *, has_journal: bool
) -> None:
    folder = tmp_path if has_journal else None
    history, beginning = restarted(folder, round_of(STARTED_MS, 1, "Empty"))
    assert known(history) == [1]
    assert beginning == Beginning(None, HistoryLimit.COMPLETE)


@pytest.mark.parametrize("block_bytes", [1, 100, 3_000])
def test_lines_are_put_together_from_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    before = [event for n in range(1, 9) for event in round_of(10_000 * n, n)]
    path = write(tmp_path, before)
    with path.open("ab") as file:
        file.write(b'{"v":1,"ts":1,"no')
    monkeypatch.setattr(backwards, "_BLOCK_BYTES", block_bytes)
    assert restarted(tmp_path)[0].last("g") == uninterrupted(before).last("g")


def test_questions_at_the_same_time_are_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"))
    reads: list[str] = []
    iterate = backwards.BackwardReader.__iter__

    def counted(reader: backwards.BackwardReader) -> Iterator[backwards.FoundLine]:
        reads.append(reader.group)
        return iterate(reader)

    monkeypatch.setattr(backwards.BackwardReader, "__iter__", counted)

    async def ask() -> None:
        backfill = Backfill(History(20), list_segments(tmp_path), STARTED_MS)
        await asyncio.gather(*(backfill.look_up(name, 1) for name in "ggghg"))
        await backfill.look_up("g", 1)

    asyncio.run(ask())
    assert sorted(reads) == ["g", "h"]


def test_question_that_is_dropped_stops_no_other(tmp_path: Path) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"))

    async def ask() -> list[int]:
        history = History(20)
        backfill = Backfill(history, list_segments(tmp_path), STARTED_MS)
        dropped = asyncio.create_task(backfill.look_up("g", 1))
        await asyncio.sleep(0)
        dropped.cancel()
        await backfill.look_up("g", 1)
        return known(history)

    assert asyncio.run(ask()) == [1]


def test_answer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, round_of(1_000, 1, "Empty"))
    is_to_read = threading.Event()
    monkeypatch.setattr("coterie_server.backfill._PATIENCE_S", 0)
    monkeypatch.setattr("coterie_server.backfill._replay", lambda *_: is_to_read.wait())

    async def ask() -> Beginning:
        backfill = Backfill(History(20), list_segments(tmp_path), STARTED_MS)
        found = await backfill.look_up("g", 1)
        is_to_read.set()
        await backfill.close()
        return found

    assert asyncio.run(ask()) == Beginning(STARTED_MS, HistoryLimit.READING)
