"""The last lines of a journal, and those that come after them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from coterie_protocol.journal import GroupEmptied, Line, write_line
from coterie_protocol.journal_text import segment_name
from coterie_server.journal import JournalTail, backwards


def text_of(ts: int, seq: int, node: str = "1", group: str = "g") -> str:
    """A line of a journal."""
    return f"{write_line(Line(ts, node, seq, GroupEmptied(group=group, generation=seq)))}\n"


def write(folder: Path, node: str, lines: Iterable[tuple[int, int]]) -> Path:
    """A file of a node, of dates and numbers; the first number is in its name."""
    lines = list(lines)
    path = folder / segment_name(node, lines[0][1])
    path.write_text("".join(text_of(ts, seq, node) for ts, seq in lines), encoding="utf-8")
    return path


def add(path: Path, text: str) -> None:
    """Let a file grow."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def tail_of(journal: Path) -> JournalTail:
    return JournalTail(journal, lambda _: True)


def told(lines: Iterable[Line]) -> list[tuple[str, int]]:
    return [(line.node, line.seq) for line in lines]


@pytest.mark.parametrize("block_bytes", [1, 200, 262_144])
def test_last_lines_of_several_nodes_are_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """The journals of workers lie in one folder."""
    monkeypatch.setattr(backwards, "_BLOCK_BYTES", block_bytes)
    write(tmp_path, "1", [(10, 1), (20, 2)])
    write(tmp_path, "1", [(50, 3), (60, 4)])
    write(tmp_path, "2", [(30, 1), (40, 2), (55, 3)])
    assert told(tail_of(tmp_path).newest_first()) == [
        *[("1", 4), ("2", 3), ("1", 3), ("2", 2)],
        *[("2", 1), ("1", 2), ("1", 1)],
    ]


def test_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    damaged = write(tmp_path, "1", [(10, 1)])
    damaged.write_text("no line\n" * 9, encoding="utf-8")
    write(tmp_path, "1", [(20, 2), (30, 3)])
    tail = tail_of(tmp_path)
    newest_first = tail.newest_first()
    assert [next(newest_first).seq, next(newest_first).seq] == [3, 2]
    assert tail.bad == 0
    assert list(newest_first) == []
    assert tail.bad == 9


def test_lines_that_come_later_are_read_once_and_without_those_before(tmp_path: Path) -> None:
    path = write(tmp_path, "1", [(10, 1), (20, 2)])
    tail = tail_of(tmp_path)
    tail.newest_first()
    path.write_text("x" * (path.stat().st_size - 1) + "\n", encoding="utf-8")  # not looked at
    assert list(tail.new_lines()) == []
    add(path, text_of(30, 3))
    write(tmp_path, "1", [(40, 4)])
    write(tmp_path, "2", [(35, 1)])
    assert told(tail.new_lines()) == [("1", 3), ("2", 1), ("1", 4)]
    assert list(tail.new_lines()) == []
    assert tail.bad == 0


def test_line_that_does_not_end_is_read_when_it_does(tmp_path: Path) -> None:
    path = write(tmp_path, "1", [(10, 1)])
    text = text_of(20, 2)
    add(path, text[:30])
    tail = tail_of(tmp_path)
    assert told(tail.newest_first()) == [("1", 1)]
    assert list(tail.new_lines()) == []
    add(path, text[30:])
    assert told(tail.new_lines()) == [("1", 2)]
    assert tail.bad == 0


def test_node_that_begins_anew_is_followed(tmp_path: Path) -> None:
    """Its journal was moved away before it started again, so its numbers begin anew."""
    path = write(tmp_path, "1", [(10, 1), (20, 2), (30, 3)])
    tail = tail_of(tmp_path)
    assert len(list(tail.newest_first())) == 3
    path.unlink()
    assert list(tail.new_lines()) == []
    write(tmp_path, "1", [(40, 1), (50, 2)])
    assert told(tail.new_lines()) == [("1", 1), ("1", 2)]


def test_single_file_is_read_by_itself(tmp_path: Path) -> None:
    path = write(tmp_path, "1", [(10, 1), (20, 2)])
    write(tmp_path, "1", [(30, 3)])
    tail = tail_of(path)
    assert told(tail.newest_first()) == [("1", 2), ("1", 1)]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(tail.new_lines())
