"""The servers that are measured, each in its own process: Coterie, a bare echo, a real Kafka."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from bench.support import echo
from tests.interop.kafka_broker import KafkaBroker
from tests.live.daemon import Daemon
from tests.live.workers import WorkersDaemon

__all__ = [
    "PROC",
    "CoterieServer",
    "EchoServer",
    "KafkaServer",
    "Server",
    "Serving",
    "WorkersServer",
    "more_files",
]

#: Linux's accounts of processes, without which nothing can be measured.
PROC: Final = Path("/proc")

_NO_DELAY: Final = {"group.initial.rebalance.delay.ms": 0}
#: What Kafka has unless it is told otherwise; the tests' brokers have one, to start quickly.
_OFFSETS_LOGS: Final = {"offsets.topic.num.partitions": 50}
#: Quick tries have short sessions.
_ANY_SESSION: Final = {"group.min.session.timeout.ms": 100}
#: The options of Kafka's own start script; the tests' brokers have others, to start quickly.
_JVM_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=4 -XX:-UseSerialGC -XX:+UseG1GC -Xms1g -Xmx1g"
    " -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
)


class Server(Protocol):
    """A process that listens on a port."""

    @property
    def port(self) -> int:
        """The port on loopback."""

    @property
    def pid(self) -> int:
        """The process id."""

    def start(self) -> None:
        """Start the server and wait until it serves."""

    def stop(self) -> None:
        """Stop the server in good order."""


class Serving(Protocol):
    """A server of one process or several behind one port."""

    @property
    def port(self) -> int:
        """The port on loopback."""

    @property
    def pids(self) -> list[int]:
        """The processes that serve."""

    def start(self) -> None:
        """Start the server and wait until it serves."""

    def stop(self) -> None:
        """Stop the server in good order."""


class EchoServer:
    """A bare echo for requests and answers of given sizes."""

    def __init__(self, request_bytes: int, answer_bytes: int) -> None:
        self._sizes = (str(request_bytes), str(answer_bytes))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it prints its port."""
        assert echo.__file__ is not None
        command = [sys.executable, echo.__file__, *self._sizes]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603  # ours
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """Kill the server, which keeps nothing."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


class CoterieServer:
    """The daemon as users run it, with SQLite on disk, journal and HTTP, but no initial delay."""

    def __init__(
        self,
        folder: Path,
        topics: Mapping[str, int] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        # If it is set in the environment, every start compiles all modules again.
        compiled = {"PYTHONDONTWRITEBYTECODE": ""}
        self._daemon = Daemon(
            folder,
            settings={**_NO_DELAY, **_ANY_SESSION, **(settings or {})},
            topics=topics,
            environ=compiled,
            arguments=arguments,
        )

    @property
    def port(self) -> int:
        """The port on loopback."""
        return self._daemon.port

    @property
    def pid(self) -> int:
        """The process id."""
        return self._daemon.process.pid

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        self._daemon.start()

    def stop(self) -> None:
        """Stop the server in good order."""
        self._daemon.stop()


class WorkersServer:
    """The daemon as `CoterieServer` has it, with several workers."""

    def __init__(self, folder: Path, workers: int, arguments: Sequence[str] = ()) -> None:
        how: dict[str, Any] = {
            "settings": _NO_DELAY | _ANY_SESSION,
            # If it is set in the environment, every start compiles all modules again.
            "environ": {"PYTHONDONTWRITEBYTECODE": ""},
            "arguments": arguments,
        }
        self._daemon = (
            Daemon(folder, **how) if workers == 1 else WorkersDaemon(folder, workers, **how)
        )

    @property
    def port(self) -> int:
        """The port on loopback that all workers share."""
        return self._daemon.port

    @property
    def pids(self) -> list[int]:
        """The processes that serve."""
        daemon = self._daemon
        if isinstance(daemon, WorkersDaemon):
            return list(daemon.pids().values())
        return [daemon.process.pid]

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        self._daemon.start()

    def stop(self) -> None:
        """Stop the server in good order."""
        self._daemon.stop()


class KafkaServer(KafkaBroker):
    """One Kafka node with the memory and the garbage collector of its own start script.

    And with as many logs of offsets as it has by default.
    """

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str | int | bool] | None = None,
        listeners: Mapping[str, str] | None = None,
        jvm_options: str = "",
    ) -> None:
        properties = {**_NO_DELAY, **_OFFSETS_LOGS, **(properties or {})}
        super().__init__(folder, properties, listeners=listeners)
        self._jvm_options = f"{_JVM_OPTIONS} {jvm_options}"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        """The process that serves."""
        return [self.pid]

    def start(self) -> None:
        """Start the server and wait until clients can use it."""
        with _environment("_JAVA_OPTIONS", self._jvm_options):
            super().start()


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def more_files() -> int:
    """Raise the limit of open files, for child processes too; return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
