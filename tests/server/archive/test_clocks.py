"""Journals of nodes whose clocks disagree tell what those of nodes with good clocks do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coterie_protocol.journal import GroupDeleted, GroupEmptied, GroupRecovered, Line
from coterie_server.archive import Journals, journals
from coterie_server.archive.ends import GroupEnd
from tests.server.archive.test_journals import groups_of, past
from tests.server.past.told import owners_at
from tests.support.journal_builder import JournalBuilder
from tests.support.journal_events import completed, phase, phase_joined, started
from tests.support.journals import handed_over, simulated, write_journal
from tests.support.profiles import mostly_slow

Read = Callable[[Sequence[Line]], Journals]

NODES = ("x", "y", "z")
HOUR_MS = 3_600_000


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    """Writes lines as journals, reads these, and closes them in the end."""
    with ExitStack() as stack:

        def read(lines: Sequence[Line]) -> Journals:
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            write_journal(lines, folder)
            found = Journals.read([folder], lambda _: None)
            stack.callback(found.close)
            return found

        yield read


def shown(end: GroupEnd) -> dict[str, Any]:
    """What a group's end says, without dates."""
    owned = {each.member: each.owned for each in end.members.values()}
    names = ("state", "generation", "node", "leader", "awaited")
    return {name: getattr(end, name) for name in names} | {"owned": owned}


@pytest.mark.parametrize("behind_ms", [{"y": HOUR_MS}, {"x": 40_000, "z": -90_000}])
@pytest.mark.parametrize("seed", mostly_slow(range(4)))
def test_the_end_is_that_of_the_node_that_had_the_group_last(
    read: Read, seed: int, behind_ms: dict[str, int]
) -> None:
    lines = simulated(seed, "hostile")
    right = read(handed_over(lines, NODES, {}))
    wrong = read(handed_over(lines, NODES, behind_ms))
    for group in groups_of(lines):
        assert shown(wrong.brief_end(group)) == shown(right.end(group))
        assert shown(wrong.end(group)) == shown(right.end(group))


@pytest.mark.parametrize("seed", mostly_slow(range(4)))
def test_a_short_time_is_told_like_the_same_part_of_a_long_one(read: Read, seed: int) -> None:
    lines = handed_over(simulated(seed, "hostile"), NODES, {"y": 9_000, "z": -5_000})
    found = read(lines)
    for group in groups_of(lines):
        until_ms = found.until_ms(group)
        whole, part = past(found, group), past(found, group, until_ms - 20_000)
        for at_ms in range(max(part["since_ms"], until_ms - 20_000), until_ms, 250):
            assert owners_at(part, at_ms) == owners_at(whole, at_ms)


def test_a_new_life_of_a_group_comes_after_its_deletion(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line tells that a node has read the group, as there was none to read."""
    monkeypatch.setattr(journals, "_BRIEF_LINES", 2)
    again = [
        (50, started(generation=3, from_state="Empty")),
        (51, phase_joined(phase("n", after_ms=0), generation=4)),
        (52, completed(assigned={"n": {"t": (0,)}}, generation=4)),
    ]
    told = {
        "1": [(10, recovered(2, 5)), *again],
        "2": [
            (20, recovered(2, 7)),
            (30, GroupEmptied(group="g", generation=3)),
            (40, GroupDeleted(group="g", generation=3, how="requested")),
        ],
    }
    found = read(
        [
            Line(ts, node, seq, event)
            for node, events in told.items()
            for seq, (ts, event) in enumerate(events, start=1)
        ]
    )
    assert shown(found.brief_end("g"))["state"] == "Stable"
    assert found.brief_end("g").node == "1"


def recovered(generation: int, fence: int) -> GroupRecovered:
    """A node reads the group."""
    return GroupRecovered(
        group="g", state="Stable", generation=generation, members=("m",), fence=fence,
        assigned={"m": {"t": (0,)}},
    )  # fmt: skip


@pytest.mark.parametrize("deleted_at", [6_000, -4_000])
def test_a_topic_was_deleted_when_the_groups_own_node_heard_of_it(
    tmp_path: Path, deleted_at: int
) -> None:
    builder = JournalBuilder("g")
    builder.founded(0, a=[0, 1])
    builder.started(1_000, "topic_changed", ["a"], detail="g deleted")
    builder.phase(1_100, 100, {"a": (60, [])})
    builder.completed(1_110, {"a": []})
    builder.gone(9_000, "a")
    builder.on("catalogue").topic_changed(deleted_at, "deleted", 2, 0)
    builder.write(tmp_path)
    found = Journals.read([tmp_path], lambda _: None)
    told = past(found, "g")
    assert told["spans"] == []
    assert found.end("g").rebalances[0].stopped_partition_ms == 0
    found.close()
