"""What is printed: tables with every cell whole, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer

from coterie_cli.output import (
    FAILED,
    capitalized,
    fail,
    print_json,
    print_prose,
    print_table,
    say,
    table_lines,
)

#: A group's name that would colour the terminal, begin a new line and turn the direction.
HOSTILE: Final = "a\x1b[31mred\nline\u202egnp\x9b"
SHOWN: Final = r"a\x1b[31mred\nline\u202egnp\x9b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("there is no profile 'a'.", "There is no profile 'a'."),
        ("group g: it is gone", "Group g: it is gone"),
        ("client.properties can't be read", "client.properties can't be read"),
        ("ssl.truststore.type must be PEM", "ssl.truststore.type must be PEM"),
        ("conf/a can't be read", "conf/a can't be read"),
        ("no_such: it is gone", "no_such: it is gone"),
        ("127.0.0.1:1 is silent", "127.0.0.1:1 is silent"),
        ("", ""),
    ],
)
def test_sentences_begin_with_a_capital_letter_but_where_they_begin_with_a_name(
    text: str, shown: str
) -> None:
    assert capitalized(text) == shown


def test_ids_stay_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    member = "coterie-worker-1.example-2120f14a-7a11-4a8e-a2b9-fde4045a0123"
    print_table(("MEMBER", "HOST", "PARTITIONS"), [(member, "10.1.2.3", "orders[0-999]")], "none")
    heading, row = capsys.readouterr().out.splitlines()
    assert row == f"{member}  10.1.2.3  orders[0-999]"
    assert heading.index("HOST") == row.index("10.1.2.3")


def test_numbers_are_set_to_the_right_and_wide_letters_count_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("TOPIC", "PARTITIONS"), [("注文", 3), ("orders", 12_000), ("none", None)], "none")
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   PARTITIONS",
        "注文    3",
        "orders  12,000",
        "none    -",
    ]


def test_nothing_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("TOPIC",), [], "There are no topics.")
    assert capsys.readouterr().out == "There are no topics.\n"


def test_hostile_name_is_escaped_in_tables_and_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("GROUP", "STATE"), [(HOSTILE, "Empty")], "none")
    say(f"Deleted {HOSTILE}.")
    with pytest.raises(typer.Exit):
        fail(f"{HOSTILE} has members.", FAILED)
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == [f"{SHOWN}  Empty", f"Deleted {SHOWN}."]
    assert said.err == f"{SHOWN} has members.\n"


def test_hostile_name_in_json_is_escaped_and_means_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"group": HOSTILE, "topic": "注文"})
    said = capsys.readouterr().out
    assert "注文" in said
    assert all(line.isprintable() for line in said.splitlines())
    assert json.loads(said)["group"] == HOSTILE


def coterie(*words: str, stdout: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command with its output in a file."""
    with Path(stdout).open("wb") as output:
        return subprocess.run(
            [sys.executable, "-m", "coterie_cli", *words],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, **variables},
        )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", ["profile path", "--version", "profile -h"])
def test_full_disk_is_told_in_a_sentence(words: str) -> None:
    done = coterie(*words.split(), stdout="/dev/full")
    assert done.returncode == FAILED
    assert done.stderr == b"The output can't be written: No space left on device.\n"


def test_letter_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    done = coterie(
        *("profile", "set", "注文"),
        stdout=str(tmp_path / "out"),
        PYTHONIOENCODING="latin-1",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out").read_text() == "Made \\u6ce8\\u6587.\n"


def test_lists_that_make_a_table_too_wide_get_lines_of_their_own() -> None:
    rows = [("billing-2120f14a", "10.1.2.3", "orders[0-9]"), ("b", "10.1.2.4", "-")]
    headings = ("MEMBER", "HOST", "PARTITIONS")
    assert table_lines(headings, rows, 39) == [
        "MEMBER            HOST      PARTITIONS",
        "billing-2120f14a  10.1.2.3  orders[0-9]",
        "b                 10.1.2.4  -",
    ]
    assert table_lines(headings, rows, 38) == [
        "MEMBER            HOST\n  PARTITIONS",
        "billing-2120f14a  10.1.2.3\n  orders[0-9]",
        "b                 10.1.2.4\n  -",
    ]


def test_words_and_ids_stay_whole_at_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    member = "coterie-26f7a707-0c1d-4c66-9c6c-f0771b76cfec"
    print_prose(f"  Waited for 1 member: {member}.", 50)
    print_prose(f"  Waited for 1 member: {member}.", None)
    assert capsys.readouterr().out.splitlines() == [
        "  Waited for 1 member:",
        f"    {member}.",
        f"  Waited for 1 member: {member}.",
    ]
