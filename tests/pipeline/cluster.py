"""A Spark cluster on this machine: a master and workers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

import pyspark

from coterie_pipeline.java import java_home
from tests.live.daemon import HOST, eventually
from tests.support.ports import free_port

__all__ = ["Cluster"]

_HOME: Final = Path(pyspark.__file__).parent
_DEPLOY: Final = "org.apache.spark.deploy"


class Cluster:
    """As a context manager it is up within the block, and gone after it."""

    def __init__(self, folder: Path, workers: int, memory: str = "1g") -> None:
        """Choose the ports; nothing is started yet."""
        self._folder = folder
        self._count = workers
        self._memory = memory
        self._port, self._page = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        """Its address."""
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        """Start it and wait for its workers."""
        ports = ("--host", HOST, "--port", str(self._port), "--webui-port", str(self._page))
        self._start("master", f"{_DEPLOY}.master.Master", *ports)
        eventually(self._answers, "the master answers")
        for number in range(self._count):
            self._start(
                f"worker-{number}",
                f"{_DEPLOY}.worker.Worker",
                *("--host", HOST, "--cores", "1", "--memory", self._memory),
                *("--webui-port", str(free_port())),
                *("--work-dir", str(self._folder / f"work-{number}")),
                self.master,
            )
        eventually(lambda: self.state()["aliveworkers"] == self._count, "the workers are there")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything, executors included."""
        for process in self._processes:
            _kill(process)

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=10) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    def kill_worker(self) -> None:
        """Kill the last worker and what it runs."""
        _kill(self._processes[-1])

    def _answers(self) -> bool:
        try:
            self.state()
        except (OSError, ValueError):  # it is starting, and has no page yet
            return False
        return True

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        environ = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(_HOME),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
        }
        log = (self._folder / f"{name}.log").open("wb")
        command = [str(_HOME / "bin" / "spark-class"), kind, *arguments]
        with log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environ, start_new_session=True
            )
        self._processes.append(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
