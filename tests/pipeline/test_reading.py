"""Last lines without a line break, as they are looked up in files, and kept out of the tables."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from coterie_pipeline import reading
from coterie_pipeline.batch import run
from coterie_pipeline.files import list_files
from coterie_pipeline.reading import unended_lines
from coterie_pipeline.streaming.follow import FollowOptions, follow
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal_text import segment_name
from coterie_server.journal import verify
from tests.pipeline.test_any_bytes import COMMIT_LINE

NEXT_LINE = COMMIT_LINE.replace('"seq":7', '"seq":8')

Pack = Callable[[Path, bytes], Path]


def plain(path: Path, text: bytes) -> Path:
    """Write a file as it is."""
    path.write_bytes(text)
    return path


def gzipped(path: Path, text: bytes) -> Path:
    """Write what gzip makes of a text, in two members, as `cat` puts files together."""
    half = len(text) // 2
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]))
    return packed


def zstd(path: Path, text: bytes) -> Path:
    """Write what zstd makes of a text."""
    packed = path.with_name(f"{path.name}.zst")
    with pa.CompressedOutputStream(str(packed), "zstd") as file:
        file.write(text)
    return packed


every_form = pytest.mark.parametrize("pack", [plain, gzipped, zstd])


def unended(spark: SparkSession, folder: Path) -> dict[str, bytes]:
    """What is found in a folder, by the names of files."""
    sizes = {each.path: each.size for each in list_files(spark, str(folder)) or ()}
    found = unended_lines(spark, sizes)
    return {path.rpartition("/")[2]: text for path, text in found.items()}


@pytest.mark.slow
@every_form
@pytest.mark.parametrize("end", [b"", b"x", b"x" * 9_000, b"\xff", b"}\r"])
def test_the_end_of_a_file_is_found(
    spark: SparkSession, tmp_path: Path, pack: Pack, end: bytes
) -> None:
    path = pack(tmp_path / "my journal.jsonl", b"one\n\n" * 2_000 + end)
    assert unended(spark, tmp_path) == ({path.name.replace(" ", "%20"): end} if end else {})


@pytest.mark.slow
@every_form
def test_a_file_without_any_break_is_one_line(
    spark: SparkSession, tmp_path: Path, pack: Pack
) -> None:
    path = pack(tmp_path / "a.jsonl", b"y" * 5_000)
    pack(tmp_path / "empty.jsonl", b"")
    assert unended(spark, tmp_path) == {path.name: b"y" * 5_000}


@pytest.mark.slow
@every_form
def test_what_is_longer_than_any_line_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LINE_LENGTH_MAX", 10_000)
    pack(tmp_path / "a.jsonl", b"one\n" + b"y" * 200_000)
    assert unended(spark, tmp_path) == {}


@pytest.mark.slow
def test_what_can_not_be_read_has_no_end(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"no compressed text")
    (tmp_path / "b.jsonl").write_bytes(b"gone")
    sizes = {each.path: each.size for each in list_files(spark, str(tmp_path)) or ()}
    (tmp_path / "b.jsonl").unlink()
    assert unended_lines(spark, sizes) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "pack", [plain, *(pytest.param(pack, marks=pytest.mark.spark_slow) for pack in (gzipped, zstd))]
)
def test_a_line_without_its_break_counts_once_it_has_it(
    spark: SparkSession, tmp_path: Path, pack: Pack
) -> None:
    journal, out = tmp_path / "journal", str(tmp_path / "out")
    journal.mkdir()
    place = journal / segment_name("n", 7)
    # The same text may be there before: that line is whole.
    text = f"{COMMIT_LINE}\n{NEXT_LINE}\n{COMMIT_LINE}".encode()
    path = pack(place, text)
    assert rows_of(spark, str(journal), out) == [("n", 7), ("n", 8), ("torn", COMMIT_LINE)]
    assert verify(path).torn == 1
    pack(place, text + b"\n")
    assert rows_of(spark, str(journal), out) == [("n", 7), ("n", 7), ("n", 8)]


def rows_of(spark: SparkSession, journal: str, out: str) -> list[tuple[object, ...]]:
    """Run, and return the lines that count, and those that do not."""
    run(spark, [journal], out)
    return stored(Warehouse(spark, out))


def stored(warehouse: Warehouse) -> list[tuple[object, ...]]:
    """The lines that count, and those that do not."""
    found = [
        (row.node, row.seq) if row.why is None else (row.why, row.line)
        for row in warehouse.bronze().collect()
    ]
    return sorted(found, key=str)


@pytest.mark.spark_slow
def test_following_keeps_them_out_too(spark: SparkSession, tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", str(tmp_path / "out")
    journal.mkdir()
    # One was left by a crash, and the other is the last one so far.
    for number, line in ((7, COMMIT_LINE), (8, NEXT_LINE)):
        (journal / segment_name("n", number)).write_text(line)
    follow(spark, [str(journal)], out, FollowOptions(once=True))
    assert stored(Warehouse(spark, out)) == [("torn", COMMIT_LINE), ("torn", NEXT_LINE)]
    with (journal / segment_name("n", 8)).open("a") as file:
        file.write("\n")
    follow(spark, [str(journal)], out, FollowOptions(once=True))
    assert stored(Warehouse(spark, out)) == [("n", 8), ("torn", COMMIT_LINE)]
