"""The journal on disk: numbers, files, and what happens when the disk does not do as it should."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from coterie_protocol.journal import GroupEmptied, Line, NodeStopped, OffsetsCommitted
from coterie_protocol.journal_text import BadLine, segment_name
from coterie_server.journal import JournalWriter, read_journal, verify

SECOND_MS = 1_000
#: More than any test takes; what is waited for comes at once unless something is broken.
PATIENCE_S = 60.0

LogLines = list[MutableMapping[str, Any]]

pytestmark = pytest.mark.usefixtures("log")
MakeWriter = Callable[..., JournalWriter]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        """Tell the time."""
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def make_writer(tmp_path: Path, clock: Clock) -> Iterator[MakeWriter]:
    """Make writers that are closed when the test is over."""
    writers: list[JournalWriter] = []

    def make(directory: Path = tmp_path, node: str = "n", **options: Any) -> JournalWriter:
        defaults = {"segment_bytes": 10**6, "segment_ms": 10**9, "retention_ms": -1}
        writers.append(JournalWriter(directory, node, clock=clock, **(defaults | options)))
        return writers[-1]

    yield make
    for writer in writers:
        writer.close(0.2)


def event(number: int = 0) -> GroupEmptied:
    """An event that can be told from others."""
    return GroupEmptied(group="g", generation=number)


def write(writer: JournalWriter, *numbers: int) -> None:
    """Observe events and wait until they are written."""
    for number in numbers:
        writer.observe(number, event(number))
    assert writer.flush(PATIENCE_S)


def lines_in(where: Path) -> list[Line]:
    """All lines, none of which may be bad."""
    entries = list(read_journal(where))
    assert [entry for entry in entries if isinstance(entry, BadLine)] == []
    return [entry for entry in entries if isinstance(entry, Line)]


def seqs_in(where: Path) -> list[int]:
    """The numbers of all lines."""
    return [line.seq for line in lines_in(where)]


def files_in(directory: Path) -> list[str]:
    """The names of all files."""
    return sorted(path.name for path in directory.iterdir())


def tear(path: Path) -> None:
    """Leave half of the last line, as a killed node does."""
    data = path.read_bytes()
    path.write_bytes(data[:-10])


def take_away(path: Path, how: str) -> None:
    """Have the file no longer in its place."""
    match how:
        case "deleted":
            path.unlink()
        case "moved":
            path.rename(path.with_name("moved"))
        case "replaced":
            shutil.copy(path, path.with_name("copy"))
            path.with_name("copy").rename(path)
        case _:
            shutil.rmtree(path.parent)


def wait_until_failing(writer: JournalWriter) -> None:
    """Wait until the writer has met its trouble."""
    for _ in range(400):
        assert not writer.flush(0.05)
        if writer.stats().failing:
            return
    raise AssertionError("the writer has no trouble at all")


def wait_until_dropped(writer: JournalWriter) -> None:
    """Wait until the writer has noticed by itself that lines are lost."""
    wait_until(lambda: writer.stats().dropped)


def wait_until(noticed: Callable[[], object]) -> None:
    """Wait until the writer has noticed something by itself."""
    for _ in range(400):
        if noticed():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the writer has noticed nothing")


class Disk:
    """Stands between the writer and the disk, and fails when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = os.write
        self._left: int | None = None
        self.is_slow = False
        self.is_used = threading.Event()
        self.goes_on = threading.Event()
        self.writes = 0
        monkeypatch.setattr("coterie_server.journal.segments.os.write", self.write)

    def fill(self, free_bytes: int) -> None:
        """Take so many bytes yet, and then no more."""
        self._left = free_bytes

    def free(self) -> None:
        """Have room again."""
        self._left = None

    def write(self, fd: int, data: bytes) -> int:
        """Write as much as there is room for, and no more than a few bytes if slow."""
        self.writes += 1
        self.is_used.set()
        if self.is_slow:
            assert self.goes_on.wait(PATIENCE_S)
        if self._left is None:
            return self._write(fd, data)
        if not self._left:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(fd, bytes(data[: self._left]))
        self._left -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that works, until the test wants otherwise."""
    return Disk(monkeypatch)


# -- lines -------------------------------------------------------------------------------------


def test_events_are_written_in_order(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(node="node-1")
    writer.observe(11, event(1))
    writer.observe(12, event(2))
    assert writer.flush(PATIENCE_S)
    assert lines_in(tmp_path) == [
        Line(11, "node-1", 1, event(1)),
        Line(12, "node-1", 2, event(2)),
    ]


def test_lines_are_written_without_being_asked_for(make_writer: MakeWriter, disk: Disk) -> None:
    make_writer().observe(1, event())
    assert disk.is_used.wait(PATIENCE_S)


def test_close_writes_what_is_left(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for number in range(500):
        writer.observe(number, event(number))
    writer.observe(500, NodeStopped(reason="sigterm"))
    writer.close()
    lines = lines_in(tmp_path)
    assert [line.seq for line in lines] == list(range(1, 502))
    assert lines[-1].event == NodeStopped(reason="sigterm")


def test_what_comes_after_the_end_is_counted(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    write(writer, 1)
    writer.close()
    writer.observe(2, event(2))
    assert writer.stats().dropped == 1
    assert seqs_in(tmp_path) == [1]


def test_commits_are_written(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    writer.observe(1, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    write(writer, 2)
    assert seqs_in(tmp_path) == [1, 2]


def test_commits_can_be_left_out(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(commits=False)
    writer.observe(1, OffsetsCommitted(group="g", member="m", generation=1, offsets={}))
    write(writer, 2)
    (line,) = lines_in(tmp_path)
    assert (line.seq, line.event) == (1, event(2))


def test_event_that_cannot_be_written_costs_only_its_line(
    make_writer: MakeWriter, tmp_path: Path, log: LogLines
) -> None:
    writer = make_writer()
    writer.observe(1, NodeStopped(reason={1}))  # type: ignore[arg-type]
    write(writer, 2)
    assert seqs_in(tmp_path) == [2]
    assert writer.stats().dropped == 1
    assert [entry["kind"] for entry in log if entry["event"] == "journal line lost"] == [
        "node_stopped"
    ]


def test_stats_count_lines_and_bytes(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    write(writer, 1, 2, 3)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    stats = writer.stats()
    assert (stats.lines, stats.bytes, stats.queued, stats.dropped) == (3, size, 0, 0)
    assert not stats.failing


@pytest.mark.parametrize("node", ["", "a/b", "../a", "a b", ".hidden"])
def test_node_names_that_are_no_file_names_are_refused(make_writer: MakeWriter, node: str) -> None:
    with pytest.raises(ValueError, match="must match"):
        make_writer(node=node)


# -- files -------------------------------------------------------------------------------------


def test_file_is_named_after_its_first_line(make_writer: MakeWriter, tmp_path: Path) -> None:
    write(make_writer(node="node-1"), 1, 2)
    assert files_in(tmp_path) == ["journal-node-1-0000000000000001.jsonl"]


def test_without_events_there_is_no_file(make_writer: MakeWriter, tmp_path: Path) -> None:
    make_writer().close()
    assert files_in(tmp_path) == []


def test_directory_is_made(make_writer: MakeWriter, tmp_path: Path) -> None:
    write(make_writer(tmp_path / "data" / "journal"), 1)
    assert seqs_in(tmp_path / "data" / "journal") == [1]


def test_file_ends_at_its_size(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(segment_bytes=150)
    write(writer, *range(1, 7))
    assert files_in(tmp_path) == [segment_name("n", seq) for seq in (1, 3, 5)]
    assert seqs_in(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_file_ends_at_its_age(make_writer: MakeWriter, tmp_path: Path, clock: Clock) -> None:
    writer = make_writer(segment_ms=60 * SECOND_MS)
    write(writer, 1)
    clock.now_ms += 59 * SECOND_MS
    write(writer, 2)
    clock.now_ms += SECOND_MS
    write(writer, 3)
    assert files_in(tmp_path) == [segment_name("n", 1), segment_name("n", 3)]


def test_file_that_ends_is_made_durable(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    monkeypatch.setattr("coterie_server.journal.segments.os.fsync", note)
    writer = make_writer(segment_bytes=1)
    write(writer, 1)
    write(writer, 2)
    writer.close()
    assert synced == ["directory", "file", "directory", "file"]


def test_old_files_are_deleted_by_their_last_line(
    make_writer: MakeWriter, tmp_path: Path, clock: Clock
) -> None:
    writer = make_writer(segment_bytes=1)
    for age_s in (100, 61, 59):
        writer.observe(clock.now_ms - age_s * SECOND_MS, event())
    writer.close()
    make_writer(retention_ms=60 * SECOND_MS).close()
    assert files_in(tmp_path) == [segment_name("n", 3)]


def test_files_are_deleted_while_the_node_runs(
    make_writer: MakeWriter, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie_server.journal.writer._DELETE_EVERY_S", 0.0)
    writer = make_writer(segment_bytes=1, retention_ms=60 * SECOND_MS)
    writer.observe(clock.now_ms, event())
    writer.observe(clock.now_ms, event())
    assert writer.flush(PATIENCE_S)
    clock.now_ms += 61 * SECOND_MS
    writer.observe(clock.now_ms, event())
    writer.close()
    assert files_in(tmp_path) == [segment_name("n", 3)]


def test_file_that_is_written_is_not_deleted(
    make_writer: MakeWriter, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie_server.journal.writer._DELETE_EVERY_S", 0.0)
    writer = make_writer(retention_ms=60 * SECOND_MS)
    write(writer, 1)
    clock.now_ms += 100 * SECOND_MS
    write(writer, 2)
    assert seqs_in(tmp_path) == [1, 2]


def test_files_are_kept_for_ever(make_writer: MakeWriter, tmp_path: Path, clock: Clock) -> None:
    writer = make_writer(segment_bytes=1)
    write(writer, 1, 2)
    writer.close()
    clock.now_ms += 10**12
    make_writer(retention_ms=-1).close()
    assert len(files_in(tmp_path)) == 2


def test_other_files_are_not_deleted(make_writer: MakeWriter, tmp_path: Path, clock: Clock) -> None:
    """Also if another node's name begins as its own does."""
    write(make_writer(node="n-1"), 1)
    (tmp_path / "journal-notes.jsonl").write_text("mine\n", encoding="utf-8")
    before = files_in(tmp_path)
    clock.now_ms += 10**12
    make_writer(node="n", retention_ms=0).close()
    assert files_in(tmp_path) == before


