"""A Java program that answers questions, a line of JSON each, beside the tests."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Final, Self

from tests.interop.java_tools import JavaProgramError

__all__ = ["JavaPipe"]

_STOP_TIMEOUT_S: Final = 10.0


class JavaPipe:
    """The running program, as a context manager."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process is not None
        assert self._log is not None
        try:
            # It ends with its input.
            self._process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._log.close()

    def ask(self, operation: str, **details: Any) -> dict[str, Any]:
        """Put one question; raise `JavaProgramError` if the answer is an exception."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": operation, **details}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise JavaProgramError(f"the program ended\n{self._logged()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JavaProgramError(answer["error"])
        return answer

    def _logged(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        return self._log.read().decode(errors="replace")
