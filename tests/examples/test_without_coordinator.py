"""The examples end in a sentence where there is no coordinator, and quietly at Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.examples.program import EXAMPLES
from tests.live.daemon import environment
from tests.support.ports import free_port
from tests.support.processes import killed_on_error

pytestmark = pytest.mark.slow

#: What each is started with, but for the address.
WORDS: Final = {
    "shard_workers.py": (),
    "webhook_fanout.py": ("worker-1",),
    "counter_service.py": ("--port", "0"),
    "stateful_workers.py": (),
}


def started(folder: Path, example: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / example), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    )


@pytest.mark.parametrize("example", WORDS)
def test_ctrl_c_ends_the_search_for_a_coordinator(tmp_path: Path, example: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with killed_on_error(
        started(tmp_path, example, *WORDS[example], "--bootstrap", address)
    ) as process:
        assert process.stderr is not None
        assert "connection failed" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
        assert process.wait(60) == 0


def test_aiokafka_says_that_there_is_no_coordinator(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = started(tmp_path, "aiokafka_worker.py", address)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert address.partition(":")[0] in errors.splitlines()[-1]


@pytest.mark.parametrize("example", ["shard_workers.py", "counter_service.py"])
def test_a_file_that_can_t_be_opened_is_named(tmp_path: Path, example: str) -> None:
    path = tmp_path / "nowhere" / "table.db"
    process = started(tmp_path, example, "--database", str(path))
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, f"{path}: unable to open database file\n")
