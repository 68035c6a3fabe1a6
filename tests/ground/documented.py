"""Runs what a page tells its reader to run, in the order in which it tells it.

- A block of `console` has commands, each after `$ `, and under each what it prints, if that is
  shown.  A block without a title is typed in, and ends by itself.
- A block with a title, such as "Terminal 1", goes on until the page gives that terminal another
  command, or `^C`, or is over; what is shown has to come within a minute.
- A block of `python` has a title: the name of the file that the reader is to save.
- Of what is shown, numbers, times and ids may differ, and `...` stands for any lines, or, in a
  line, for any words.

Ports are others than on the page, so that no other daemon is in the way.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.live.daemon import environment, eventually
from tests.support.ports import free_port

__all__ = [
    "ROOT",
    "Block",
    "Command",
    "Reader",
    "blocks_of",
    "commands_of",
    "run_by_make",
    "shows",
]

ROOT: Final = Path(__file__).resolve().parents[2]
_FENCE: Final = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_ID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_NUMBER: Final = re.compile(r"\d+(?:[.:-]\d+)*")
#: What a terminal takes for orders.
_CONTROL: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[()].)|\r")
_REST: Final = "..."
_INTERRUPT: Final = "^C"
_ACTIVATE: Final = ". .venv/bin/activate"
#: It only bounds a failure, and machines may have much else to do.
_WAIT_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Command:
    """A line that the reader types, and what is shown of what it prints."""

    typed: str
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a page."""

    language: str
    title: str
    text: str

    @property
    def commands(self) -> list[Command]:
        """The commands of a console."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip() == _INTERRUPT:
                found.append((_INTERRUPT, []))
            elif found:
                found[-1][1].append(line)
            else:
                raise ValueError(f"a console begins with a command, not with {line!r}")
        return [Command(typed, tuple(shown)) for typed, shown in found]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, first to last."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["title"] or "", found["text"])
        for found in _FENCE.finditer(text)
    ]


def commands_of(page: Path) -> Iterator[str]:
    """All that a page has its reader type."""
    for block in blocks_of(page):
        if block.language == "console":
            yield from (command.typed for command in block.commands)


def alike(line: str) -> str:
    """A line without what may differ."""
    return " ".join(_NUMBER.sub("N", _ID.sub("ID", line)).split())


def shows(shown: Sequence[str], printed: Sequence[str], *, in_full: bool) -> bool:
    """Whether lines are printed as shown, with nothing else in between if it is shown in full."""
    lines = [alike(line) for line in printed]
    at, skipping = 0, not in_full
    for line in shown:
        if line == _REST:
            skipping = True
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in alike(line).split(_REST)))
        rest = lines[at:] if skipping else lines[at : at + 1]
        found = next((i for i, each in enumerate(rest) if wanted.fullmatch(each)), None)
        if found is None:
            return False
        at += found + 1
        skipping = not in_full
    return skipping or at == len(lines)


class _Terminal:
    """A window with something that runs in it."""

    def __init__(self, title: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.title = title
        self._folder = folder
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: threading.Thread | None = None
        self._printed = bytearray()

    def start(self, command: str) -> None:
        """Type a command."""
        ours, theirs = pty.openpty()
        self._printed = bytearray()
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self._folder,
            env=self._environ,
            start_new_session=True,
        )
        os.close(theirs)
        self._reading = threading.Thread(target=_read, args=(ours, self._printed))
        self._reading.start()

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until it has ended in good order."""
        if self._process is not None:
            before = len(self._printed)
            code = self._end(signal.SIGINT)
            assert code in (0, 130, -signal.SIGINT), f"{self.title} ended with {code}:\n{self}"
            del self._printed[:before]

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> int:
        process, reading = self._process, self._reading
        assert process is not None
        assert reading is not None
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, by)
        code = process.wait(_WAIT_S)
        self._process = None
        reading.join()
        return code

    def expect(self, shown: Sequence[str]) -> None:
        """Wait until it has printed what is shown, or anything if nothing is."""

        def has_printed() -> bool:
            lines = str(self).splitlines()
            if lines and shows(shown, lines, in_full=False):
                return True
            assert self._process is None or self._process.poll() is None, "it has ended"
            return False

        try:
            eventually(has_printed, f"{self.title} shows {shown}", _WAIT_S)
        except AssertionError as error:
            error.add_note(str(self))
            raise

    def __str__(self) -> str:
        """What can be read in the window."""
        text = bytes(self._printed).decode(errors="replace")
        return _CONTROL.sub("", text)


