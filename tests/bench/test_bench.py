"""The benchmarks run, compare like with like, and say what they found; how fast is not tested."""

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
from bench import wire
from bench.support.by_hand_decode import DECODERS
from bench.support.by_hand_encode import ENCODERS
from bench.support.measure import QUICK, Effort, Figure, interleave, ratio, summary
from bench.support.report import Column, Report, Row, as_json, as_markdown
from bench.support.wire_cases import CLIENT_ID, CORRELATION_ID, Case, cases
from bench.support.wire_libraries import BY_HAND, COTERIE, contenders
from coterie_protocol import encode_request, encode_response
from tests.support.strategies import messages

pytestmark = pytest.mark.slow

CASES = cases()


@cache
def report_of(suite: str) -> Report:
    """Return what a suite finds in quick mode; each is run once for all tests."""
    return bench_run.run_suite(suite, QUICK)


def figures_of(report: Report) -> list[Figure]:
    """Return all figures of a report."""
    return [cell for row in report.rows for cell in row.cells if isinstance(cell, Figure)]


#: Suites that start Spark, again and again.
_OF_SPARK = ("pipeline", "whatif")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.spark_slow if name in _OF_SPARK else ())
        for name in bench_run.suites()
    ],
)
def test_suite_fills_its_table(name: str) -> None:
    """Each suite runs in quick mode and gives rows with a cell for every column."""
    report = report_of(name)
    assert report.rows
    assert {len(row.cells) for row in report.rows} == {len(report.columns)}
    assert all(math.isfinite(figure.median) for figure in figures_of(report))


@pytest.mark.parametrize("name", bench_run.suites())
def test_suite_says_what_it_measures(name: str) -> None:
    """Each suite's docstring starts with a line for `--list`."""
    assert len(bench_run.suites()[name].split()) > 3


def test_wire_suite_has_all_promised_messages() -> None:
    """Every message of the plan is there, read and written."""
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
    """What is timed reads the same values and writes the same bytes."""
    wire.agree(case, contenders(case))


@pytest.mark.parametrize("direction", ["decode", "encode"])
def test_library_that_differs_stops_the_benchmark(direction: str) -> None:
    """A contender that reads or writes something else is never timed."""
    by_hand, coterie, *_ = contenders(CASES[0])
    assert (by_hand.name, coterie.name) == (BY_HAND, COTERIE)

    def cheat(what: Any) -> Any:
        return what[:-1]

    changes: dict[str, Any] = (
        {"values": lambda decoded: cheat(list(decoded))}
        if direction == "decode"
        else {"encode": lambda message: cheat(by_hand.encode(message))}
    )
    with pytest.raises(AssertionError, match="by hand"):
        wire.agree(CASES[0], [coterie, replace(by_hand, **changes)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=30)
@given(data=st.data())
def test_floor_handles_every_message_of_its_version(case: Case, data: st.DataObject) -> None:
    """The code by hand is no faster for being wrong about nulls, long strings or large numbers."""
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


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.startswith("Heartbeat request v4")]
)
def test_floor_skips_unknown_tagged_fields_of_the_header(case: Case) -> None:
    """A header with a tagged field does not throw the code by hand off."""
    frame = encode_request(case.message, case.version, CORRELATION_ID, CLIENT_ID)
    at = 14 + len(CLIENT_ID)
    with_tag = frame[4:at] + b"\x01\x05\x02ab" + frame[at + 1 :]
    by_hand, *_ = contenders(case)
    assert by_hand.decode(with_tag) == by_hand.decode(frame[4:])


def test_floor_has_both_directions() -> None:
    """What can be read by hand can be written by hand."""
    assert DECODERS.keys() == ENCODERS.keys()


def test_contenders_take_turns() -> None:
    """Each round calls every contender once, and starts with another one."""
    calls: list[str] = []
    contestants = {name: lambda name=name: calls.append(name) for name in "ABC"}
    seconds = interleave(contestants, Effort(rounds=3, turn_ms=0.0, quick=True))
    assert "".join(calls[-9:]) == "ABCBCACAB"
    assert {name: len(times) for name, times in seconds.items()} == {"A": 3, "B": 3, "C": 3}


def test_ratio_is_taken_round_by_round() -> None:
    """A round in which the machine was slow for everybody does not move the ratio."""
    assert ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Figure(2.0, 2.0, 2.0)


def test_spread_is_half_the_distance_between_the_quartiles() -> None:
    """One outlier among many rounds shows neither in the median nor in the spread."""
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
    """What goes into the documents reads like what was printed."""
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
    """Programs get what people are spared."""
    first, second = as_json(REPORT)["rows"]
    assert first["over"] == {"median": 2.34, "low": 2.3, "high": 2.4, "unit": "x", "reached": True}
    assert second["over"] == {"median": 123.4, "low": 120.0, "high": 130.0, "unit": "ms"}
    assert second["marks"] == {"over": " (v1)"}


def test_command_writes_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` writes what was measured and on what, and the table is printed."""
    target = tmp_path / "figures.json"
    assert bench_run.main(["--quick", "--json", str(target), "wire_memory"]) == 0
    written = json.loads(target.read_text(encoding="utf-8"))
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    assert len(written["suites"]["wire_memory"]["rows"]) == len(CASES)
    assert "Heartbeat request v4" in capsys.readouterr().out


def test_command_lists_suites(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list` names every suite and runs none."""
    assert bench_run.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(bench_run.suites())


def test_command_refuses_unknown_suites(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped suite is answered with those that there are."""
    with pytest.raises(SystemExit):
        bench_run.main(["wires"])
    complaint = capsys.readouterr().err.replace("\n", " ")
    assert "no suite 'wires'" in complaint
    assert all(name in complaint for name in bench_run.suites())
