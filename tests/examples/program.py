"""An example, run as its reader would run it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from tests.live.daemon import environment

__all__ = ["EXAMPLES", "Program"]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
_END_S: Final = 60.0
_AGAIN_S: Final = 0.01


class Program:
    """An example in a process of its own; as a context manager it does not outlive its test."""

    def __init__(self, folder: Path, example: str, *words: str) -> None:
        """Start it in a folder, where it also leaves what it prints."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log_path = folder / f"{Path(example).stem}-{len(list(folder.iterdir()))}.log"
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / example), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment(),
            )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self, *, again_and_again: bool = False) -> None:
        """Ask it to stop, as a service manager does, and see that it does so in good order."""
        self._process.send_signal(signal.SIGTERM)
        while again_and_again and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_AGAIN_S)
        code = self._process.wait(_END_S)
        assert code == 0, self.log
        assert "Traceback" not in self.log, self.log

    def freeze(self) -> None:
        """Suspend it, as a debugger or a hypervisor does."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it, if it still runs."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
