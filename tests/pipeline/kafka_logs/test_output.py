"""The folder that an import writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie_pipeline.kafka_logs import KafkaLogsError, import_logs, importing
from coterie_protocol.journal_text import Audit, read_lines
from coterie_testing.replay import read_recording
from tests.pipeline.kafka_logs.broker_logs import (
    OldLog,
    Segment,
    first_generation,
    journal,
    member,
    run,
    stored_member,
)

A, B = member("a"), member("b")


def _log(path: Path) -> Path:
    log = OldLog()
    first_generation(log, A, B)
    return log.write(path)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_same_input_gives_the_same_files(tmp_path: Path) -> None:
    one = _log(tmp_path / "one.log")
    two = OldLog(node=2)
    first_generation(two, A, at=3)
    other = two.write(tmp_path / "two.log")
    import_logs([one, other], tmp_path / "first")
    import_logs([other, one], tmp_path / "second")
    assert _bytes(tmp_path / "first") == _bytes(tmp_path / "second")


def test_folder_of_an_earlier_import_is_replaced(tmp_path: Path) -> None:
    log = _log(tmp_path / "server.log")
    out = tmp_path / "out"
    import_logs([log], out, cluster="before")
    import_logs([log], out, cluster="after")
    assert sorted(path.name for path in out.iterdir()) == [
        importing.MARK,
        "journal-after-1-0000000000000001.jsonl",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "server.log"]


def test_folder_with_a_journal_that_no_import_wrote_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal-1-0000000000000001.jsonl").write_text("precious\n")
    with pytest.raises(KafkaLogsError, match="choose another folder"):
        import_logs([_log(tmp_path / "server.log")], out)
    assert (out / "journal-1-0000000000000001.jsonl").read_text() == "precious\n"


def test_folder_with_another_file_beside_the_journal_is_refused(tmp_path: Path) -> None:
    log = _log(tmp_path / "server.log")
    import_logs([log], tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine\n")
    with pytest.raises(KafkaLogsError, match=r"notes\.txt"):
        import_logs([log], tmp_path / "out")


def test_failed_import_leaves_what_was_there(tmp_path: Path) -> None:
    log = _log(tmp_path / "server.log")
    import_logs([log], tmp_path / "out")
    before = _bytes(tmp_path / "out")
    with pytest.raises(KafkaLogsError, match="no segment files"):
        import_logs([log], tmp_path / "out", dump=tmp_path / "out")
    assert _bytes(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "server.log"]


def test_summary_is_left_beside_the_journal(tmp_path: Path) -> None:
    import_logs([_log(tmp_path / "server.log")], tmp_path / "out")
    summary = json.loads((tmp_path / "out" / importing.MARK).read_text())
    assert (summary["rebalances"], summary["not_understood"]) == (1, [])


def test_long_journal_is_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_SEGMENT_BYTES", 500)
    _, lines = run(tmp_path, OldLog(), _many())
    names = sorted(path.name for path in (tmp_path / "out").glob("journal-*.jsonl"))
    assert len(names) > 2
    assert names[0].endswith(f"{1:016}.jsonl")
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))


def _many() -> OldLog:
    log = OldLog()
    for second in range(10):
        first_generation(log, A, at=second * 10)
    return log


def test_imported_journal_is_whole(tmp_path: Path) -> None:
    # No gap, no repetition, nothing that can't be read.
    run(tmp_path, _many())
    audit = Audit()
    for path in sorted((tmp_path / "out").glob("journal-*.jsonl")):
        for entry in read_lines(path.read_text().splitlines(keepends=True)):
            audit.note(entry)
    assert audit.report().is_whole


def test_imported_group_can_be_replayed(tmp_path: Path) -> None:
    stored = Segment()
    stored.generation(1, 1, stored_member(A, [("t", 0), ("t", 1)]), stored_member(B, [("t", 2)]))
    log = OldLog()
    first_generation(log, A, B)
    run(tmp_path, log, stored=stored)
    recording = read_recording(journal(tmp_path / "out"), "g")
    assert [member.session_ms for member in recording.members] == [10_000, 10_000]
    assert [set(member.topics) for member in recording.members] == [{"t"}, {"t"}]
    assert recording.topics == {"t": 3}
