"""Failed tests fail no others of their process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).parents[2]
PLUGIN: Final = """
from tests.support.left_open import LeftOpen

def pytest_configure(config):
    config.pluginmanager.register(LeftOpen())
"""
PREAMBLE: Final = """
import gc, socket, threading, time
import pytest

class Client:
    def __init__(self):
        self.itself = self  # only the garbage collector finds it
        self.socket = socket.socket()
"""


def run(folder: Path, tests: str, *, with_plugin: bool = True) -> str:
    """What pytest prints of these tests."""
    (folder / "conftest.py").write_text(PLUGIN if with_plugin else "")
    (folder / "test_some.py").write_text(PREAMBLE + tests)
    options = f"-q -W error -p no:cacheprovider -p no:asyncio -o pythonpath={ROOT}".split()
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={folder}", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return ended.stdout + ended.stderr


OPEN_IN_CALL: Final = """
def test_fails():
    client = Client()
    assert 1 == 2

def test_has_no_part_in_it():
    gc.collect()
"""


def test_only_the_test_that_leaves_something_open_fails(tmp_path: Path) -> None:
    printed = run(tmp_path, OPEN_IN_CALL)
    assert "1 failed, 1 passed in" in printed
    assert re.search(r"Left open.*\n.*ResourceWarning.*unclosed <socket", printed)


def test_another_would_fail_without_the_plugin(tmp_path: Path) -> None:
    assert "2 failed" in run(tmp_path, OPEN_IN_CALL, with_plugin=False)


def test_test_that_passes_must_not_leave_anything_open(tmp_path: Path) -> None:
    printed = run(tmp_path, OPEN_IN_CALL.replace("assert 1 == 2", "pass"))
    assert "1 failed, 1 passed in" in printed
    assert "FAILED test_some.py::test_has_no_part_in_it" in printed


def test_what_failing_fixtures_leave_open_fails_no_test(tmp_path: Path) -> None:
    tests = """
@pytest.fixture
def fails_before():
    client = Client()
    assert 1 == 2

@pytest.fixture
def fails_after():
    client = Client()
    yield client
    try:
        client.socket.recv("no number")
    except TypeError:
        raise ValueError("it is open")

def test_of_one(fails_before):
    pass

def test_of_the_other(fails_after):
    pass

def test_has_no_part_in_it():
    gc.collect()
"""
    assert "2 passed, 2 errors in" in run(tmp_path, tests)


def test_thread_that_a_failed_test_leaves_fails_no_other(tmp_path: Path) -> None:
    tests = """
opened, closed = threading.Event(), threading.Event()

def open_sockets():
    opened.wait()
    Client()
    closed.set()
    1 / 0

def test_fails():
    threading.Thread(target=open_sockets, name="opener", daemon=True).start()
    assert 1 == 2

def test_has_no_part_in_it():
    opened.set()
    assert closed.wait(60)
    while any(thread.name == "opener" for thread in threading.enumerate()):
        time.sleep(0.01)
    gc.collect()

def test_has_none_either():
    pass
"""
    printed = run(tmp_path, tests)
    assert "opener is still running" in printed
    assert "1 failed, 2 passed in" in printed
