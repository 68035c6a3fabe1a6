"""Holds processes to a part of a core each, as Linux's control groups can."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["held", "why_not"]

_ROOT: Final = Path("/sys/fs/cgroup")
#: Short, so that who has used its part up does not stand still for long.
_PERIOD_US: Final = 5_000
#: Processes without a group of their own are in the root's.
_PROCESSES: Final = "cgroup.procs"


def why_not() -> str:
    """Why processes can't be held here; empty if they can."""
    with contextlib.suppress(OSError), held([os.getpid()], 1.0):
        return ""
    return "needs the right to make control groups for processors"


@contextlib.contextmanager
def held(pids: Iterable[int], share: float) -> Iterator[None]:
    """Let each process, with all its threads, have so much of a core; raises `OSError`."""
    with contextlib.ExitStack() as stack:
        for pid in pids:
            stack.enter_context(_held(pid, int(share * _PERIOD_US)))
        yield


@contextlib.contextmanager
def _held(pid: int, quota_us: int) -> Iterator[None]:
    # The second version of control groups has one tree, the first one for each kind of thing.
    is_second = (_ROOT / "cgroup.controllers").exists()
    root = _ROOT if is_second else _ROOT / "cpu"
    group = root / f"coterie-bench-{pid}"
    if is_second:
        (root / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
    before = root / _group_of(pid, "" if is_second else "cpu")
    group.mkdir()
    try:
        if is_second:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}", encoding="ascii")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US), encoding="ascii")
            (group / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        (group / _PROCESSES).write_text(str(pid), encoding="ascii")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            (before / _PROCESSES).write_text(str(pid), encoding="ascii")
        group.rmdir()


def _group_of(pid: int, kind: str) -> str:
    """The group that a process is in, as a path without the slash at its beginning."""
    lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    groups = (line.split(":", 2) for line in lines)
    return next((path[1:] for _, kinds, path in groups if kind in kinds.split(",")), "")
