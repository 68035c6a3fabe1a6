"""A coordinator in a container, as another container of `docker/compose.test.yaml` sees it."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path
from typing import Final, Self

from tests.live.daemon import Daemon, eventually

__all__ = ["ADDRESS", "Container"]

#: The variables that say where it is, where it answers HTTP, and where its volume is seen.
ADDRESS: Final = "COORDINATOR"
_HTTP: Final = "COORDINATOR_HTTP"
_DATA: Final = "COORDINATOR_DATA"

_HTTP_TIMEOUT_S: Final = 20.0


class Container(Daemon):
    """A daemon that ends with its container, and that the engine starts again.

    It was started elsewhere: what starts and stops a process of the tests' own is not for
    it, and only `restart` and what looks at it are.
    """

    def __init__(self, folder: Path) -> None:
        """Find it by the environment."""
        super().__init__(folder)
        self._address = os.environ[ADDRESS]
        self._http = os.environ[_HTTP]
        self.data_dir = Path(os.environ[_DATA])

    @property
    def address(self) -> str:
        """Where clients find it."""
        return self._address

    def get(self, path: str) -> bytes:
        """What it answers to a GET over HTTP."""
        url = f"http://{self._http}{path}"
        with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT_S) as answer:
            body: bytes = answer.read()
        return body

    def wait_until_ready(self) -> None:
        """Wait until it says that it serves."""
        eventually(self._began, "the coordinator is ready")

    def restart(self, number: signal.Signals) -> None:
        """Let the container end by a signal to its daemon, and wait until there is a new one."""
        before = self._began()
        # `mortal.sh` waits at the other end.
        (self.data_dir / "signal").write_text(f"{number.name.removeprefix('SIG')}\n", "ascii")
        eventually(lambda: self._began() not in (None, before), "the coordinator is back")

    def crash(self) -> None:
        """Kill it; the engine starts it again with the same data."""
        self.restart(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it as it is."""

    def _began(self) -> float | None:
        """When its process began, which tells one from the next; None while it does not serve."""
        try:
            self.get("/readyz")
            return self.figure("process_start_time_seconds")
        except OSError:
            return None
