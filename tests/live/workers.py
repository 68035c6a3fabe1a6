"""A daemon with several workers, for tests."""

from __future__ import annotations

import json
import os
import signal
import zlib
from pathlib import Path
from typing import Any, Final

from tests.live.daemon import Daemon, eventually
from tests.support.ports import free_ports

__all__ = ["WorkersDaemon", "group_in", "is_alive"]

_SHARDS: Final = 50


class WorkersDaemon(Daemon):
    """One that has a worker for each of some ports beside its own."""

    def __init__(self, folder: Path, workers: int = 2, **more: Any) -> None:
        arguments = ("--workers", str(workers), *more.pop("arguments", ()))
        super().__init__(folder, arguments=arguments, **more)
        self.workers = workers
        self.port = free_ports(workers + 1)

    def pids(self) -> dict[int, int]:
        """The processes of the workers, by their nodes' ids."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                line = (path / "cmdline").read_bytes().split(b"\0")
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if b"coterie_server.workers.worker" in line and parent == self.process.pid:
                found[int(line[-2].removeprefix(b"node-"))] = int(path.name)
        return found

    def kill_worker(self, node_id: int) -> None:
        """Kill a worker with SIGKILL, and wait until another is in its place."""
        before = self.pids()[node_id]
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self.pids().get(node_id, before) != before, f"node {node_id} runs again")

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, as they are told over HTTP."""
        nodes: list[dict[str, Any]] = json.loads(self.get("/v1/nodes"))["nodes"]
        return nodes


def group_in(file: int, files: int = 2, prefix: str = "g") -> str:
    """A group's name that belongs into a file of the store."""
    names = (f"{prefix}{number}" for number in range(1000))
    return next(n for n in names if zlib.crc32(n.encode()) % _SHARDS % files == file)


def is_alive(pid: int) -> bool:
    """Whether there is a process that runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
