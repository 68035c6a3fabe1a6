"""Ctrl-C while a command is still being loaded, or waits, ends it without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from coterie_cli.interrupts import cutting_off_interrupts, end_at_interrupts, raising_interrupts
from tests.live.daemon import eventually
from tests.support.processes import cpu_seconds_below, killed_on_error

#: Runs a command, and presses Ctrl-C when a module is imported.
INTERRUPTED: Final = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, CtrlC())
from coterie_cli.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("typer", "topics list"),
        ("coterie_cli.commands.topics", "topics list"),
        ("coterie_client.errors", "topics list"),
        ("coterie_protocol.messages", "topics list"),
        ("coterie_cli.watching", "groups watch billing"),
        ("coterie_cli.demo.group", "demo"),
    ],
)
def test_an_interrupted_import_is_no_traceback(module: str, command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, *command.split()],
        capture_output=True,
        text=True,
        check=False,
        env={"COTERIE_BOOTSTRAP": "127.0.0.1:1"},
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", -signal.SIGINT)


@pytest.mark.slow
def test_interrupted_simulations_do_not_complain() -> None:
    simulating = subprocess.Popen(
        [sys.executable, "-m", "coterie_cli", "simulate", "--runs", "100000", "--jobs", "2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with killed_on_error(simulating):
        assert simulating.stderr is not None
        assert simulating.stderr.readline().startswith("First seed: ")
        eventually(
            lambda: sum(seconds > 2 for seconds in cpu_seconds_below(simulating.pid)) == 2,
            "its processes are in the middle of a run",
        )
        os.killpg(simulating.pid, signal.SIGINT)
        assert simulating.stderr.read().strip() in ("", "Aborted.")
    assert simulating.returncode == 130


@pytest.fixture
def interrupts() -> Iterator[None]:
    """How interrupts are handled is the same after the test as before."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_what_has_something_to_end_is_interrupted_by_an_exception() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_at_interrupts()
    with pytest.raises(KeyboardInterrupt), raising_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


#: Presses Ctrl-C where an exception is lost: as an object is let go of.
LOST: Final = """
import signal
from coterie_cli.interrupts import cutting_off_interrupts, end_at_interrupts, raising_interrupts

class Remote:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

end_at_interrupts()
with raising_interrupts(), cutting_off_interrupts():
    Remote()
print("went on")
"""


def test_interrupts_that_would_get_lost_end_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", -signal.SIGINT)


@pytest.mark.usefixtures("interrupts")
def test_interrupts_are_exceptions_again_afterwards() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_at_interrupts()
    with raising_interrupts():
        with cutting_off_interrupts():
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interrupts")
def test_interrupts_that_are_ignored_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_at_interrupts()
    with raising_interrupts(), cutting_off_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
