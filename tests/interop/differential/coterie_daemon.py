"""A Coterie daemon for tests, as users start it: the `coterie` command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.interop.differential.users import LISTENER
from tests.live.daemon import room_for_workers
from tests.support.ports import free_ports

__all__ = ["CoterieDaemon", "DaemonError"]

_HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.05
_READY: Final = " is ready on "


class DaemonError(RuntimeError):
    """The daemon did not come up or did not stop as it should; the message holds its log."""


class CoterieDaemon:
    """One daemon on a loopback port, with its data in a folder that survives restarts."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str | int | bool]) -> None:
        """Choose a port; nothing is started yet."""
        self.settings = dict(settings)
        self.port = free_ports(1 + room_for_workers(self.settings))
        #: Whether there is a second listener, on which users log in.
        self.has_users = False
        self.users_port = free_ports(1 + room_for_workers(self.settings))
        self._data_dir = data_dir
        self._log_path = data_dir.with_name(f"{data_dir.name}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        settings = {key: _text(value) for key, value in self.settings.items()} | self._listeners()
        # Passwords are taken from files alone.
        secrets = {key: settings.pop(key) for key in list(settings) if "jaas" in key}
        config = self._data_dir.with_name(f"{self._data_dir.name}.toml")
        config.write_text(
            "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in secrets.items())
        )
        command = [
            str(Path(sys.executable).with_name("coterie")),
            "serve",
            *("--config", str(config)),
            *("--http", "off"),
            *("--data-dir", str(self._data_dir)),
            *(f"--set={key}={value}" for key, value in settings.items()),
        ]
        # No settings of a developer's own daemon.
        environ = {k: v for k, v in os.environ.items() if not k.startswith("COTERIE_")}
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ | {"PYTHONUNBUFFERED": "1"},
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def _listeners(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.port}
        if self.has_users:
            listeners[LISTENER] = self.users_port
        return {
            "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": (f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT"),
        }

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while _READY not in self.log():
            if process.poll() is not None:
                raise DaemonError(f"coterie exited with {process.returncode}\n{self.log()}")
            if time.monotonic() > deadline:
                raise DaemonError(f"coterie is not ready\n{self.log()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop it with SIGTERM, and with SIGKILL if that takes too long, which is an error."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DaemonError(f"coterie did not stop\n{self.log()}") from None
        self._process = None
        if code != 0:
            raise DaemonError(f"coterie exited with {code}\n{self.log()}")

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """What it has printed since it was last started."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""


def _text(value: str | int | bool) -> str:  # noqa: FBT001 - a setting's value
    return str(value).lower() if isinstance(value, bool) else str(value)
