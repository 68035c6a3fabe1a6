"""The daemon for tests, as users run it: `coterie serve` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.ports import free_ports

__all__ = [
    "HOST",
    "Daemon",
    "DaemonError",
    "coterie",
    "environment",
    "eventually",
    "room_for_workers",
    "suspend",
]

HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 60.0
_HTTP_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02

#: "coterie 0.1.0 is ready on 127.0.0.1:9092, HTTP on http://127.0.0.1:9080 (./data: 0 groups, ..."
_READY: Final = re.compile(
    r"^coterie \S+ is ready on \S+:(?P<port>\d+)(?: and \S+)*, HTTP on https?://\S+:(?P<http>\d+) ",
    re.MULTILINE,
)


class DaemonError(RuntimeError):
    """The daemon did not come up or did not stop as it should; the message holds its log."""


def coterie() -> str:
    """The installed `coterie` command of the interpreter that runs the tests."""
    return str(Path(sys.executable).with_name("coterie"))


def environment(**more: str) -> dict[str, str]:
    """An environment without variables of daemons, clients or these tests, and without profiles."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("COTERIE_") and name not in ("PYTHONASYNCIODEBUG", "NOTIFY_SOCKET")
    }
    return {**inherited, "PYTHONUNBUFFERED": "1", "COTERIE_PROFILES": os.devnull, **more}


def eventually(
    true: Callable[[], object],
    what: str | Callable[[], str],
    timeout_s: float = 60.0,
    every_s: float = 0.05,
) -> None:
    """Wait until a condition holds; the limit is generous, because it only bounds a failure."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {timeout_s:g} s: {told}")
        time.sleep(every_s)


def suspend(process: subprocess.Popen[Any], seconds: float) -> None:
    """Suspend a process for some seconds, in real time."""
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGCONT)


class Daemon:
    """One daemon on a loopback port, with its data in a folder that survives restarts.

    As a context manager it is running within the block, and gone after it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str | int | bool] | None = None,
        topics: Mapping[str, int] | None = None,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        """Choose a port; nothing is started yet.

        `prefix` is what runs the command, such as a shell that sets limits first; `arguments` are
        more of its own.
        """
        self.settings = dict(settings or {})
        self.port = free_ports(1 + room_for_workers(self.settings))
        self.http_port = 0
        self.data_dir = folder / "data"
        self.topics = dict(topics or {})
        self._prefix = tuple(prefix)
        self._arguments = tuple(arguments)
        self._environ = dict(environ or {})
        self._log_path = folder / "daemon.log"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """Its address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its running process."""
        assert self._process is not None
        return self._process

    # -- life ----------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start it without waiting for it."""
        assert self._process is None
        command = [
            *self._prefix,
            coterie(),
            "serve",
            *("--listen", self.address),
            *("--http", f"{HOST}:0"),
            *("--data-dir", self.data_dir.name),  # relative, as the default is
            *(f"--topic={name}:{partitions}" for name, partitions in self.topics.items()),
            *(f"--set={key}={_text(value)}" for key, value in self.settings.items()),
            *self._arguments,
        ]
        with self._log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(**self._environ),
                cwd=self.data_dir.parent,
            )

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.launch()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self) -> None:
        """Wait for the ready line, and read from it where HTTP is answered."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (ready := _READY.search(self.log())) is None:
            code = self.process.poll()
            if code is not None:
                raise DaemonError(f"coterie exited with {code}\n{self.log()}")
            if time.monotonic() > deadline:
                raise DaemonError(f"coterie is not ready\n{self.log()}")
            time.sleep(_POLL_S)
        assert int(ready["port"]) == self.port
        self.http_port = int(ready["http"])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Ask it to stop and return how many seconds that took; anything but exit 0 is an error."""
        began = time.monotonic()
        self.process.send_signal(number)
        try:
            code = self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DaemonError(f"coterie did not stop\n{self.log()}") from None
        self._process = None
        if code != 0:
            raise DaemonError(f"coterie exited with {code}\n{self.log()}")
        return time.monotonic() - began

    def suspend(self, seconds: float) -> None:
        """Suspend its process for some seconds, by SIGSTOP."""
        suspend(self.process, seconds)

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, number: signal.Signals) -> None:
        """Stop or kill it, and start it again on the same port with the same data."""
        if number is signal.SIGKILL:
            self.kill()
        else:
            self.stop(number)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        if kind is not None:
            self.kill()
            return
        self.stop()

    # -- looking at it -------------------------------------------------------------------------

    def log(self) -> str:
        """Its output since it was last started."""
        if not self._log_path.exists():
            return ""
        with self._log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def whole_log(self) -> str:
        """Its output over all its starts."""
        return self._log_path.read_text(errors="replace")

    def get(self, path: str) -> bytes:
        """The body of its answer to a GET over HTTP."""
        url = f"http://{HOST}:{self.http_port}{path}"
        with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT_S) as answer:
            body: bytes = answer.read()
        return body

    def group(self, group_id: str) -> dict[str, Any]:
        """A group as `/v1/groups/` shows it; an `OSError` if there is none."""
        shown: dict[str, Any] = json.loads(self.get(f"/v1/groups/{group_id}"))
        return shown

    def figure(self, name: str, *labels: str) -> float:
        """The sum of a metric of `/metrics` over all lines with these labels, as `api="Fetch"`."""
        lines = self.get("/metrics").decode().splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if re.match(rf"{name}[ {{]", line) and all(label in line for label in labels)
        )

    def rss_bytes(self) -> int:
        """How much memory it occupies."""
        return self._status("VmRSS") * 1024

    def _status(self, field: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(rf"^{field}:\s+(\d+)", status, re.MULTILINE)
        assert found is not None
        return int(found[1])


def room_for_workers(settings: Mapping[str, str | int | bool]) -> int:
    """How many ports that follow a daemon's own its workers take, or leave out, with these."""
    workers = int(settings.get("workers", 1))
    return 0 if workers == 1 else int(settings.get("worker.port.offset", 1)) + workers


def _text(value: str | int | bool) -> str:  # noqa: FBT001 - a setting's value
    return str(value).lower() if isinstance(value, bool) else str(value)
