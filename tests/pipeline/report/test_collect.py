"""What is taken out of the tables for a report."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.report import Caps, write_report
from coterie_pipeline.report.charts import Chart, charts
from coterie_pipeline.report.collect import collect
from coterie_pipeline.report.model import Cost, Report, Some, Span
from coterie_pipeline.report.page import page
from tests.pipeline.report.frames import (
    Rows,
    after,
    faulty,
    frame,
    frames,
    joined,
    owned,
    rebalanced,
)

pytestmark = [pytest.mark.slow, pytest.mark.slow]

HOUR = {"group": "billing", "hour_ms": after(0), "regressions": 0, "possible_overlaps": 0}

ROWS: Rows = {
    "nodes": [
        {
            "node": name,
            "lines": 100,
            "first_ms": after(start),
            "last_ms": after(end),
            **dict.fromkeys(("missing", "gaps", "duplicates", "conflicts", "starts", "crashes"), 0),
            "clock_back_ms": 0,
            "clock_behind_ms": 0,
        }
        for name, start, end in (("2", 10, 480), ("1", 0, 300))
    ],
    "unread": [
        {"segment": "/j/b.jsonl", "why": "torn", "excerpt": "{"},
        {"segment": "/j/a.jsonl", "why": "torn", "excerpt": "{"},
        {"segment": "/j/c.txt", "why": "foreign", "excerpt": "hello"},
    ],
    "rebalances": [
        rebalanced(1, 0, stopped_partition_ms=0, cause="member_joined", root_cause="member_joined"),
        rebalanced(
            2,
            100,
            stopped_partition_ms=40_000,
            went=[f"m-{number}" for number in range(9)],
            late=[("m-1", None, "/10.0.0.1", 900, "joined")],
        ),
        rebalanced(3, 140, cause="revocation_follow_up", root=2, stopped_partition_ms=5_000),
    ],
    "ownership": [
        owned(0, "a", 1, 100),
        owned(0, "b", 140, 480, ended="open", member="m-7"),
        owned(1, "a", 1, 479.5, ended="left", host=None),
    ],
    "ownership_faults": [
        faulty("gap", 0, 100, 140, rebalance=2),
        faulty("gap", 0, 140, 145, rebalance=3),
        faulty("gap", 1, 479.5, 480, rebalance=None, is_open=True),
        faulty("overlap", 1, 200, 201, rebalance=2),
        faulty("silence", 0, 88, 100, rebalance=2, member="a"),
    ],
    "member_sessions": [
        joined("pod-a", "a", None, None),
        joined("pod-b", "m-6", 5, 100),
        joined("pod-b", "m-7", 120, None, is_flapping=True),
    ],
    "commits": [
        {
            "group": "billing",
            "topic": "orders",
            "partition": 0,
            "hour_ms": hour,
            "commits": 31,
            "first_ms": hour,
            "last_ms": hour + 30_000,
            "advanced": 10,
            "regressions": int(hour == after(0)),
            "deepest_regression": 3,
            "outside": 0,
            "lag": lag,
        }
        for hour, lag in ((after(0), 5), (after(90), 2))
    ],
    "group_health": [
        {
            **HOUR,
            "members": 2,
            "rebalances": 3,
            "owned_partition_ms": 900_000,
            "stopped_partition_ms": 45_500,
            "silent_partition_ms": 12_000,
            "overlaps": 1,
        },
        {**HOUR, "hour_ms": after(3600), "members": 5, "owned_partition_ms": 100_000},
        {**HOUR, "group": "quiet", "members": 1, "rebalances": 0, "overlaps": 0},
    ],
    "advice": [
        {"group": group, "rule": said, "severity": severity, "sentence": said, "about": about}
        for group, severity, said, about in (
            ("billing", "note", "third", ""),
            ("billing", "wrong", "first", ""),
            *(("billing", "costly", "second", f"m-{number}") for number in range(9)),
            *(("quiet", "costly", "second", f"q-{number}") for number in range(118)),
        )
    ],
}


@pytest.fixture(scope="module")
def collected(spark: SparkSession) -> Report:
    """The report of the scene above."""
    return collect(frames(spark, ROWS), Caps())


def test_span_is_from_the_earliest_line_to_the_latest(collected: Report) -> None:
    assert collected.span == Span(after(0), after(480))
    assert [node.node for node in collected.nodes] == ["1", "2"]


def test_unread_lines_are_counted_with_an_example(collected: Report) -> None:
    found = [(each.why, each.lines, each.segment) for each in collected.unread]
    assert found == [("foreign", 1, "/j/c.txt"), ("torn", 2, "/j/a.jsonl")]


def test_groups_with_trouble_come_first(collected: Report) -> None:
    assert [line.group for line in collected.lines] == ["billing", "quiet"]
    assert collected.totals.groups == 2
    assert collected.totals.groups_with_overlaps == 1


def test_a_line_has_the_figures_of_all_hours(collected: Report) -> None:
    line, _ = collected.lines
    assert (line.rebalances, line.stopped_partition_ms, line.owned_partition_ms) == (
        3,
        45_500,
        1_000_000,
    )
    assert (line.members, line.partitions, line.flapping, line.overlaps) == (5, 2, 1, 1)
    assert (line.silent_partition_ms, line.cost_ms) == (12_000, 57_500)
    # An owner that is silent is not at work.
    assert line.availability == (1_000_000 - 12_000) / 1_045_500


def test_a_line_has_the_cause_that_cost_most(collected: Report) -> None:
    line, quiet = collected.lines
    assert (line.main_cause, line.main_cause_rebalances) == ("session_expired", 2)
    assert (quiet.main_cause, quiet.main_cause_rebalances) == ("", 0)


def test_what_stood_still_is_split_by_time(collected: Report) -> None:
    # A part of the time is ten seconds here; the gap from 100 s to 140 s fills four of them.
    line, quiet = collected.lines
    # So do the twelve of silence before it.
    assert line.stopped_by_time_ms[8:16] == (2_000, *[10_000] * 5, 5_000, 0)
    assert sum(line.stopped_by_time_ms) == 45_000 + 500 + 12_000
    assert quiet.stopped_by_time_ms == ()


def test_advice_is_in_the_order_of_its_weight(collected: Report) -> None:
    assert [each.sentence for each in collected.advice] == ["first", "second", "third"]
    detail, _ = collected.details
    assert [each.sentence for each in detail.advice] == ["first", "second", "third"]


def test_advice_that_is_alike_is_one_piece(collected: Report) -> None:
    # Over all groups, and again in each of them.
    _, second, _ = collected.advice
    assert (second.group, second.about) == ("billing", "m-0")
    assert (second.alike.count, second.groups) == (126, 2)
    assert second.alike.names[0] == "billing: m-1"
    billing, quiet = (each.advice for each in collected.details)
    assert [each.alike.count for each in billing] == [0, 8, 0]
    assert billing[1].alike.names == ("m-1", "m-2", "m-3")
    assert [each.alike.count for each in quiet] == [117]


def test_every_interval_of_a_small_group_is_there(collected: Report) -> None:
    # Nothing is merged or left out, and each owner has its process.
    detail, _ = collected.details
    first, second = detail.rows
    assert [(bar.holder, bar.from_ms, bar.to_ms) for bar in first.bars] == [
        ("a", after(1), after(100)),
        ("b", after(140), after(480)),
    ]
    assert [bar.identity for bar in (*first.bars, *second.bars)] == ["pod-a", "pod-b", "pod-a"]
    assert [fault.fault for fault in first.faults] == ["silence", "gap", "gap"]
    assert [fault.fault for fault in second.faults] == ["overlap", "gap"]
    assert (detail.rows_in_all, detail.merged_below_ms) == (2, 0)


def test_rebalances_have_their_lists_cut_short(collected: Report) -> None:
    detail, _ = collected.details
    _, second, _ = detail.rebalances
    assert second.went == Some(9, ("m-0", "m-1", "m-2", "m-3", "m-4"))
    (late,) = second.late
    assert (late.member, late.instance, late.after_ms) == ("m-1", "", 900)


def test_costs_go_to_the_root_cause(collected: Report) -> None:
    # A follow-up's cost is its root's; what belongs to no rebalance has no cause.
    detail, _ = collected.details
    assert detail.costs == (
        Cost("session_expired", 1, 1, 45_000, 5_000, 12_000),
        Cost("", 0, 0, 500, 0),
        Cost("member_joined", 1, 0, 0, 0),
    )


def test_a_death_weighs_more_than_a_join(spark: SparkSession) -> None:
    # The rebalance that follows a session of 45 s is as quick as the one that a newcomer caused,
    # and the newcomer's cost more until the silence counted.
    rows: Rows = {
        **ROWS,
        "rebalances": [
            rebalanced(1, 100, cause="member_joined", root_cause="member_joined"),
            rebalanced(2, 200),
        ],
        "ownership_faults": [
            faulty("gap", 0, 100, 100.05, rebalance=1, cause="member_joined"),
            faulty("silence", 0, 155, 200, rebalance=2),
            faulty("gap", 0, 200, 200.01, rebalance=2),
        ],
    }
    line, *_ = collect(frames(spark, rows), Caps()).lines
    assert (line.main_cause, line.main_cause_rebalances) == ("session_expired", 1)


def test_processes_that_flap_come_first(collected: Report) -> None:
    detail, _ = collected.details
    flapping, other = detail.processes
    assert (flapping.identity, flapping.is_flapping, flapping.expired) == ("pod-b", True, 1)
    assert [each.member for each in flapping.sessions] == ["m-6", "m-7"]
    assert (other.identity, other.is_flapping) == ("pod-a", False)


def test_commits_are_those_of_all_hours(collected: Report) -> None:
    detail, _ = collected.details
    (line,) = detail.commits
    assert (line.commits, line.advanced, line.regressions, line.lag) == (62, 20, 1, 2)
    assert line.per_minute == pytest.approx(61 / 2)


def test_a_group_of_which_little_is_known_has_little(collected: Report) -> None:
    _, quiet = collected.details
    assert (quiet.rows, quiet.rebalances, quiet.processes, quiet.commits) == ((), (), (), ())


def test_the_same_tables_give_the_same_file(
    spark: SparkSession, collected: Report, tmp_path: Path
) -> None:
    generator = random.Random(6)
    shuffled = {
        name: generator.sample(list(rows), k=len(list(rows))) for name, rows in ROWS.items()
    }
    path = tmp_path / "report.html"
    summary = write_report(frames(spark, shuffled), path)
    assert path.read_text(encoding="utf-8") == page(collected)
    assert (summary.groups, summary.overlaps, summary.size_bytes) == (2, 1, path.stat().st_size)
    assert [*tmp_path.iterdir()] == [path]


def test_no_tables_give_a_report(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert write_report(frames(spark, {}), path).groups == 0
    assert "No partition had two owners" in path.read_text(encoding="utf-8")


def chart(
    spark: SparkSession, ownership: list[dict[str, object]], caps: Caps, *faults: dict[str, object]
) -> Chart:
    """The chart of one group, over a thousand seconds."""
    found = charts(
        frame(spark, "ownership", ownership),
        frame(spark, "ownership_faults", faults),
        frame(spark, "member_sessions", ()),
        {"billing": Span(after(0), after(1_000))},
        caps,
    )
    return found["billing"]


def test_eventful_partitions_are_drawn_first(spark: SparkSession) -> None:
    ownership = [owned(number, "a", 0, 1_000) for number in range(9)]
    faults = [faulty("gap", 7, 10, 11), faulty("overlap", 5, 10, 11), faulty("gap", 2, 10, 30)]
    found = chart(spark, ownership, Caps(rows=2), *faults)
    assert [row.partition for row in found.rows] == [2, 5]
    assert (found.rows_in_all, found.faulty_rows_left_out) == (9, 1)


def test_short_intervals_of_one_owner_are_drawn_as_one(spark: SparkSession) -> None:
    often = [owned(0, "a", number, number + 0.9) for number in range(100)]
    ownership = [*often, owned(0, "b", 100, 200), owned(0, "a", 200, 300)]
    all_of_them = chart(spark, ownership, Caps())
    assert (len(all_of_them.rows[0].bars), all_of_them.merged_below_ms) == (102, 0)
    found = chart(spark, ownership, Caps(bars=10))
    bars = [(bar.holder, bar.from_ms, bar.to_ms, bar.intervals) for bar in found.rows[0].bars]
    assert bars == [
        ("a", after(0), after(99.9), 100),
        ("b", after(100), after(200), 1),
        ("a", after(200), after(300), 1),
    ]
    assert (found.merged_below_ms, found.rows[0].intervals) == (500, 102)


def test_partitions_are_left_out_while_there_is_too_much(spark: SparkSession) -> None:
    ownership = [
        owned(partition, f"m-{number % 2}", number * 10, number * 10 + 10)
        for partition in range(6)
        for number in range(10)
    ]
    found = chart(spark, ownership, Caps(bars=35))
    assert [row.partition for row in found.rows] == [0, 1, 2]
    assert found.rows_in_all == 6


def test_even_a_single_partition_is_cut(spark: SparkSession) -> None:
    ownership = [owned(0, f"m-{number % 2}", number, number + 1) for number in range(90)]
    ownership.append(owned(0, "long", 90, 1_000))
    found = chart(spark, ownership, Caps(bars=5), faulty("overlap", 0, 50, 50.5))
    (row,) = found.rows
    assert (len(row.bars), len(row.faults), row.intervals) == (4, 1, 91)
    assert row.bars[-1].holder == "long"