def _read(source: int, printed: bytearray) -> None:
    """Read a terminal until no process has it open, so that none waits for its reader."""
    # Linux tells by an error that the other side was closed.
    with open(source, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while data := terminal.read(65536):
            printed += data


class Reader:
    """A reader who does what a page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clients = f"127.0.0.1:{free_port()}"
        self._http = f"127.0.0.1:{free_port()}"
        self._terminals: dict[str, _Terminal] = {}
        inherited = {
            name: value
            for name, value in environment().items()
            if not name.startswith(("PYTEST_", "COV_"))
        }
        self._environ = {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}",
            "COTERIE_LISTEN": self._clients,
            "COTERIE_HTTP_LISTEN": self._http,
            "COTERIE_BOOTSTRAP": self._clients,
            "COTERIE_HTTP": self._http,
            "COLUMNS": "200",
            "LINES": "50",
            "TERM": "xterm",
        }

    def read(self, page: Path) -> None:
        """Do all that a page says, and then close the terminals, the last one first."""
        try:
            for block in blocks_of(page):
                if block.language == "python":
                    self._save(block)
                elif block.language == "console":
                    for command in block.commands:
                        self._type(block.title, command)
            for terminal in reversed(self._terminals.values()):
                terminal.interrupt()
        finally:
            for terminal in self._terminals.values():
                terminal.kill()

    def _save(self, block: Block) -> None:
        assert block.title, f"a program without a name:\n{block.text}"
        text = self._with_ports(block.text)
        (self._folder / block.title).write_text(text, encoding="utf-8")

    def _with_ports(self, text: str) -> str:
        text = text.replace("127.0.0.1:9092", self._clients)
        return text.replace("127.0.0.1:9080", self._http)

    def _type(self, title: str, command: Command) -> None:
        if command.typed == _ACTIVATE:
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert "\nVENV := .venv\n" in makefile
        elif command.typed.startswith("make ") and not title:
            assert run_by_make(command.typed)  # it exists, and what it sets up is here already
        elif not title:
            self._run(command)
        elif command.typed == _INTERRUPT:
            self._terminals[title].interrupt()
            self._terminals[title].expect(command.shown)
        else:
            if title not in self._terminals:
                self._terminals[title] = _Terminal(title, self._folder, self._environ)
            terminal = self._terminals[title]
            terminal.interrupt()
            terminal.start(run_by_make(command.typed))
            terminal.expect(command.shown)

    def _run(self, command: Command) -> None:
        ended = subprocess.run(
            ["bash", "-c", self._with_ports(command.typed)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WAIT_S,
            cwd=self._folder,
            env=self._environ,
            check=False,
        )
        told = f"$ {command.typed}\n{ended.stdout}{ended.stderr}"
        assert ended.returncode == 0, told
        if command.shown:
            assert shows(command.shown, ended.stdout.splitlines(), in_full=True), told


def run_by_make(command: str) -> str:
    """What a call of `make` runs in the end, when all is set up; other commands as they are."""
    if not command.startswith("make "):
        return command
    planned = subprocess.run(
        ["bash", "-c", command.replace("make ", "make --dry-run --no-print-directory ", 1)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return planned.stdout.splitlines()[-1].replace(".venv/bin/", "")
