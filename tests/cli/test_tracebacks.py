"""What a bug in a command shows of itself."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
from coterie_cli import main
from coterie_cli.doing import connecting

def ask(password):
    copy = password[:]
    raise ZeroDivisionError("a bug")

connecting.administer = lambda target, work: ask(os.environ["SECRET"])
import coterie_cli.doing.topics as topics
topics.administer = connecting.administer
main.main()
"""


def test_bug_is_shown_without_what_variables_hold() -> None:
    """Python's own traceback, once, on standard error."""
    secret = "hunter2-tr0ub4dor"  # noqa: S105  # of nobody
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