def test_old_files_of_nodes_that_write_no_longer_are_deleted(
    make_writer: MakeWriter, tmp_path: Path, clock: Clock
) -> None:
    """As after a start with fewer workers."""
    for node in ("1", "2", "3", "4"):
        writer = make_writer(node=node, segment_bytes=1)
        write(writer, 1, 2)
        writer.close()
    clock.now_ms += 100 * SECOND_MS
    recent = make_writer(node="4", segment_bytes=1)
    recent.observe(clock.now_ms, event())
    recent.close()
    for node in ("2", "1"):  # the second one leaves them to the first
        make_writer(node=node, companions=["1", "2"], retention_ms=60 * SECOND_MS).close()
    assert files_in(tmp_path) == [segment_name("3", 2), segment_name("4", 3)]
    assert seqs_in(tmp_path) == [3]


@pytest.mark.parametrize("segment_bytes", [1, 10**6])
def test_node_that_writes_again_after_long_goes_on_counting(
    make_writer: MakeWriter, tmp_path: Path, clock: Clock, segment_bytes: int
) -> None:
    writer = make_writer(node="3", segment_bytes=segment_bytes)
    write(writer, 1, 2)
    writer.close()
    clock.now_ms += 100 * SECOND_MS
    for _ in range(2):
        make_writer(node="1", companions=["1"], retention_ms=60 * SECOND_MS).close()
    assert seqs_in(tmp_path) == []
    write(make_writer(node="3"), 3)
    assert seqs_in(tmp_path) == [3]


