"""Arguments that make no sense: a sentence and exit code 2, and no server is asked."""

from __future__ import annotations

import errno
import gzip
import io
import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.refusals import sentence_of
from coterie_protocol.errors import IllegalSaslStateError, PolicyViolationError
from coterie_protocol.journal import GroupDeleted, Line, write_line
from tests.support.processes import killed_on_error

#: A server that is asked would end the command with 3.
NOWHERE: Final = ("--bootstrap", "127.0.0.1:1")


def refused(*words: str, code: int = 2) -> str:
    """What a command says on the standard error, in one line; it prints nothing else."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "command",
    [
        "groups describe",
        "groups why",
        "groups watch",
        "groups rebalance",
        "groups delete",
        "members list",
        "offsets show",
        "topics delete",
        "topics create --partitions",
        "topics grow --partitions",
    ],
)
@pytest.mark.parametrize(
    ("name", "sentence"),
    [("a\udcff", r"'a\udcff' is not UTF-8 text"), ("x" * 40_000, "no name has more than 32,767")],
)
def test_name_that_no_request_can_carry_is_refused(command: str, name: str, sentence: str) -> None:
    numbers = ["3"] if "--partitions" in command else []
    words = command.removesuffix(" --partitions").split()
    assert sentence in refused(*words, name, *numbers, *NOWHERE)


@pytest.mark.parametrize(
    "words",
    [
        "groups watch g --every nan",
        "groups watch g --every inf",
        "groups watch g --every 1e300",
        "demo --speed nan",
        "topics create t 2147483648",
        "topics create t 99999999999999999999",
        "journal tail . -n 99999999999999999999",
        "simulate --jobs 999999",
        "pipeline follow j -o o --every nan",
        "pipeline follow j -o o --refresh inf",
    ],
)
def test_number_that_cannot_be_is_refused(words: str) -> None:
    said = refused(*words.split())
    assert "Invalid value" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "-1"])
def test_time_that_nobody_waits_is_refused(seconds: str) -> None:
    said = refused("topics", "list", "--timeout", seconds)
    assert said.startswith("--timeout must be a number of seconds from 0.1 to 1,000,000, got ")


def test_unknown_state_is_told_which_there_are() -> None:
    said = refused("groups", "list", "--state", "bogus")
    assert said.startswith("There is no state 'bogus'. There are PreparingRebalance, ")


def test_unknown_profile_of_the_simulator_is_told_in_one_line() -> None:
    result = CliRunner().invoke(app, ["simulate", "--profile", "[bold]x"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("There is no profile '[bold]x': choose from calm, ")
    assert result.stderr.count("\n") == 1


def test_name_of_a_setting_is_not_capitalized() -> None:
    error = PolicyViolationError("topic t: topic.max.partitions is 3, and it would have 4")
    assert sentence_of(error).startswith("topic.max.partitions is 3")


def test_user_where_the_server_asks_for_none_is_told() -> None:
    error = IllegalSaslStateError("127.0.0.1:9092, SASL handshake")
    assert sentence_of(error) == (
        "The server takes no user and password here: leave out --user (ILLEGAL_SASL_STATE)."
    )


@pytest.mark.parametrize("zone", ["Nowhere/Town", "Europe", "", "../../etc/passwd"])
def test_zone_that_is_none_is_told(zone: str, tmp_path: Path) -> None:
    words = ("pipeline", "import-kafka", str(tmp_path), "--out", "o", "--zone", zone)
    assert refused(*words).startswith(f"There is no time zone {zone!r}")


# -- journals --------------------------------------------------------------------------------------

HOSTILE: Final = "g\x1b[31m"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A data directory with a journal of one line."""
    folder = tmp_path / "data" / "journal"
    folder.mkdir(parents=True)
    line = write_line(Line(0, "1", 1, GroupDeleted(group=HOSTILE, generation=1, how="admin")))
    (folder / "journal-1-0000000000000001.jsonl").write_text(f"{line}\n")
    return folder.parent


