"""Files that are read and stored by Python alone: as Spark reads and stores them."""

from __future__ import annotations

import contextlib
import errno
import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from coterie_pipeline import storing
from coterie_pipeline.files import list_files
from coterie_pipeline.packing import Unpacked, compression_of
from coterie_pipeline.reading import read_files
from coterie_pipeline.storing import Slice, Unread, slices_of, store, store_files
from coterie_pipeline.streaming.source import name_of
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import write_line
from coterie_protocol.journal_text import segment_name
from tests.pipeline.test_any_bytes import COMMIT_LINE, ODD
from tests.pipeline.test_reading import Pack, every_form, gzipped
from tests.support.journals import simulated


def texts() -> list[bytes]:
    """Lines of all kinds, good and bad."""
    lines = [write_line(line).encode() for line in simulated(3, "hostile")]
    lines += [line.encode(errors="surrogatepass") for line in [*ODD, COMMIT_LINE] * 3]
    random.Random(5).shuffle(lines)
    return lines


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What was stored, the parts by name."""
    files = sorted(folder.glob("part=*/*.parquet"))
    return [
        {"part": file.parent.name, **row}
        for file in files
        for row in pq.ParquetFile(file).read().to_pylist()
    ]


@pytest.mark.slow
@every_form
@pytest.mark.parametrize("end", [b"\n", b"", b'\n{"v":1,"no', b"\nx"])
def test_what_is_stored_is_what_spark_stores(
    spark: SparkSession, tmp_path: Path, pack: Pack, end: bytes
) -> None:
    journal = tmp_path / "my journal"
    journal.mkdir()
    pack(journal / segment_name("n", 1), b"\n".join(texts()) + end)
    pack(journal / segment_name("n", 2), b"")
    sizes = {each.path: each.size for each in list_files(spark, str(journal)) or ()}
    warehouse = Warehouse(spark, str(tmp_path / "out"))
    warehouse.claim("run")
    assert warehouse.add_files("a", sizes) == Unread()
    warehouse.add_lines("b", read_files(spark, sizes))
    by_piece: dict[str, list[str]] = {"a": [], "b": []}
    for row in warehouse.bronze().collect():
        by_piece[row.piece].append(repr(row.asDict() | {"piece": ""}))
    assert len(by_piece["a"]) >= len(texts())
    assert sorted(by_piece["a"]) == sorted(by_piece["b"])


@pytest.mark.slow
def test_many_processes_store_what_one_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(texts()))
    gzipped(tmp_path / "b.jsonl", b"\n".join(texts()))
    sizes = {each.path: each.size for each in list_files(spark, str(tmp_path)) or ()}
    store_files(spark, sizes, tmp_path / "one")
    monkeypatch.setattr(storing, "_SLICE_BYTES", 20_000)
    store_files(spark, sizes, tmp_path / "many")
    assert len(list((tmp_path / "many").glob("*/*"))) > len(list((tmp_path / "one").glob("*/*")))
    one, many = (sorted(map(repr, rows_of(tmp_path / name))) for name in ("one", "many"))
    assert one == many


@pytest.mark.slow
def test_what_a_failed_attempt_left_is_deleted(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f"{COMMIT_LINE}\n")
    sizes = {each.path: each.size for each in list_files(spark, str(tmp_path)) or ()}
    out = tmp_path / "out"
    store([Slice(segment, 0, size) for segment, size in sizes.items()], _made(out))
    store_files(spark, sizes, out)
    assert len(rows_of(out)) == 1


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@given(st.binary(max_size=80).map(lambda data: data.replace(b"x", b"\n")), st.integers(1, 20))
def test_slices_are_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, most: int
) -> None:
    path = tmp_path_factory.mktemp("slices") / "a.jsonl"
    path.write_bytes(data)
    slices = list(slices_of(name_of(str(path)), len(data), most))
    parts = [data[each.start : each.end] for each in slices]
    assert b"".join(parts) == data
    assert all(part.endswith(b"\n") for part in parts[:-1])
    # None is longer than it has to be.
    assert all(b"\n" not in part[most:-1] for part in parts)


def test_what_is_longer_than_any_line_takes_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "LINE_LENGTH_MAX", 1_000)
    monkeypatch.setattr(storing, "_SLICE_BYTES", 100)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\0" * 50_000 + f"\n{COMMIT_LINE}\n".encode() + b"\0" * 50_000)
    segment, size = name_of(str(path)), path.stat().st_size
    store(slices_of(segment, size, 100), _made(tmp_path / "out"))
    found = sorted((row["part"], row["why"]) for row in rows_of(tmp_path / "out"))
    assert found == [("part=commits", None), *[("part=unread", "foreign")] * 2]
    lines = [row["line"] for row in rows_of(tmp_path / "out") if row["why"]]
    assert max(map(len, lines)) < 1_200


def test_a_file_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    # One that can't be read for it is gone is none.
    path = tmp_path / "a.jsonl"
    path.write_text(f"{COMMIT_LINE}\n")
    with pytest.raises(FileNotFoundError):
        store([Slice(name_of(str(path)), 0, path.stat().st_size)], tmp_path / "nowhere")


def test_a_file_that_went_away_is_no_lines(tmp_path: Path) -> None:
    gone = name_of(str(tmp_path / "gone.jsonl"))
    assert list(slices_of(gone, 100, 10)) == [Slice(gone, 0, 100)]
    stored = store([Slice(gone, 0, 100), Slice(f"{gone}.gz", 0, 100)], tmp_path)
    assert stored.missing == {gone, f"{gone}.gz"}
    assert rows_of(tmp_path) == []


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("lost", [1, 8, 300])
def test_of_a_packed_file_that_is_cut_off_nothing_is_lost_that_is_there(
    tmp_path: Path, ending: str, lost: int
) -> None:
    path = tmp_path / f"{segment_name('n', 1)}{ending}"
    numbers = (random.Random(n).randrange(10**15) for n in range(2_000))
    lines = [COMMIT_LINE.replace('"0":5', f'"0":{number}') for number in numbers]
    with pa.output_stream(str(path), compression=compression_of(path.name)) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    with Unpacked(str(path)) as text:
        had = bytearray()
        with contextlib.suppress(OSError):
            while byte := text.read(1):
                had += byte
    stored = store([Slice(name_of(str(path)), 0, len(whole))], _made(tmp_path / "out"))
    assert len(stored.damaged) == 1
    rows = rows_of(tmp_path / "out")
    assert [row["why"] for row in rows if row.get("why")] == ["damaged"]
    assert len(rows) - 1 == had.count(b"\n") > 100


def test_a_packed_file_that_can_not_be_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would count as read when it can be read again."""
    path = tmp_path / f"{segment_name('n', 1)}.gz"
    path.write_bytes(gzip.compress(f"{COMMIT_LINE}\n".encode()))

    def fail(*_arguments: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(pa, "input_stream", fail)
    with pytest.raises(PermissionError):
        store([Slice(name_of(str(path)), 0, 100)], _made(tmp_path / "out"))
