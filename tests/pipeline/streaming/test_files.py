"""What is looked up in files, and how their text is read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from coterie_pipeline.steps.parsing import REST_DAMAGED
from coterie_pipeline.streaming import source
from coterie_pipeline.streaming.finding import find, passed_over
from coterie_pipeline.streaming.offsets import WHOLE, Range, Segment
from coterie_pipeline.streaming.source import (
    FileLookup,
    SourceError,
    cut,
    read_lines,
    tails,
)
from coterie_protocol import line_breaks

NAME = "journal-1-0000000000000001.jsonl"
LATER = "journal-1-0000000000000004.jsonl"

Pack = Callable[[Path, bytes], None]


def pack_gzip(path: Path, text: bytes) -> None:
    """Write what gzip makes of a file."""
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(text))


def pack_zstd(path: Path, text: bytes) -> None:
    """Write what zstd makes of a file."""
    with pa.CompressedOutputStream(str(path) + ".zst", "zstd") as file:
        file.write(text)


def only(folder: Path) -> Segment:
    """The one segment there is."""
    (segment,) = find([str(folder)])
    return segment


def lines(part: Range) -> list[bytes | tuple[str, bytes]]:
    """All lines of a range, those that can't be taken into account with the reason."""
    return [
        text if some.why is None else (some.why, text)
        for some in read_lines(part)
        for text in some.texts
    ]


def test_segments_are_found_beneath_directories(tmp_path: Path) -> None:
    # Each node may have a folder of its own, however deep.
    (tmp_path / "a" / "journal").mkdir(parents=True)
    (tmp_path / "a" / "journal" / NAME).write_bytes(b"12\n")
    (tmp_path / "a" / "other.txt").write_bytes(b"no segment")
    (segment,) = find([str(tmp_path / "not there"), str(tmp_path)])
    assert (segment.path, segment.size) == (str(tmp_path / "a" / "journal" / NAME), 3)


def test_segments_are_found_by_links(tmp_path: Path) -> None:
    # As `run` finds them; links that lead back are no way.
    journals, other = tmp_path / "journals", tmp_path / "other"
    for folder in (journals / "a", other):
        folder.mkdir(parents=True)
    (other / NAME).write_bytes(b"12\n")
    (journals / "b").symlink_to(other)
    (journals / "a" / "up").symlink_to(journals)
    (other / "across").symlink_to(journals)
    (journals / "nowhere").symlink_to(tmp_path / "nowhere")
    assert [segment.path for segment in find([str(journals)])] == [str(journals / "b" / NAME)]


def test_a_directory_within_another_one_is_found_once(tmp_path: Path) -> None:
    # Nothing is read twice because it was named twice.
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / NAME).write_bytes(b"")
    assert len(find([str(tmp_path), str(tmp_path / "a"), f"{tmp_path}/"])) == 1


def test_a_line_ends_before_the_limit(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"one\ntwo\nthree\nfo")
    assert FileLookup().line_end(only(tmp_path), 0, 9) == 8


def test_a_long_line_ends_after_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A line is not cut, however many blocks it takes to find its end.
    monkeypatch.setattr(line_breaks, "_BLOCK_BYTES", 4)
    (tmp_path / NAME).write_bytes(b"one\n" + b"x" * 30 + b"\nfo")
    assert FileLookup().line_end(only(tmp_path), 4, 20) == 35


def test_an_open_segment_ends_with_its_last_whole_line(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"one\ntwo")
    segment = only(tmp_path)
    assert [FileLookup().line_end(segment, start, 7) for start in (0, 4)] == [4, 4]


def test_another_file_under_the_name_of_one_is_noticed(tmp_path: Path) -> None:
    # An open segment is always read up to a line's end; if there is none, it is another file.
    (tmp_path / NAME).write_bytes(b"one\ntwo\n")
    with pytest.raises(SourceError, match="is not the file that was read so far"):
        FileLookup().line_end(only(tmp_path), 6, 8)


@pytest.mark.parametrize("pack", [pack_gzip, pack_zstd])
def test_the_time_of_a_line_is_found(tmp_path: Path, pack: Pack) -> None:
    text = b'{"v":1,"ts":5}\n{"v":1,"ts":7}\n'
    (tmp_path / LATER).write_bytes(text)
    pack(tmp_path / NAME, text)
    packed, plain = find([str(tmp_path)])
    assert (FileLookup().time_at(packed, 15), FileLookup().time_at(plain, 15)) == (5, 7)


