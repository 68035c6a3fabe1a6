"""Any file of any bytes gives tables, and what can't be read is in `unread`, with the reason."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from coterie_pipeline.batch import run
from coterie_pipeline.steps.recognizing import HEAD, REST, recognize
from coterie_pipeline.streaming.follow import FollowOptions, Oddity, follow
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import (
    JournalError,
    Line,
    OffsetsCommitted,
    read_line,
    read_values,
    write_line,
)
from coterie_protocol.journal_text import segment_name
from coterie_server.journal import verify
from tests.support.journals import simulated
from tests.support.profiles import examples

COMMIT_LINE = write_line(
    Line(5, "n", 7, OffsetsCommitted(group="g", member="m", generation=1, offsets={"t": {"0": 5}}))
)

#: Lines that once stopped the pipeline, or that its readers did not agree about.
ODD = [
    COMMIT_LINE.replace('"0":5', '"zero":5'),
    COMMIT_LINE.replace('"0":5', '"0":9223372036854775807'),
    COMMIT_LINE.replace('"0":5', '"0":5,"0":6'),
    COMMIT_LINE.replace('"t"', '"\\ud800"'),
    COMMIT_LINE.replace('"ts":5', '"ts":-5'),
    COMMIT_LINE.replace('"ts":5', '"ts":9223372036854775807'),
    COMMIT_LINE.replace('"seq":7', '"seq":-7'),
    COMMIT_LINE.replace('"seq":7', '"seq":7.0'),
    COMMIT_LINE.replace(":5}", ":NaN}"),
    f'{COMMIT_LINE}{{"v":1}}',
    "[" * 50_000,
    f'{{"v":1,"ts":{"9" * 5_000}}}',
    "\x00" * 300,
    "",
    " \r",
]


#: A line that is taken for a commit.
COMMIT = HEAD.replace("(?P<rest>.*)$", "") + REST.removeprefix("^")


def why_not(line: bytes) -> str | None:
    """Why a line can't be read; None if it can."""
    try:
        read_values(line)
    except JournalError as error:
        return error.why
    return None


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good line in which something was changed."""
    lines = [COMMIT_LINE, *map(write_line, simulated(3, "hostile")[:40])]
    data = bytearray(draw(st.sampled_from(lines)).encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data).replace(b"\n", b" ")


@given(data=st.binary(max_size=60) | mutated())
def test_any_bytes_are_a_line_or_refused_with_a_reason(data: bytes) -> None:
    why = why_not(data)
    assert why in (None, "torn", "foreign", "newer", "unknown_kind", "misfit")
    if why is None:
        assert read_line(data).seq >= 0


@examples(125)
@given(data=mutated() | st.from_regex(COMMIT, fullmatch=True).map(str.encode))
@example(COMMIT_LINE.encode())
@example(COMMIT_LINE.replace('"ts":5', '"ts":4000000000000').encode())
@example(COMMIT_LINE.replace('"seq":7', '"seq":999999999999999999').encode())
@example(COMMIT_LINE.replace('"generation":1', '"generation":-0').encode())
def test_what_looks_like_a_commit_is_one(data: bytes) -> None:
    # Such lines are taken without being asked further.
    lines: Any = pa.array([data], pa.binary())
    columns = [pa.array(["s"]), lines, pa.nulls(1, pa.string()), pa.array([1], pa.int64())]
    (batch,) = recognize(iter([pa.record_batch(columns, ["segment", "value", "why", "digest"])]))
    (found,) = pa.Table.from_batches([batch]).drop_columns(["line"]).to_pylist()
    if found["part"] == "commits":
        values = read_values(data)
        assert values["kind"] == "offsets_committed"
        assert json.loads(found["offsets_committed_offsets"]) == values["offsets"]
        for name in ("ts", "node", "seq", "group", "member", "generation"):
            assert found[name] == values[name]


def _write(folder: Path) -> list[bytes]:
    """A journal some lines of which were changed; those that can't be read any more."""
    chance = random.Random(7)
    lines = [write_line(line).encode() for line in simulated(3, "hostile")]
    lines += [line.encode(errors="surrogatepass") for line in ODD]
    # Whether short enough to be tried as a whole, or too long for that, these are good.
    lines += [COMMIT_LINE.replace('"0":5', _offsets(count)).encode() for count in (450, 5_000)]
    for index in range(0, len(lines), 5):
        data = bytearray(lines[index])
        for _ in range(3 if data else 0):
            data[chance.randrange(len(data))] = chance.choice(b'\xff\x00{}",:9a')
        lines[index] = bytes(data)
    chance.shuffle(lines)
    (folder / segment_name("n3", 1)).write_bytes(b"\n".join(lines) + b"\n")
    (folder / segment_name("n4", 1)).write_bytes(chance.randbytes(5_000))
    (folder / f"{segment_name('n5', 1)}.gz").write_bytes(gzip.compress(b"\n".join(lines))[:-300])
    return [line for line in lines if why_not(line) is not None]


