"""A member that uses Coterie's client, in a process of its own: `programs/coterie_member.py`."""

from __future__ import annotations

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any, Final

from tests.live.judge import Run
from tests.live.member import Client, MemberProcess, Step
from tests.live.programs.lines import Options

__all__ = ["COTERIE", "COTERIE_RANGE", "COTERIE_ROUNDROBIN", "Worker", "is_new_after"]

_PROGRAM: Final = "tests.live.programs.coterie_member"
_END_S: Final = 60.0


def _command() -> list[str]:
    return [sys.executable, "-m", _PROGRAM]


COTERIE: Final = Client("coterie", _command, "cooperative-sticky", is_cooperative=True)
COTERIE_RANGE: Final = Client("coterie-range", _command, "range")
COTERIE_ROUNDROBIN: Final = Client("coterie-roundrobin", _command, "roundrobin")


class Worker(MemberProcess):
    """A running member of ours; it takes no commands, and tells more than others do."""

    def __init__(self, client: Client, options: Options, folder: Path) -> None:
        """Start it."""
        self._records: list[dict[str, Any]] = []
        super().__init__(client, options, folder)

    # -- what it says --------------------------------------------------------------------------

    @property
    def records(self) -> list[dict[str, Any]]:
        """All that it has told."""
        lines = self.lines
        self._records += map(json.loads, lines[len(self._records) :])
        return self._records

    @property
    def state(self) -> dict[str, Any]:
        """How its group stood when it told so last; empty if it never did."""
        return next((each for each in reversed(self.records) if each["what"] == "state"), {})

    @property
    def ending(self) -> tuple[str | None, str] | None:
        """The name of the error that ended it, if any, and its text; None if it goes on."""
        last = self.records[-1] if self.records else {}
        return (last["error"], last["text"]) if last.get("what") == "over" else None

    def runs(self) -> list[Run]:
        """Its tasks, in the order in which they began."""
        found: list[Run] = []
        latest: dict[int, Run] = {}
        for record in self.records:
            match record:
                case {"what": "start", "at": at, "partition": partition, "token": token}:
                    run = Run(partition=partition, member=self.name, token=token, began_s=at)
                    run.ended_s = self.ended_s if self.client_is_killed else math.inf
                    latest[partition] = run
                    found.append(run)
                case {"what": "resume", "partition": partition, "offset": offset}:
                    latest[partition].resumed = offset
                case {"what": "acked", "at": at, "partition": partition, "offset": offset}:
                    latest[partition].acks.append((at, offset))
                case {"what": "end", "at": at, "partition": partition}:
                    latest[partition].ended_s = at
        return found

    def running(self) -> dict[int, Run]:
        """Its tasks that go on, by partition."""
        return {run.partition: run for run in self.runs() if math.isinf(run.ended_s)}

    def told(self) -> str:
        """The end of all that it has printed, for a message."""
        lines = [line for line in self.lines if '"acked"' not in line]
        log = self._log_path.read_text(errors="replace")
        return "\n".join([f"-- {self.name}", *lines[-20:], log[-3000:]])

    # -- its end -------------------------------------------------------------------------------
