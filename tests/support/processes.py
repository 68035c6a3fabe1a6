"""Processes that tests start."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr

__all__ = ["cpu_seconds_below", "killed_on_error"]


@contextmanager
def killed_on_error(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Wait for a process at the end of the block, but kill it if the block fails.

    Its own context manager would wait then, too, and for ever: for what the block did not come to
    ask of it.
    """
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def cpu_seconds_below(pid: int) -> list[float]:
    """How long each process that a process started has computed, and each that those started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    below = [seconds for child in children for seconds in cpu_seconds_below(child)]
    return [*map(_cpu_seconds, children), *below]


def _cpu_seconds(pid: int) -> float:
    status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    user_ticks, system_ticks = status[11:13]
    return (int(user_ticks) + int(system_ticks)) / os.sysconf("SC_CLK_TCK")
