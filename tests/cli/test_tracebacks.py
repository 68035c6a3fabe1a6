"""What a bug in a command shows of itself."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
from coterie_cli import main
from coterie_cli.commands import topics

def ask(password):
    copy = password[:]
    raise ZeroDivisionError("a bug")

topics.administer = lambda target, work: ask(os.environ["SECRET"])
main.main()
"""


def test_traceback_shows_no_values_of_variables() -> None:
    secret = "hunter2-tr0ub4dor"  # noqa: S105 # invented
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "topics", "list"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SECRET": secret},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.rstrip().endswith("ZeroDivisionError: a bug")
    assert secret not in done.stderr
