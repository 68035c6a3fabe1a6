"""A member that uses Coterie's client, in a process of its own: `programs/coterie_member.py`."""

from __future__ import annotations

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any, Final

from tests.live.member import Client, MemberProcess, Step
from tests.live.ownership import TaskRun
from tests.live.programs.lines import Options

__all__ = ["COTERIE", "COTERIE_RANGE", "COTERIE_ROUNDROBIN", "Worker"]

_PROGRAM: Final = "tests.live.programs.coterie_member"
_END_S: Final = 60.0
#: How much of its log a message shows.
_LOG_CHARS: Final = 3000


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
        self._runs: list[TaskRun] = []
        self._latest: dict[int, TaskRun] = {}
        self._state: dict[str, Any] = {}
        self._ending: tuple[str | None, str] | None = None
        super().__init__(client, options, folder)

    # -- what it says --------------------------------------------------------------------------

    @property
    def records(self) -> list[dict[str, Any]]:
        """All that it has told."""
        for line in self.lines[len(self._records) :]:
            record = json.loads(line)
            self._records.append(record)
            self._digest(record)
        return self._records

    @property
    def state(self) -> dict[str, Any]:
        """How its group stood when it told so last; empty if it never did."""
        return self._state if self.records else {}

    @property
    def ending(self) -> tuple[str | None, str] | None:
        """The name of the error that ended it, if any, and its text; None while it goes on."""
        return self._ending if self.records else None

    @property
    def has_decided(self) -> bool:
        """Whether it has ever shared out the partitions, as the leader."""
        return any(record["what"] == "decided" for record in self.records)

    @property
    def runs(self) -> list[TaskRun]:
        """Its tasks, in the order in which they began."""
        return self._runs if self.records else []

    @property
    def running(self) -> dict[int, TaskRun]:
        """Its tasks that go on, by partition."""
        return {run.partition: run for run in self.runs if math.isinf(run.ended_s)}

    @property
    def owned(self) -> set[int]:
        """The partitions that it works on now."""
        return set(self.running)

    def steps(self, since: int = 0) -> list[Step]:
        """The starts and ends of its tasks."""
        what = {"start": "assigned", "end": "revoked"}
        return [
            Step(what[record["what"]], {record["partition"]}, record["at"])
            for record in self.records[since:]
            if record["what"] in what
        ]

    def told(self) -> str:
        """The end of all that it has printed, for a message."""
        lines = [line for line in self.lines if '"acked"' not in line]
        log = self._log_path.read_text(errors="replace")
        return "\n".join([f"-- {self.name}", *lines[-20:], log[-_LOG_CHARS:]])

    def _digest(self, record: dict[str, Any]) -> None:
        match record:
            case {"what": "start", "at": at, "partition": partition, "token": token}:
                run = TaskRun(partition=partition, member=self.name, token=token, began_s=at)
                self._latest[partition] = run
                self._runs.append(run)
            case {"what": "resume", "partition": partition, "offset": offset}:
                self._latest[partition].resumed = offset
            case {"what": "acked", "at": at, "partition": partition, "offset": offset}:
                self._latest[partition].acks.append((at, offset))
            case {"what": "end", "at": at, "partition": partition}:
                self._latest[partition].ended_s = at
            case {"what": "state"}:
                self._state = record
            case {"what": "over", "error": error, "text": text}:
                self._ending = error, text

    # -- its end -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask it to stop, and do not wait; what it does then depends on whether it is static."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until its process has ended in good order."""
        self.wait_for(lambda: self.ending is not None, "its end", _END_S)
        self._process.wait(_END_S)
        self._hang_up()

    def close(self) -> None:
        """Stop it, and wait for its end."""
        self.stop()
        self.wait()

    def die(self) -> None:
        """Kill it, if it still runs: so its tasks end."""
        super().die()
        for run in self.running.values():
            run.ended_s = self.ended_s