def test_journal_shows_no_orders_to_the_terminal(journal: Path) -> None:
    result = CliRunner().invoke(app, ["journal", "tail", str(journal)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert r"g\x1b[31m: group deleted" in result.stdout


def test_last_line_is_the_latest_of_all_nodes(journal: Path) -> None:
    """Workers keep their journals in one folder."""
    for node, ts in (("0", 9), ("2", 5)):
        line = write_line(Line(ts, node, 1, GroupDeleted(group=node, generation=1, how="admin")))
        (journal / "journal" / f"journal-{node}-0000000000000001.jsonl").write_text(f"{line}\n")
    result = CliRunner().invoke(app, ["journal", "tail", str(journal), "-n", "2"])
    assert [line.split()[2] for line in result.stdout.splitlines()] == ["2:", "0:"]


def test_group_that_a_journal_knows_nothing_about_is_told(journal: Path) -> None:
    said = refused("journal", "tail", str(journal), "--group", "h\x1b[31m", code=1)
    folder = journal / "journal"
    assert said.startswith(rf"There is no line about a group 'h\x1b[31m' in {folder}.")
    assert "The nearest known one is" in said
    known = CliRunner().invoke(app, ["journal", "tail", str(journal), "--group", HOSTILE])
    assert "group deleted" in known.stdout


@pytest.mark.parametrize("command", ["tail", "verify"])
def test_folder_that_is_no_journal_is_told_by_its_whole_path(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused("journal", command, ".") == f"There is no journal in {tmp_path}."


@pytest.mark.parametrize("command", ["tail", "verify"])
def test_folder_without_segments_is_no_journal(command: str, tmp_path: Path) -> None:
    (tmp_path / "journal-of-mine.jsonl").write_text("{}")
    said = refused("journal", command, str(tmp_path))
    assert said == f"There is no journal in {tmp_path}."


@pytest.mark.parametrize("command", ["tail", "verify"])
def test_journal_that_cannot_be_read_is_told(
    command: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (journal / "journal").iterdir()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(Path, "open", refuse)
    said = refused("journal", command, str(journal), code=1)
    assert said == f"{file} can't be read: Permission denied."


@pytest.mark.parametrize("command", ["tail", "verify"])
def test_folder_that_may_not_be_read_is_told(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    said = refused("journal", command, str(tmp_path), code=1)
    assert said == f"{tmp_path} can't be read: Permission denied."


def compress(file: Path) -> Path:
    """Compress a file, as people do whose disks get full."""
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    return packed


def test_files_that_were_compressed_are_not_missing(journal: Path) -> None:
    folder = journal / "journal"
    for seq in (2, 3):
        line = write_line(Line(0, "1", seq, GroupDeleted(group="g", generation=1, how="admin")))
        (folder / f"journal-1-{seq:016}.jsonl").write_text(f"{line}\n")
    compress(folder / "journal-1-0000000000000002.jsonl")
    result = CliRunner().invoke(app, ["journal", "verify", str(journal)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Whole" in result.stdout


def test_compressed_file_that_is_cut_off_is_told(journal: Path) -> None:
    (file,) = (journal / "journal").iterdir()
    packed = compress(file)
    packed.write_bytes(packed.read_bytes()[:-12])
    result = CliRunner().invoke(app, ["journal", "verify", str(packed)])
    assert result.exit_code == 1
    assert f"{packed}, line 1: unreadable: the rest can't be unpacked" in result.stderr


def test_last_lines_of_a_compressed_file_are_refused(journal: Path) -> None:
    (file,) = (journal / "journal").iterdir()
    packed = compress(file)
    said = refused("journal", "tail", str(packed))
    assert said == f"{packed} is compressed, and tail reads from the end: unpack it first."


class BrokenFile(io.BytesIO):
    """A file on a disk that reads no more, of which Python's errors don't say the name."""

    def refuse(self, *_: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    read = readline = __next__ = refuse


@pytest.mark.parametrize("command", ["journal tail", "journal verify", "pipeline import-kafka"])
def test_disk_that_reads_no_more_is_not_taken_for_an_output_that_fails(
    command: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (journal / "journal").iterdir()
    out = ["--out", str(journal / "out")] if "import" in command else []
    monkeypatch.setattr(Path, "open", lambda *_, **__: BrokenFile(b"..."))
    said = refused(*command.split(), str(file), *out, code=1)
    assert f"{file} can't be read" in said
    assert "Input/output error." in said


def test_nothing_is_not_called_whole(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    said = refused("journal", "verify", str(tmp_path), code=1)
    assert said == f"There are no lines in {tmp_path / 'journal'}."


def test_what_is_wrong_with_a_journal_is_said(journal: Path) -> None:
    """Numbers that come twice were not, so nothing seemed to be wrong."""
    (file,) = (journal / "journal").iterdir()
    file.write_text(file.read_text() * 3 + "garbage\n")
    result = CliRunner().invoke(app, ["journal", "verify", str(journal)])
    assert result.exit_code == 1
    assert result.stderr.endswith("Not whole: 0 lines missing, 2 repeated, 1 unreadable.\n")


def test_lines_that_are_none_are_counted(journal: Path) -> None:
    (file,) = (journal / "journal").iterdir()
    file.write_text("garbage\n" * 2 + file.read_text())
    result = CliRunner().invoke(app, ["journal", "tail", str(journal)])
    assert result.exit_code == 0
    assert "group deleted" in result.stdout
    assert result.stderr == "2 lines can't be read: `coterie journal verify` says which.\n"


@pytest.mark.slow
def test_command_that_follows_ends_with_its_reader(journal: Path) -> None:
    words = [sys.executable, "-m", "coterie_cli", "journal", "tail", "-f", str(journal)]
    with killed_on_error(subprocess.Popen(words, stdout=subprocess.PIPE)) as followed:
        assert followed.stdout is not None
        followed.stdout.readline()
        followed.stdout.close()  # as head -1 does; nothing more is ever written
        assert followed.wait(60) == 0
