"""Which partitions `--topic` and files of offsets mean, and what they can't mean."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_cli.partitions import (
    OFFSET_MAX,
    ChoiceError,
    TopicPartition,
    choose,
    parse_choices,
    read_offsets,
)

KNOWN: Final = [("a", n) for n in range(6)] + [("ab", 0)]


def chosen(*texts: str) -> list[TopicPartition]:
    """Those of `KNOWN` that are meant."""
    return choose(KNOWN, parse_choices(texts), lacking="There is no")


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        ((), KNOWN),
        (("ab",), [("ab", 0)]),
        (("a:1,3-4",), [("a", 1), ("a", 3), ("a", 4)]),
        (("a:2-2,2",), [("a", 2)]),
        # Both count, not the last.
        (("a:0", "a:5"), [("a", 0), ("a", 5)]),
        (("a", "a:5"), KNOWN[:6]),
        (("a:5", "a"), KNOWN[:6]),
    ],
)
def test_partitions_that_are_named_are_meant(
    texts: tuple[str, ...], meant: list[TopicPartition]
) -> None:
    assert chosen(*texts) == meant


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected TOPIC, or TOPIC:0,3-5."),
        (":0", "expected TOPIC, or TOPIC:0,3-5."),
        ("a:", "expected TOPIC, or TOPIC:0,3-5."),
        ("a:x", "expected TOPIC, or TOPIC:0,3-5."),
        ("a:-1", "expected TOPIC, or TOPIC:0,3-5."),
        ("a:\u0663", "expected TOPIC, or TOPIC:0,3-5."),
        ("a:4-2", "4-2 goes backwards."),
        (f"a:{2**31}", "partitions have numbers from 0 to 2147483647."),
        (f"a:0-{'9' * 5000}", "partitions have numbers from 0 to 2147483647."),
        ("zz", "There is no 'zz'."),
        ("A", "There is no 'A'. The nearest known one is 'a'."),
        ("a:0,6", "There is no partition 6 of 'a'."),
        # Without making a list of them.
        ("a:0-2147483647", "There is no partition 6 of 'a'."),
    ],
)
def test_what_is_not_there_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        chosen(text)
    assert str(caught.value).endswith(sentence)


def test_file_as_other_programs_write_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b'\xef\xbb\xbf"a",0,3\r\n\r\nb, 1 ,9223372036854775807\r\n')
    assert list(read_offsets(file)) == [(("a", 0), 3), (("b", 1), OFFSET_MAX)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no offsets."),
        (b"a,0\n", "line 1: expected topic, partition, offset."),
        (b"a,0,1\na,0,-2\n", "line 2: expected topic, partition, offset, got 'a,0,-2'."),
        (b"a,0," + b"9" * 5000, "line 1: expected topic, partition, offset"),
        (b"a,0,9223372036854775808", "line 1: expected topic, partition, offset"),
        (b"a,2147483648,1", "line 1: expected topic, partition, offset"),
        (b"a,0,1\na,0,2\n", "has two offsets for partition 0 of 'a'."),
        (b"\xff\xfe", "can't be read: it is not UTF-8 text."),
        (b"a" * 200_000, "can't be read as CSV: field larger than field limit (131072)."),
        (b'"a,0,1', "can't be read as CSV: unexpected end of data."),
    ],
)
def test_mistake_in_a_file_is_told_before_anything_is_asked(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    said = refused("--file", str(file))
    assert said.startswith(str(file))
    assert sentence in said


def refused(*words: str) -> str:
    """What `offsets reset` says of options that make no sense; no server is asked."""
    address = ("--bootstrap", "127.0.0.1:1")
    result = CliRunner().invoke(app, ["offsets", "reset", "g", *words, *address])
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


@pytest.mark.parametrize("to", ["", "-1", "noon", "1.5", "\u0663", str(2**63), "9" * 5000])
def test_offset_that_there_cannot_be_is_refused(to: str) -> None:
    said = refused(f"--to={to}")
    assert said.startswith(f"--to {to!r}: expected earliest, latest or a whole number from 0 to")


def test_topics_are_not_chosen_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("a,0,1\n")
    assert refused("--file", str(file), "--topic", "a").startswith("--topic has no meaning with")
