"""What is told of the past is bounded, and says where it ends and what it lacks."""

from __future__ import annotations

import collections
import gc
import json
from collections.abc import Iterable

import pytest

from coterie_protocol.journal import Event, GroupRecovered, Line, write_line
from coterie_server.journal.backwards import FoundLine
from coterie_server.past import Asked, Breath, PastLimit, StoppedError, answer, collect, past_json
from coterie_server.past.ownership import Latest, periods
from coterie_server.past.ranges import in_ranges
from tests.server.past.told import NOW, answered, owners_at
from tests.support.journal_events import completed, joined, phase, phase_joined, started
from tests.support.uncollected import uncollected

OWNED = {"m": {"t": (0, 1, 2, 4)}}


def rebalances(count: int, gap_ms: int = 10_000) -> list[Line]:
    """So many rebalances of a group with one member."""
    lines: list[Line] = []

    def tell(ts: int, event: Event) -> None:
        lines.append(Line(ts, "1", len(lines) + 1, event))

    tell(1_000, joined("m"))
    for number in range(1, count + 1):
        ts = number * gap_ms
        tell(ts, started(generation=number - 1, from_state="Stable" if number > 1 else "Empty"))
        said = phase("m", after_ms=0)
        tell(ts + 500, phase_joined(said, generation=number, took_ms=500))
        tell(ts + 2_000, completed(assigned=OWNED, generation=number))
    return lines


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([4, 0, 1, 2, 2], "0-2,4"), ([9, 7], "7,9")]
)
def test_numbers_are_told_as_ranges(numbers: Iterable[int], text: str) -> None:
    assert in_ranges(numbers) == text


def test_an_answer_that_would_be_too_large_leaves_out_what_is_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = rebalances(200)
    whole = answered(lines, "g")
    monkeypatch.setattr(answer, "ANSWER_BYTES", 40_000)
    monkeypatch.setattr(answer, "_PART_BYTES", 10_000)
    part = answered(lines, "g")
    assert len(json.dumps(part)) < 45_000
    assert part["limit"] == "size"
    assert part["since_ms"] > whole["since_ms"]
    for at_ms in range(part["since_ms"], 2_003_000, 7_777):
        assert owners_at(part, at_ms) == owners_at(whole, at_ms)
    before = answered(lines, "g", 0, part["since_ms"])
    assert before["until_ms"] == part["since_ms"]
    assert before["rebalances"]


def test_lines_that_begin_as_a_member_joins_are_not_taken_for_all_that_ever_happened() -> None:
    """A member that joins later says no generation, either."""
    lines = rebalances(5)
    assert answered(lines, "g")["limit"] == "complete"
    later = [line for line in lines if line.ts >= 30_000]
    assert answered([Line(29_000, "1", 1, joined("m")), *later], "g")["limit"] == "asked"
    assert answered(later, "g")["limit"] == "asked"


def test_memory_for_an_answer_is_free_as_soon_as_it_is_given() -> None:
    """A daemon looks for garbage in cycles so seldom that hundreds of answers would pile up."""
    lines = rebalances(200)
    answered(lines, "g")
    with uncollected():
        answered(lines, "g")
        assert gc.collect() < 200


def test_so_many_rows_are_held_and_no_more() -> None:
    rows = Latest(0, 1_000, rows_max=10)
    for number in range(100):
        row = {"topic": "t", "partition": number, "member": "m"}
        rows.take_interval({**row, "from_ms": number, "to_ms": number + 2})
    assert len(rows.held) == 10
    assert rows.since_ms == 91
    assert next(iter(periods(rows, []))).from_ms >= 91


def test_only_what_matters_for_a_time_is_read() -> None:
    lines = rebalances(50)
    read = 0

    def newest_first() -> Iterable[FoundLine]:
        nonlocal read
        for line in reversed(lines):
            read += 1
            yield from found(line)

    collected = collect(newest_first(), 490_000, lambda: None)
    assert collected.has_enough
    assert read < 25


def found(line: Line) -> list[FoundLine]:
    return [FoundLine(line.event.kind, write_line(line))]


def test_where_generations_are_missing_is_said() -> None:
    lines = rebalances(2)
    recovered = GroupRecovered(
        group="g", state="Stable", generation=7, members=("m",), assigned=OWNED, fence=9
    )
    lines.append(Line(900_000, "1", 500, recovered))
    told = answered(lines, "g")
    (missing,) = told["missing"]
    assert (missing["why"], missing["from_ms"], missing["until_ms"]) == (
        *("elsewhere", 22_000), 900_000,
    )  # fmt: skip
    assert "from generation 2 to 7" in missing["message"]
    assert (told["limit"], told["message"]) == ("complete", "Nothing happened to the group before.")
    assert told["nodes"][-1] == {"node": "1", "from_ms": 900_000, "how": "restarted"}


def test_lines_that_are_lost_or_unreadable_are_said() -> None:
    (first, *others) = rebalances(1)
    texts = [
        *(each for line in reversed(others) for each in found(line)),
        FoundLine("", "", 3_000, 5_000),
        FoundLine("member_joined", '{"v":1,"ts":2000,"node":"1"'),
        *found(first),
    ]
    collected = collect(texts, 0, lambda: None)
    told = json.loads(past_json(Asked("g", 0, NOW), collected, (0, PastLimit.JOURNAL)))
    assert [(each["from_ms"], each["until_ms"]) for each in told["missing"]] == [
        (2_000, 2_000),
        (3_000, 5_000),
    ]


def test_work_that_is_not_wanted_any_more_ends() -> None:
    breathe = Breath(60.0)
    breathe()
    breathe.is_stopped = True
    with pytest.raises(StoppedError):
        collections.deque(iter(breathe, "never"), maxlen=0)  # calls it again and again
