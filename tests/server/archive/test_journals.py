"""Journals that are looked at afterwards: which files count, and what they tell."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coterie_protocol.journal import Line, read_line
from coterie_server.archive import ArchiveError, Journals, journals
from coterie_server.past import Asked
from tests.server.past.told import answered, owners_at
from tests.support.alone import run_alone
from tests.support.journals import handed_over, simulated, write_journal
from tests.support.profiles import mostly_slow
from tests.support.told_journal import GROUP, tell_an_hour

Read = Callable[..., Journals]


@pytest.fixture
def read() -> Iterator[Read]:
    """Reads journals, and closes them in the end."""
    with ExitStack() as stack:

        def read(*paths: Path) -> Journals:
            found = Journals.read(paths, lambda _: None)
            stack.callback(found.close)
            return found

        yield read


def past(found: Journals, group: str, since_ms: int = 0) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(found.past(Asked(group, since_ms, found.until_ms(group))))
    return values


def groups_of(lines: Iterable[Line]) -> list[str]:
    return sorted({line.event.group for line in lines} - {""})


@pytest.mark.parametrize("seed", mostly_slow(range(3)))
def test_the_past_is_the_same_from_plain_and_compressed_files_of_any_nodes(
    read: Read, tmp_path: Path, seed: int
) -> None:
    lines = handed_over(simulated(seed, "hostile"), ("x", "y", "z"), {"y": 700})
    write_journal(lines, tmp_path, lines_each=40, packed_each=2)
    found = read(tmp_path)
    for group in groups_of(lines):
        told = past(found, group)
        assert told == answered(lines, group, 0, found.until_ms(group))
        assert told["limit"] in ("complete", "journal")


def test_a_short_time_is_told_like_the_same_part_of_a_long_one(read: Read, tmp_path: Path) -> None:
    lines = simulated(2, "hostile")
    write_journal(lines, tmp_path)
    found = read(tmp_path)
    for group in groups_of(lines):
        until_ms = found.until_ms(group)
        since_ms = until_ms - 5_000
        whole, part = past(found, group), past(found, group, since_ms)
        for at_ms in range(max(since_ms, part["since_ms"]), until_ms, 250):
            assert owners_at(part, at_ms) == owners_at(whole, at_ms)


def test_a_file_that_is_there_plain_and_compressed_counts_once(read: Read, tmp_path: Path) -> None:
    (path, *_) = write_journal(simulated(0), tmp_path, lines_each=10_000)
    before = read(tmp_path).scan.lines
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(tmp_path).scan.lines == before


def test_a_file_that_is_compressed_by_zstd_is_read(read: Read, tmp_path: Path) -> None:
    (path, *_) = write_journal(simulated(0), tmp_path, lines_each=10_000)
    before = read(tmp_path).scan.lines
    with pa.output_stream(f"{path}.zst", compression="zstd") as stream:
        stream.write(path.read_bytes())
    path.unlink()
    assert read(tmp_path).scan.lines == before


def test_a_data_directory_and_single_files_are_read_as_well(read: Read, tmp_path: Path) -> None:
    paths = write_journal(simulated(0), tmp_path / "data" / "journal")
    assert read(tmp_path / "data").scan.lines == read(*paths).scan.lines


def test_lines_that_cant_be_read_are_named(read: Read, tmp_path: Path) -> None:
    (path, *_) = write_journal(simulated(0), tmp_path, lines_each=10_000)
    texts = path.read_text(encoding="utf-8").splitlines(keepends=True)
    texts[4] = "<html>\n"
    texts[7] = texts[7].replace('"v":1', '"v":9')
    path.write_text("".join(texts)[:-1], encoding="utf-8")
    found = read(tmp_path).scan
    assert (found.unread, found.torn) == (2, 1)
    assert [each.number for each in found.examples] == [5, 8, len(texts)]
    assert str(found.examples[0]) == f"{path}, line 5: {found.examples[0].why}"
    assert "version is 9" in found.examples[1].why
    assert found.missing


def test_lines_that_have_a_number_are_not_missing_if_they_cant_be_read(
    read: Read, tmp_path: Path
) -> None:
    """A newer Coterie writes kinds that are not known here."""
    (path, *_) = write_journal(simulated(0), tmp_path, lines_each=10_000)
    texts = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number in (4, 5, 9):
        texts[number] = re.sub('"kind":"[a-z_]*"', '"kind":"group_blessed"', texts[number])
    path.write_text("".join(texts), encoding="utf-8")
    found = read(tmp_path).scan
    assert (found.unread, found.missing) == (3, [])
    del texts[8]
    path.write_text("".join(texts), encoding="utf-8")
    dates = tuple(read_line(texts[number]).ts for number in (7, 9))
    assert read(tmp_path).scan.missing == [dates]


def test_a_compressed_file_that_is_cut_off_is_read_as_far_as_it_goes(
    read: Read, tmp_path: Path
) -> None:
    tell_an_hour(tmp_path)
    (packed,) = tmp_path.glob("*.gz")
    packed.write_bytes(packed.read_bytes()[:-20])
    found = read(tmp_path).scan
    assert "can't be unpacked" in found.examples[-1].why
    assert found.examples[-1].path == str(packed)


def test_a_copy_of_a_journal_changes_nothing(read: Read, tmp_path: Path) -> None:
    tell_an_hour(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    both = read(tmp_path / "a", tmp_path / "b")
    assert past(both, GROUP) == past(read(tmp_path / "a"), GROUP)
    assert both.scan.mixed == set()


@pytest.mark.parametrize("lines_each", [300, 7])
def test_a_node_that_began_anew_with_an_empty_journal_is_named(
    read: Read, tmp_path: Path, lines_each: int
) -> None:
    """The journal of its former life was moved away, and both are given."""
    lives = [simulated(97), simulated(98)]
    for name, lines in zip("ab", lives, strict=True):
        own = [replace(line, node="1") for line in lines]
        write_journal(own, tmp_path / name, lines_each=lines_each)
    write_journal([replace(line, node="2") for line in lives[0]], tmp_path / "b")
    assert read(tmp_path / "a", tmp_path / "b").scan.mixed == {"1"}
    assert read(tmp_path / "b").scan.mixed == set()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nothing"], "There is no "),
        (["empty"], "There is no journal in "),
        (["blank.jsonl"], "There is no line of a journal in "),
        (["text.jsonl"], "line 1: "),
        (["nodes.jsonl"], "has no line about a group"),
        (["odd.zst"], "nothing here to unpack it with"),
    ],
)
def test_what_is_no_journal_is_refused(
    read: Read, tmp_path: Path, names: Sequence[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_module(_: str) -> None:
        raise ImportError

    monkeypatch.setattr("coterie_server.journal.packed.import_module", no_module)
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.jsonl").write_text("\n\n", encoding="utf-8")
    (tmp_path / "text.jsonl").write_text("what is this?\n", encoding="utf-8")
    (tmp_path / "odd.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    stopped = '{"v":1,"ts":1,"node":"1","seq":1,"group":"","kind":"node_stopped","reason":""}\n'
    (tmp_path / "nodes.jsonl").write_text(stopped, encoding="utf-8")
    with pytest.raises(ArchiveError) as refused:
        read(*(tmp_path / name for name in names))
    assert said in str(refused.value)
    assert str(refused.value).endswith(".")


def test_more_than_is_bearable_is_told_from_its_end(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_an_hour(tmp_path)
    monkeypatch.setattr(journals, "_FOUND_BYTES", 8_000)
    found = read(tmp_path)
    told = past(found, GROUP)
    assert told["limit"] == "read_back"
    assert told["since_ms"] > found.scan.nodes["1"].first_ms
    assert told["generations"][-1]["members"]


def held_after_reading(folder: str) -> int:
    """How many bytes are held of the journals in a folder."""
    tracemalloc.start()
    found = Journals.read([Path(folder)], lambda _: None)
    held, _ = tracemalloc.get_traced_memory()
    assert found.scan.lines
    return held


@pytest.mark.slow
def test_memory_does_not_grow_with_commits(tmp_path: Path) -> None:
    commit = (
        '{"v":1,"ts":%d,"node":"1","seq":%d,"group":"g","kind":"offsets_committed","member":"m",'
        '"generation":1,"offsets":{"t":{"0":%d}}}\n'
    )
    for name, lines in (("few", 1_000), ("many", 300_000)):
        path = tmp_path / name / "journal-1-0000000000000001.jsonl"
        path.parent.mkdir()
        path.write_text("".join(commit % (at, at, at) for at in range(lines)), encoding="utf-8")
    few = run_alone(held_after_reading, str(tmp_path / "few"))
    many = run_alone(held_after_reading, str(tmp_path / "many"))
    assert many - few < 100_000