def test_ranges_are_cut_where_lines_end(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"one\ntwo\nthree\nfour\nfive")
    slices = list(cut(Range(str(path), 4, 23), 5))
    assert [lines(each) for each in slices] == [
        [b"two", b"three"],
        [b"four", ("foreign", b"five")],
    ]


def test_lines_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_CHUNK_BYTES", 5)
    path = tmp_path / NAME
    path.write_bytes(b"one\ntwo\n\nthree\nfour\n")
    assert lines(Range(str(path), 0, 20)) == [b"one", b"two", b"", b"three", b"four"]


def test_a_range_ends_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"one\ntwo\nthree\n")
    assert lines(Range(str(path), 4, 8)) == [b"two"]


def test_what_seemed_torn_and_was_not_is_read_as_a_whole(tmp_path: Path) -> None:
    # A file may be copied after a later one: its last line is begun with once more.
    path = tmp_path / NAME
    path.write_bytes(b"one\ntwo\nthree\n")
    assert lines(Range(str(path), 6, 14)) == [b"two", b"three"]


@pytest.mark.parametrize("pack", [pack_gzip, pack_zstd])
def test_compressed_segments_are_read(tmp_path: Path, pack: Pack) -> None:
    # Positions count the bytes of the text, so they hold for a compressed copy as well.
    path = tmp_path / NAME
    pack(path, b"one\ntwo\nthree\nfo")
    parts = (Range(str(path), 0, WHOLE), Range(str(path), 8, WHOLE), Range(str(path), 4, 8))
    assert [lines(part) for part in parts] == [
        [b"one", b"two", b"three", ("foreign", b"fo")],
        [b"three", ("foreign", b"fo")],
        [b"two"],
    ]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b'{"v":1,"ts":5}', "torn"),
        (b"{", "torn"),
        (b'{"v":1,"node":"\xc3', "torn"),
        (b"{}", "foreign"),
    ],
)
def test_a_line_without_a_break_does_not_count(tmp_path: Path, end: bytes, why: str) -> None:
    # Whatever it says: its node used its number again.  It can be shown, though.
    path = tmp_path / NAME
    path.write_bytes(b"one\n" + end)
    *_, (found, shown) = lines(Range(str(path), 0, 4 + len(end)))
    assert (found, shown) == (why, end.decode(errors="replace").encode())


@pytest.mark.parametrize("pack", [pack_gzip, pack_zstd])
def test_of_a_segment_that_is_cut_off_the_beginning_is_read(tmp_path: Path, pack: Pack) -> None:
    # Nothing but what is lost is lost, and that it is shows.
    path = tmp_path / NAME
    text = [b"%d" % number for number in range(100_000)]
    pack(path, b"".join(line + b"\n" for line in text))
    (packed,) = tmp_path.iterdir()
    packed.write_bytes(packed.read_bytes()[:-100])
    *found, end = lines(Range(str(path), 0, WHOLE))
    assert end == ("damaged", REST_DAMAGED.encode())
    assert len(found) > 50_000
    assert found == text[: len(found)]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_segment_of_any_bytes_is_lost_and_told(tmp_path: Path, ending: str) -> None:
    path = tmp_path / NAME
    path.with_name(NAME + ending).write_bytes(b"no compressed text at all")
    assert lines(Range(str(path), 0, WHOLE)) == [("damaged", REST_DAMAGED.encode())]
    assert FileLookup().time_at(only(tmp_path), 0) == 0


def test_files_of_other_names_are_passed_over(tmp_path: Path) -> None:
    for name in (NAME, "notes.txt", "journal-1.jsonl", ".hidden", "_temporary"):
        (tmp_path / name).touch()
    assert passed_over([str(tmp_path)]) == [
        str(tmp_path / "journal-1.jsonl"), str(tmp_path / "notes.txt"),
    ]  # fmt: skip


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    # A pipe would never end, and Java can't open a name that is no text.
    os.mkfifo(tmp_path / NAME)
    (tmp_path / os.fsdecode(b"journal-\xff-0000000000000001.jsonl")).touch()
    assert find([str(tmp_path)]) == ()


def test_a_segment_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with pytest.raises(SourceError, match=r"was deleted before it was read from byte 4 on: put"):
        lines(Range(str(path), 4, 8))


def test_a_segment_that_shrank_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(SourceError, match="is shorter than it was, by 6 bytes"):
        lines(Range(str(path), 4, 14))


def test_tails_are_what_may_be_torn(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"one\ntw")
    (tmp_path / LATER).write_bytes(b"three\nfo")
    (tmp_path / NAME.replace("1-", "2-")).write_bytes(b"five\n")
    assert tails(find([str(tmp_path)])) == [(str(tmp_path / LATER), b"fo")]