# -- starting again ----------------------------------------------------------------------------


def test_numbers_go_on_after_a_restart(make_writer: MakeWriter, tmp_path: Path) -> None:
    for _ in range(2):
        writer = make_writer()
        write(writer, 1, 2)
        writer.close()
    assert seqs_in(tmp_path) == [1, 2, 3, 4]
    assert files_in(tmp_path) == [segment_name("n", 1), segment_name("n", 3)]


def test_torn_line_is_left_alone(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    write(writer, 1, 2, 3)
    writer.close()
    torn = tmp_path / segment_name("n", 1)
    tear(torn)
    data = torn.read_bytes()
    write(make_writer(), 4)
    assert torn.read_bytes() == data
    report = verify(tmp_path)
    assert (report.lines, report.torn, report.missing) == (3, 1, 0)
    assert report.is_whole


def test_file_with_nothing_but_a_torn_line_is_left_alone(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    """Its number is skipped, as the name is taken."""
    writer = make_writer(segment_bytes=1)
    write(writer, 1, 2)
    writer.close()
    tear(tmp_path / segment_name("n", 2))
    write(make_writer(), 3)
    assert files_in(tmp_path)[-1] == segment_name("n", 3)
    assert verify(tmp_path).missing == 1


def test_line_of_a_newer_version_counts(make_writer: MakeWriter, tmp_path: Path) -> None:
    """After a downgrade, numbers go on after what the newer Coterie wrote."""
    newer = '{"v":9,"ts":1,"node":"n","seq":41,"kind":"eclipse"}\n'
    (tmp_path / segment_name("n", 40)).write_text(newer, encoding="utf-8")
    write(make_writer(), 1)
    assert files_in(tmp_path)[-1] == segment_name("n", 42)


def test_last_line_is_found_behind_a_long_one(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    write(writer, 1, 2)
    writer.observe(3, GroupEmptied(group="g" * 300_000, generation=1))
    writer.close()
    write(make_writer(), 4)
    assert seqs_in(tmp_path) == [1, 2, 3, 4]


# -- when the disk fails -----------------------------------------------------------------------


def test_full_disk_loses_nothing_that_fits_the_queue(
    make_writer: MakeWriter, tmp_path: Path, disk: Disk
) -> None:
    writer = make_writer()
    write(writer, 1)
    disk.fill(100)
    for number in (2, 3, 4):
        writer.observe(number, event(number))
    wait_until_failing(writer)
    disk.free()
    assert writer.flush(PATIENCE_S)
    assert seqs_in(tmp_path) == [1, 2, 3, 4]


def test_failing_disk_is_told(make_writer: MakeWriter, disk: Disk, log: LogLines) -> None:
    writer = make_writer()
    disk.fill(0)
    writer.observe(1, event(1))
    wait_until_failing(writer)
    disk.free()
    assert writer.flush(PATIENCE_S)
    writer.close()
    assert not writer.stats().failing
    first, last = (entry for entry in log if "journal" in entry["event"])
    assert (first["log_level"], first["event"]) == ("error", "journal can't be written")
    assert "No space left" in first["error"]
    assert last["event"] == "journal is being written again"


def test_disk_that_takes_little_at_a_time_gets_whole_lines(
    make_writer: MakeWriter, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may write less than it is given."""
    whole = disk.write
    monkeypatch.setattr(
        "coterie_server.journal.segments.os.write", lambda fd, data: whole(fd, bytes(data[:7]))
    )
    write(make_writer(), 1, 2, 3)
    assert disk.writes > 20
    assert seqs_in(tmp_path) == [1, 2, 3]


def test_slow_disk_leaves_a_gap(
    make_writer: MakeWriter, tmp_path: Path, disk: Disk, log: LogLines
) -> None:
    """Dropped lines had been numbered, so readers see that they are missing."""
    writer = make_writer(queue_lines=3)
    disk.is_slow = True
    writer.observe(1, event(1))
    assert disk.is_used.wait(PATIENCE_S)  # the first line is out of the queue
    for number in range(2, 8):
        writer.observe(number, event(number))
    assert writer.stats().dropped == 3
    disk.goes_on.set()
    assert writer.flush(PATIENCE_S)
    write(writer, 8)
    assert seqs_in(tmp_path) == [1, 2, 3, 4, 8]
    assert verify(tmp_path).missing == 3
    dropping = [entry for entry in log if entry["event"] == "journal lines are being dropped"]
    assert [entry["log_level"] for entry in dropping] == ["error"]


def test_directory_that_cannot_be_used_does_not_stop_the_node(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "journal"
    in_the_way.write_text("a file", encoding="utf-8")
    writer = make_writer(in_the_way)
    writer.observe(1, event(1))
    wait_until_failing(writer)
    in_the_way.unlink()
    assert writer.flush(PATIENCE_S)
    assert seqs_in(in_the_way) == [1]


def test_queue_is_bounded_while_the_disk_fails(
    make_writer: MakeWriter, tmp_path: Path, disk: Disk
) -> None:
    writer = make_writer(queue_lines=3)
    disk.fill(0)
    writer.observe(1, event(1))
    assert disk.is_used.wait(PATIENCE_S)  # the first line is out of the queue
    for number in range(2, 11):
        writer.observe(number, event(number))
        assert not writer.flush(0.02)
    assert writer.stats().queued == 4
    assert writer.stats().dropped == 6
    disk.free()
    assert writer.flush(PATIENCE_S)
    assert seqs_in(tmp_path) == [1, 2, 3, 4]


def test_file_of_another_node_is_not_touched(
    make_writer: MakeWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes may share a name and a directory by mistake."""
    # Both looked for the last number at the same moment.
    monkeypatch.setattr("coterie_server.journal.segments.Segments.resume", lambda _: 1)
    write(make_writer(), 1)
    data = (tmp_path / segment_name("n", 1)).read_bytes()
    second = make_writer()
    second.observe(2, event(2))
    wait_until_failing(second)
    assert (tmp_path / segment_name("n", 1)).read_bytes() == data


def test_trouble_without_lines_passes(
    make_writer: MakeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def resume(_: object) -> int:
        if tried.is_set():
            return 1
        tried.set()
        raise OSError("not yet")

    monkeypatch.setattr("coterie_server.journal.segments.Segments.resume", resume)
    writer = make_writer()
    assert tried.wait(PATIENCE_S)
    writer.close(1.0)
    assert not writer.stats().failing


def test_old_file_that_cannot_be_deleted_is_no_trouble(
    make_writer: MakeWriter,
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    log: LogLines,
) -> None:
    def refuse(_: object, *, missing_ok: bool) -> None:
        raise PermissionError(f"no ({missing_ok})")

    write(make_writer(), 1)
    clock.now_ms += 100 * SECOND_MS
    monkeypatch.setattr("coterie_server.journal.segments.Path.unlink", refuse)
    writer = make_writer(retention_ms=60 * SECOND_MS)
    write(writer, 2)
    assert not writer.stats().failing
    assert seqs_in(tmp_path) == [1, 2]
    (line,) = (entry for entry in log if entry["event"] == "old journal files not deleted")
    assert line["log_level"] == "warning"


def test_file_that_was_taken_away_is_begun_anew(
    make_writer: MakeWriter, tmp_path: Path, disk: Disk
) -> None:
    writer = make_writer()
    write(writer, 1)
    disk.fill(0)
    writer.observe(2, event(2))
    wait_until_failing(writer)
    (tmp_path / segment_name("n", 1)).unlink()
    disk.free()
    assert writer.flush(PATIENCE_S)
    assert seqs_in(tmp_path) == [2]
    assert writer.stats().dropped == 1


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "with its folder"])
def test_lines_go_on_in_another_file_when_theirs_was_taken_away(
    make_writer: MakeWriter, tmp_path: Path, log: LogLines, how: str
) -> None:
    folder = tmp_path / "journal"
    writer = make_writer(folder)
    write(writer, 1, 2, 3)
    take_away(folder / segment_name("n", 1), how)
    wait_until_dropped(writer)
    write(writer, 4)
    write(writer, 5)
    assert (folder / segment_name("n", 4)).read_text(encoding="utf-8").count("\n") == 2
    assert writer.stats().dropped == 3
    assert not writer.stats().failing
    (told,) = (entry for entry in log if "taken away" in entry["event"])
    assert (told["log_level"], told["lines"]) == ("error", 3)
    writer.close()
    write(make_writer(folder), 6)
    assert [seq for seq in seqs_in(folder) if seq > 3] == [4, 5, 6]


def test_file_that_was_taken_away_leaves_its_numbers_though_nothing_follows(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    """A node that is killed then must not give them again."""
    writer = make_writer()
    write(writer, 1, 2, 3)
    (tmp_path / segment_name("n", 1)).unlink()
    wait_until_dropped(writer)
    shutil.copytree(tmp_path, tmp_path / "killed")
    write(make_writer(tmp_path / "killed"), 4)
    assert seqs_in(tmp_path / "killed") == [5]


def test_file_that_can_not_be_begun_anew_is_told_until_it_can(
    make_writer: MakeWriter, tmp_path: Path
) -> None:
    folder = tmp_path / "journal"
    writer = make_writer(folder)
    write(writer, 1)
    shutil.rmtree(folder)
    folder.write_text("a file", encoding="utf-8")
    # Or it may have looked just before, and the next line goes where the first one is.
    wait_until(lambda: writer.stats().failing)
    writer.observe(2, event(2))
    wait_until_failing(writer)
    folder.unlink()
    assert writer.flush(PATIENCE_S)
    assert seqs_in(folder) == [2]
    assert writer.stats().dropped == 1


def test_closing_on_a_broken_disk_ends_and_tells_what_is_lost(
    make_writer: MakeWriter, disk: Disk, log: LogLines
) -> None:
    writer = make_writer()
    disk.fill(0)
    writer.observe(1, event(1))
    writer.observe(2, event(2))
    writer.close(0.1)
    assert writer.stats().dropped == 2
    (lost,) = (entry for entry in log if entry["event"] == "journal lines lost at shutdown")
    assert lost["lines"] == 2


def test_closing_on_a_hanging_disk_ends(
    make_writer: MakeWriter, disk: Disk, log: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie_server.journal.writer._RETRY_S", 0.05)
    writer = make_writer()
    disk.is_slow = True
    writer.observe(1, event(1))
    writer.close(0.05)
    assert [entry["event"] for entry in log] == ["journal not closed"]
    disk.goes_on.set()


# -- reading -----------------------------------------------------------------------------------


def test_directory_is_read_node_by_node(make_writer: MakeWriter, tmp_path: Path) -> None:
    first, second = make_writer(node="a", segment_bytes=1), make_writer(node="b")
    write(first, *range(11))
    write(second, 1)
    found = [(line.node, line.seq) for line in lines_in(tmp_path)]
    assert found == [("a", seq) for seq in range(1, 12)] + [("b", 1)]


def test_files_are_read_as_given(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    write(writer, 1, 2)
    renamed = (tmp_path / segment_name("n", 1)).rename(tmp_path / "yesterday.txt")
    assert seqs_in(renamed) == [1, 2]
    assert len(list(read_journal([renamed, renamed]))) == 4
    assert seqs_in(tmp_path) == []


def test_bytes_that_are_no_text_are_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / segment_name("n", 1)
    path.write_bytes(b"\xff\xfe\n\x00\n")
    entries = list(read_journal(tmp_path))
    assert [(e.source, e.number) for e in entries if isinstance(e, BadLine)] == [
        (str(path), 1),
        (str(path), 2),
    ]


def test_report_names_nodes_gaps_and_torn_lines(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(segment_bytes=1)
    write(writer, 1, 2, 3)
    writer.close()
    (tmp_path / segment_name("n", 2)).unlink()
    tear(tmp_path / segment_name("n", 3))
    report = verify(tmp_path)
    assert (report.lines, report.torn, report.nodes["n"].last_seq) == (1, 1, 1)


def test_file_deleted_while_reading_is_passed_over(make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer(segment_bytes=1)
    write(writer, 1, 2, 3)
    entries = read_journal(tmp_path)
    first = next(entries)
    (tmp_path / segment_name("n", 2)).unlink()
    assert [e.seq for e in (first, *entries) if isinstance(e, Line)] == [1, 3]
