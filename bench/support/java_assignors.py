"""Kafka's own assignors, in a Java virtual machine that keeps running and warms up."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from coterie_assignors import Cluster, MemberInfo
from tests.interop.java_assignors import JAVA_ASSIGNORS, java_question
from tests.interop.java_tools import java_source_command

__all__ = ["JavaAssignors"]

#: Instead of the tests' options: the optimizing compiler, and memory for large groups.
#: And no warnings, which take time to write.
_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=4",
    "-Xmx3g",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
#: How long each new question is repeated before the first measurement.
_WARM_UP_MS: Final = 700.0
#: An answer that takes longer than this, warming up included, is given up.
TIMEOUT_S: Final = 20.0


class JavaAssignors:
    """Asks one question after the other; a virtual machine that takes too long is killed."""

    def __init__(self, source: Path = JAVA_ASSIGNORS, timeout_s: float = TIMEOUT_S) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, name: str, cluster: Cluster, members: Mapping[str, MemberInfo]) -> bool:
        """Put a question and warm up; return whether the answer came in time."""
        return self.put(java_question(name, cluster, members))

    def put(self, question: Mapping[str, Any]) -> bool:
        """Put a question as the program reads it, and warm up."""
        said = self._say(question)
        return said is not None and self.seconds(_WARM_UP_MS) is not None

    def seconds(self, turn_ms: float, **options: bool) -> float | None:
        """The seconds that one answer to the last question takes; None if it took too long.

        Which options there are, is up to the program.
        """
        said = self._say({"time": turn_ms, **options})
        return None if said is None else max(int(said), 1) / 1e9

    def _say(self, what: Mapping[str, Any]) -> str | None:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        clock = threading.Timer(self._timeout_s, process.kill)
        clock.start()
        try:
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            clock.cancel()
        if not answer:
            self._stop()
            return None
        return answer

    def _start(self) -> subprocess.Popen[str]:
        command = java_source_command(self._source, "silent")
        place = command.index("-cp")
        self._process = subprocess.Popen(  # noqa: S603  # a program of ours
            [*command[:place], *_OPTIONS, *command[place:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
