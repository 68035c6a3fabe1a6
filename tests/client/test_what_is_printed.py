"""What a program that uses the client prints, however it has configured its logging."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from coterie_testing.kit.loopback import LoopbackCoordinator

SECRET: Final = "hunter2-tr0ub4dor"  # noqa: S105  # of no real user

NOTHING: Final = ""
STRUCTLOG_IMPORTED: Final = "import structlog"
BASIC: Final = "import logging; logging.basicConfig(level=logging.DEBUG)"
JSON: Final = """
import json, logging

class Lines(logging.Formatter):
    def format(self, record):
        trace = self.formatException(record.exc_info) if record.exc_info else None
        fields = {**vars(record), "trace": trace, "line": record.getMessage()}
        return json.dumps(fields, default=str)

handler = logging.StreamHandler()
handler.setFormatter(Lines())
logging.basicConfig(level=logging.DEBUG, handlers=[handler])
"""
#: structlog's own defaults, of which rich tracebacks with all local variables are one.
STRUCTLOG_CONSOLE: Final = """
import structlog
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
"""
STRUCTLOG_JSON: Final = """
import structlog
from structlog.processors import JSONRenderer, add_log_level, dict_tracebacks
structlog.configure(
    processors=[add_log_level, dict_tracebacks, JSONRenderer()],
    logger_factory=structlog.PrintLoggerFactory(sys.stderr),
)
"""
STRUCTLOG_TO_LOGGING: Final = """
import logging, structlog
logging.basicConfig(level=logging.DEBUG)
structlog.configure(
    processors=[structlog.stdlib.add_log_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
    logger_factory=structlog.stdlib.LoggerFactory(),
)
"""
CONFIGURATIONS: Final = {
    "nothing": NOTHING,
    "structlog imported": STRUCTLOG_IMPORTED,
    "logging": BASIC,
    "logging as JSON": JSON,
    "structlog for people": STRUCTLOG_CONSOLE,
    "structlog as JSON": STRUCTLOG_JSON,
    "structlog through logging": STRUCTLOG_TO_LOGGING,
}
SILENCES: Final = {
    "logging": "import logging; logging.basicConfig(level=logging.CRITICAL)",
    "disabled": "import logging; logging.disable(logging.CRITICAL)",
    "the client's": "import logging; logging.getLogger('coterie_client').setLevel('CRITICAL')",
    "structlog for people": STRUCTLOG_CONSOLE
    + "import logging; logging.getLogger('coterie_client').setLevel('CRITICAL')",
    "structlog, disabled": STRUCTLOG_JSON + "import logging; logging.disable(logging.CRITICAL)",
}

#: The ways to log that the quick run tries: none, and those that show local variables.
QUICK: Final = ("nothing", "structlog as JSON", "structlog for people")


def few_quick(names: Iterable[str]) -> list[ParameterSet]:
    """Parameters, of which the quick run takes few: each starts a process."""
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


PROGRAM: Final = """
import asyncio, os, sys
{configuration}
from coterie_client import Group, Restart, Stop


async def connect(password, attempt):
    copy = password[:]
    if attempt == 1:
        raise ValueError("no way in")


async def fails(partition):
    global attempts
    attempts += 1
    password = os.environ["SECRET"]
    await connect(password, attempts)
    group.stop()


async def fails_ending(partition):
    password = os.environ["SECRET"]
    try:
        group.stop()
        await asyncio.sleep(60)
    finally:
        await connect(password, 1)


async def ends(partition):
    group.stop()


async def goes_well(partition):
    group.stop()


def hook(event):
    password = os.environ["SECRET"]
    if type(event).__name__ == "WorkStarted":
        raise LookupError("no such event")


async def main(password):
    global group
    on_event = hook if work is ends else None
    async with Group(sys.argv[1], sys.argv[2], topics=["orders"], on_event=on_event) as group:
        await group.run(work, on_error=policy)


attempts = 0
work, policy = {work}, {policy}
asyncio.run(main(os.environ["SECRET"]))
"""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A coordinator for all programs; each has a group of its own."""
    with LoopbackCoordinator({"orders": 1}, folder=tmp_path_factory.mktemp("log")) as coordinator:
        yield coordinator.bootstrap


def run(
    bootstrap: str,
    folder: Path,
    configuration: str,
    work: str = "fails",
    policy: str = "Restart(0.01, 0.01)",
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    program = PROGRAM.format(configuration=configuration, work=work, policy=policy)
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(path), bootstrap, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        # Without asyncio's debugging, which reports whatever is slow on a busy machine.
        env={**os.environ, "PYTHONASYNCIODEBUG": "", "SECRET": SECRET, "COLUMNS": "200"},
    )


def assert_discreet(done: subprocess.CompletedProcess[str], tracebacks: int = 1) -> None:
    """Nothing on standard output, no secret anywhere, and each failure's traceback once."""
    assert not done.stdout
    assert SECRET not in done.stderr
    assert done.stderr.count("Traceback") == tracebacks, done.stderr


@pytest.mark.parametrize("configuration", few_quick(CONFIGURATIONS))
@pytest.mark.parametrize(
    "work",
    [
        "fails",
        pytest.param("fails_ending", marks=pytest.mark.slow),
        pytest.param("ends", marks=pytest.mark.slow),
    ],
)
def test_failure_that_is_raised_nowhere(
    bootstrap: str, tmp_path: Path, configuration: str, work: str
) -> None:
    done = run(bootstrap, tmp_path, CONFIGURATIONS[configuration], work)
    assert done.returncode == 0, done.stderr
    # Python tells in what an error was raised, and here that is a cancellation.
    assert_discreet(done, tracebacks=2 if work == "fails_ending" else 1)
    assert ("no such event" if work == "ends" else "no way in") in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_failure_that_ends_the_program(bootstrap: str, tmp_path: Path, configuration: str) -> None:
    done = run(bootstrap, tmp_path, CONFIGURATIONS[configuration], policy="Stop()")
    assert done.returncode == 1
    assert_discreet(done)
    assert "work failed" in done.stderr


@pytest.mark.parametrize("silence", few_quick(SILENCES))
def test_silence(bootstrap: str, tmp_path: Path, silence: str) -> None:
    done = run(bootstrap, tmp_path, SILENCES[silence])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_is_told_unasked_of_what_goes_well(bootstrap: str, tmp_path: Path) -> None:
    said = "import atexit, sys; atexit.register(lambda: print('structlog' in sys.modules))"
    done = run(bootstrap, tmp_path, said, work="goes_well")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