def _offsets(count: int) -> str:
    return ",".join(f'"{number}":{number}' for number in range(count))


@pytest.mark.slow
def test_any_bytes_give_tables_that_others_can_read(spark: SparkSession, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    bad = _write(journal)
    done = run(spark, [str(journal)], str(tmp_path / "out"))
    assert done.reading.damaged
    unread = _read_by_duckdb(Warehouse(spark, str(tmp_path / "out")), "unread")
    own = [row for row in unread if "journal-n3" in row["segment"]]
    assert len(own) == len(bad)
    # `coterie journal verify` says as much of them.
    assert verify(journal / segment_name("n3", 1)).bad == len(own)
    assert {row["why"] for row in own} >= {"torn", "foreign", "misfit"}
    assert [row["why"] for row in unread if "journal-n5" in row["segment"]].count("damaged") == 1
    assert any("journal-n4" in row["segment"] for row in unread)
    for name in done.moment.rows:
        rows = _read_by_duckdb(Warehouse(spark, str(tmp_path / "out")), name)
        assert len(rows) == done.moment.rows[name]
        json.dumps(rows)


@pytest.mark.spark_slow
def test_following_any_bytes_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    _write(journal)
    (journal / "notes.txt").write_text("no journal")
    told: list[Oddity] = []
    out = str(tmp_path / "followed")
    follow(spark, [str(journal)], out, FollowOptions(once=True), on_oddity=told.append)
    assert [each.passed_over for each in told if each.passed_over] == [
        (str(journal / "notes.txt"),)
    ]
    (damaged,) = (each.damaged for each in told if each.damaged)
    assert damaged == (str(journal / f"{segment_name('n5', 1)}.gz"),)
    followed = Warehouse(spark, out)
    run(spark, [str(journal)], str(tmp_path / "read"))
    read = Warehouse(spark, str(tmp_path / "read"))
    # Of a damaged file, either may have got a little further than the other.
    for name in ("n3", "n4"):
        assert _unread_of(followed, name) == _unread_of(read, name)
    assert [why for why, _ in _unread_of(followed, "n5")].count("damaged") == 1
    # What went wrong does not keep more from being read later.
    (journal / segment_name("n6", 1)).write_text(f"{COMMIT_LINE}\n")
    follow(spark, [str(journal)], out, FollowOptions(once=True))
    assert len(_read_by_duckdb(followed, "commits")) > 0


def _unread_of(warehouse: Warehouse, node: str) -> list[tuple[str, str]]:
    rows = _read_by_duckdb(warehouse, "unread")
    return sorted(
        (row["why"], row["excerpt"]) for row in rows if f"journal-{node}" in row["segment"]
    )


def _read_by_duckdb(warehouse: Warehouse, name: str) -> list[dict[str, Any]]:
    with duckdb.connect() as database:
        found = database.sql(f"FROM '{warehouse.paths()[name]}/*.parquet'")
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
