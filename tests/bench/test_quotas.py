"""Processes that are held to a part of a core."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.quotas import held, why_not


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def groups_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/cgroup").read_text(encoding="utf-8")


def test_process_is_held_for_a_while(process: subprocess.Popen[bytes]) -> None:
    if lacking := why_not():
        pytest.skip(lacking)
    before = groups_of(process)
    with held([process.pid], 0.5):
        assert f"coterie-bench-{process.pid}" in groups_of(process)
    assert groups_of(process) == before
    assert not list(Path("/sys/fs/cgroup").glob(f"*/coterie-bench-{process.pid}"))


def test_process_that_ends_meanwhile_leaves_no_group(process: subprocess.Popen[bytes]) -> None:
    if lacking := why_not():
        pytest.skip(lacking)
    with held([process.pid], 0.5):
        process.kill()
        process.wait()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/coterie-bench-{process.pid}"))
