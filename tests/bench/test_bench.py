"""The benchmarks run, compare like with like, and report; speed is not tested."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import run as bench_run
from bench import scale_out, wire
from bench.support.measure import QUICK, Effort, Figure, interleave, ratio, summary
from bench.support.report import Column, Report, Row, as_json, as_markdown
from bench.support.wire_by_hand import DECODERS, ENCODERS
from bench.support.wire_cases import CLIENT_ID, CORRELATION_ID, Case, cases
from bench.support.wire_libraries import BY_HAND, COTERIE, contenders
from coterie_protocol import encode_request, encode_response
from tests.support.alone import run_alone
from tests.support.strategies import messages

pytestmark = pytest.mark.slow

CASES = cases()
BY_HAND_CASES = [case for case in CASES if (type(case.message).__name__, case.version) in DECODERS]


@cache
def report_of(suite: str) -> Report:
    """The report of a quick run; each suite runs once for all tests.

    It has a process of its own, as it has otherwise: suites look after the garbage of theirs.
    """
    return run_alone(bench_run.run_suite, suite, QUICK)


def figures_of(report: Report) -> list[Figure]:
    return [cell for row in report.rows for cell in row.cells if isinstance(cell, Figure)]


#: Suites that start Spark several times.
_OF_SPARK = ("cluster", "pipeline", "whatif")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.spark_slow if name in _OF_SPARK else ())
        for name in bench_run.suites()
    ],
)
def test_suite_fills_its_table(name: str) -> None:
    report = report_of(name)
    assert report.rows
    assert {len(row.cells) for row in report.rows} == {len(report.columns)}
    assert all(math.isfinite(figure.median) for figure in figures_of(report))


def test_restoring_counts_as_stopped_where_no_member_works() -> None:
    cold, warm = report_of("scale_out").rows
    stopped = cold.cells[1]
    assert isinstance(stopped, Figure)
    assert stopped.median >= scale_out.QUICK.restore_s
    assert [row.cells[-1] for row in (cold, warm)] == [0, 0]


@pytest.mark.parametrize("name", bench_run.suites())
def test_suite_has_a_purpose(name: str) -> None:
    """`--list` shows the first line of each docstring."""
    assert len(bench_run.suites()[name].split()) > 3


def test_wire_suite_reads_and_writes_all_messages() -> None:
    rows = report_of("wire").rows
    assert {(row.group, row.cells[0]) for row in rows} == {
        (direction, name)
        for direction in ("decode", "encode")
        for name in (
            "Heartbeat request v0",
            "Heartbeat request v3",
            "Heartbeat request v4",
            "JoinGroup request v5",
            "JoinGroup request v9",
            "JoinGroup response v5, 1,000 members",
            "JoinGroup response v9, 1,000 members",
            "SyncGroup request v3, 1,000 assignments",
            "SyncGroup request v5, 1,000 assignments",
            "OffsetCommit request v3, 100 partitions",
            "OffsetCommit request v9, 100 partitions",
        )
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_libraries_do_the_same_work(case: Case) -> None:
    wire.agree(case, contenders(case))


@pytest.mark.parametrize("direction", ["decode", "encode"])
def test_library_that_differs_stops_the_benchmark(direction: str) -> None:
    case = BY_HAND_CASES[0]
    by_hand, coterie, *_ = contenders(case)
    assert (by_hand.name, coterie.name) == (BY_HAND, COTERIE)

    def cheat(what: Any) -> Any:
        return what[:-1]

    changes: dict[str, Any] = (
        {"values": lambda decoded: cheat(list(decoded))}
        if direction == "decode"
        else {"encode": lambda message: cheat(by_hand.encode(message))}
    )
    with pytest.raises(AssertionError, match="by hand"):
        wire.agree(case, [coterie, replace(by_hand, **changes)])


@pytest.mark.parametrize("case", BY_HAND_CASES, ids=lambda case: case.name)
@settings(max_examples=30)
@given(data=st.data())
def test_code_by_hand_handles_every_message_of_its_version(case: Case, data: st.DataObject) -> None:
    """So it is not fast by being wrong about nulls, long strings or large numbers."""
    cls, version = type(case.message), case.version
    message = data.draw(messages(cls, version))
    if case.is_request:
        client_id = data.draw(st.none() | st.text(max_size=20))
        frame = encode_request(message, version, CORRELATION_ID, client_id)
    else:
        frame = encode_response(message, version, CORRELATION_ID)
    by_hand, coterie, *_ = contenders(case)
    read = by_hand.decode(frame[4:])
    assert by_hand.values(read) == coterie.values(coterie.decode(frame[4:]))
    assert by_hand.encode(read) == frame


def test_code_by_hand_skips_unknown_tagged_fields_of_the_header() -> None:
    (case,) = (case for case in BY_HAND_CASES if case.title == "Heartbeat request")
    frame = encode_request(case.message, case.version, CORRELATION_ID, CLIENT_ID)
    at = 14 + len(CLIENT_ID)
    with_tag = frame[4:at] + b"\x01\x05\x02ab" + frame[at + 1 :]
    by_hand, *_ = contenders(case)
    assert by_hand.decode(with_tag) == by_hand.decode(frame[4:])


def test_code_by_hand_reads_and_writes_the_same_messages() -> None:
    assert DECODERS.keys() == ENCODERS.keys()
    assert len(BY_HAND_CASES) == len(DECODERS)


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    contestants = {name: lambda name=name: calls.append(name) for name in "ABC"}
    seconds = interleave(contestants, Effort(rounds=3, turn_ms=0.0, quick=True))
    assert "".join(calls[-9:]) == "ABCBCACAB"
    assert {name: len(times) for name, times in seconds.items()} == {"A": 3, "B": 3, "C": 3}


def test_ratio_is_taken_round_by_round() -> None:
    """So a round in which the machine was slow does not change the ratio."""
    assert ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Figure(2.0, 2.0, 2.0)


def test_spread_is_half_the_distance_between_the_quartiles() -> None:
    """So a single outlier changes neither the median nor the spread."""
    figure = summary([9.0, 10.0, 10.0, 11.0, 900.0], unit="ms")
    assert (figure.median, figure.low, figure.high) == (10.0, 10.0, 11.0)
    assert figure.spread == pytest.approx(0.05)


REPORT = Report(
    "Title",
    (Column("name", "the\nname"), Column("size", "size"), Column("over", "over")),
    (
        Row("one", ("a", 1234, Figure(2.34, 2.3, 2.4, reached=True))),
        Row("two", ("b", None, Figure(123.4, 120.0, 130.0, "ms")), {"over": " (v1)"}),
    ),
    ("A note.",),
)


def test_markdown_has_a_table_per_group() -> None:
    assert as_markdown(REPORT).splitlines() == [
        "### Title",
        "",
        "**one**",
        "",
        "| the name | size | over |",
        "| --- | ---: | ---: |",
        "| a | 1,234 | 2.3x |",
        "",
        "**two**",
        "",
        "| the name | size | over |",
        "| --- | ---: | ---: |",
        "| b | - | 123 ms (v1) |",
        "",
        "A note.",
    ]


def test_json_has_quartiles_and_aims() -> None:
    first, second = as_json(REPORT)["rows"]
    assert first["over"] == {"median": 2.34, "low": 2.3, "high": 2.4, "unit": "x", "reached": True}
    assert second["over"] == {"median": 123.4, "low": 120.0, "high": 130.0, "unit": "ms"}
    assert second["marks"] == {"over": " (v1)"}


def test_command_writes_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "figures.json"
    assert bench_run.main(["--quick", "--json", str(target), "wire_memory"]) == 0
    written = json.loads(target.read_text(encoding="utf-8"))
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    assert len(written["suites"]["wire_memory"]["rows"]) == len(CASES)
    assert "Heartbeat request v4" in capsys.readouterr().out


def test_command_lists_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_run.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(bench_run.suites())


def test_command_refuses_unknown_suites(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_run.main(["wires"])
    complaint = capsys.readouterr().err.replace("\n", " ")
    assert "no suite 'wires'" in complaint
    assert all(name in complaint for name in bench_run.suites())
