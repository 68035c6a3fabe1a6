"""The stream that the log is written to, whose reader may stop reading."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

import pytest

from coterie_server.log import output
from coterie_server.log.output import Output

#: More than any pipe holds.
LINES = [f"{number} {'x' * 1000}" for number in range(2000)]


def in_time(action: Callable[[], object]) -> None:
    """Do something that must not wait for ever."""
    doing = threading.Thread(target=action, daemon=True)
    doing.start()
    doing.join(60)
    assert not doing.is_alive()


@dataclass
class Pipe:
    """A pipe with an output, which nobody reads at first."""

    reader: TextIO
    writer: TextIO
    left_out: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = Output(self.writer, self._tell_left_out)

    def _tell_left_out(self, lines: int) -> None:
        self.left_out.append(lines)
        self.output.write(f"left out {lines}")

    def write(self, *lines: str) -> None:
        """Write lines, without ever waiting for long."""

        def write() -> None:
            for line in lines:
                self.output.write(line)

        in_time(write)

    def read(self, number: int) -> list[str]:
        """Read so many lines."""
        lines: list[str] = []
        in_time(lambda: lines.extend(self.reader.readline().rstrip("\n") for _ in range(number)))
        return lines


#: A terminal that is not read says that it takes something, and then waits in the middle of a line.
MAKE = {"pipe": os.pipe, "terminal": os.openpty}


@pytest.fixture(params=MAKE)
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    """Give a pipe, or a terminal."""
    reading, writing = MAKE[request.param]()
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as writer:
        yield Pipe(reader, writer)


def test_nobody_waits_for_who_does_not_read(pipe: Pipe) -> None:
    pipe.write(*LINES)
    assert pipe.read(len(LINES)) == LINES


def test_order_of_lines_is_kept_when_they_are_read_again(pipe: Pipe) -> None:
    pipe.write(*LINES)
    assert pipe.read(1000) == LINES[:1000]
    pipe.write("later")
    assert pipe.read(1001) == [*LINES[1000:], "later"]
    pipe.write("and later")
    assert pipe.read(1) == ["and later"]


def test_line_that_is_longer_than_the_pipe_is_written_whole(pipe: Pipe) -> None:
    line = "\N{SNOWMAN}" * 300_000
    pipe.write("before", line, "behind")
    assert pipe.read(3) == ["before", line, "behind"]


def test_what_is_too_much_is_left_out_and_counted(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_WAITING_MAX", 10)
    pipe.write(*LINES)
    left_out, read = 0, list[str]()
    while left_out + len(read) < len(LINES):
        (line,) = pipe.read(1)
        if line.startswith("left out"):
            left_out += int(line.split()[2])
        else:
            read.append(line)
    assert left_out > 0
    places = [LINES.index(line) for line in read]
    assert places == sorted(places)
    assert sum(pipe.left_out) == left_out


def test_other_streams_are_written_to_at_once() -> None:
    stream = io.StringIO()
    Output(stream, lambda _: None).write("line")
    assert stream.getvalue() == "line\n"


def test_line_that_a_finalizer_writes_amid_another_comes_behind_it() -> None:
    """The garbage collector may come at any moment, and asyncio's tasks then tell of errors."""

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if text == "line\n":
                made.write("finalizer's line")
            return super().write(text)

    stream = Stream()
    made = Output(stream, lambda _: None)
    in_time(lambda: made.write("line"))
    assert stream.getvalue() == "line\nfinalizer's line\n"


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("is_read", [True, False])
def test_process_ends_soon_with_its_last_lines_if_they_are_read(
    kind: str, *, is_read: bool
) -> None:
    code = (
        "import sys; from coterie_server.log import output;"
        f" output._LAST_S = {60 if is_read else 0.1};"
        " write = output.Output(sys.stderr, print).write; [write('x' * 1000) for _ in range(500)]"
    )
    reading, writing = MAKE[kind]()
    with (
        os.fdopen(reading) as reader,
        os.fdopen(writing, "w") as writer,
        subprocess.Popen([sys.executable, "-c", code], stderr=writer) as process,
    ):
        lines = [reader.readline() for _ in range(500 * is_read)]
        assert process.wait(60) == 0
    assert lines == ["x" * 1000 + "\n"] * (500 * is_read)


def test_last_words_of_an_interpreter_are_written_though_it_starts_no_threads_any_more(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        pipe.output.write("last words")
    assert pipe.read(1) == ["last words"]
