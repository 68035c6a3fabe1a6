"""A daemon that is told to stop before it has begun, also as the first process of a container.

The kernel spares a first process the signals that it has no handler for, so it would never hear of
them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.live.daemon import HOST, coterie, environment, eventually

_TIMEOUT_S: Final = 60.0
MORE_THAN_A_PIPE_HOLDS: Final = 1 << 18

#: Makes what follows the first process of a namespace, as an engine does, without being root.
FIRST: Final = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")

#: `coterie`, which a signal reaches when it is about to import the first of what is heavy.
TOLD_WHILE_IT_IMPORTS: Final = """
import os, sys

number = int(sys.argv.pop(1))

class Telling:
    def find_spec(self, name, *_):
        if name == "coterie_server":
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Telling())
from coterie_cli.main import main
main()
"""

SIGNALS: Final = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


@pytest.fixture(scope="module")
def first() -> Sequence[str]:
    """Return what makes a command a first process; skip where that is not allowed."""
    try:
        tried = subprocess.run([*FIRST, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `unshare` here")
    if tried.returncode != 0:
        pytest.skip(f"no process can be made a first one here: {tried.stderr.strip()}")
    return FIRST


def serve(folder: Path) -> list[str]:
    """Return the words after `coterie`."""
    addresses = ["--listen", f"{HOST}:0", "--http", "off"]
    return ["serve", *addresses, "--data-dir", str(folder / "data")]


def imports_and_ends(folder: Path, number: signal.Signals, prefix: Sequence[str] = ()) -> None:
    """Start it, let the signal come while it imports, and see it end well, with nothing begun."""
    ended = subprocess.run(
        [*prefix, sys.executable, "-c", TOLD_WHILE_IT_IMPORTS, str(int(number)), *serve(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not (folder / "data").exists()


@SIGNALS
def test_signal_during_imports_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    imports_and_ends(tmp_path, number)


@SIGNALS
def test_signal_during_imports_ends_a_first_process_soon(
    tmp_path: Path, number: signal.Signals, first: Sequence[str]
) -> None:
    imports_and_ends(tmp_path, number, first)


def test_signal_from_outside_ends_a_starting_first_process(
    tmp_path: Path, first: Sequence[str]
) -> None:
    """Otherwise `docker stop` would have to wait until it may kill."""
    command = [*first, coterie(), *serve(tmp_path), "--config", "/dev/stdin"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment(), stdin=pipe, stdout=pipe, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # All of that has room nowhere, so by now the daemon reads its settings; it can't go on
            # until the pipe is closed.
            process.stdin.write(b"#" * MORE_THAN_A_PIPE_HOLDS)
            os.kill(_child(process.pid), signal.SIGTERM)
            process.stdin.close()
            eventually(lambda: process.poll() is not None, "the daemon has ended")
        finally:
            process.kill()
        assert (process.returncode, process.stdout.read()) == (0, b"")
    assert not (tmp_path / "data").exists()


def _child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(child)
