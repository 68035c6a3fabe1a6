"""A group whose members are processes of their own, and the times at which they worked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bench.support import standstill_member
from bench.support.standstill_member import MemberOptions

__all__ = ["StandstillGroup", "WorkLog"]

_TIMEOUT_S: Final = 90.0


class StandstillGroup:
    """The members of one group, all of one kind."""

    def __init__(self, options: MemberOptions, partitions: int) -> None:
        self._options = options
        self.log = WorkLog(partitions)
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._changed = threading.Condition()

    @property
    def names(self) -> tuple[str, ...]:
        """The members that run."""
        return tuple(self._members)

    def start(self, name: str) -> None:
        """Start a member, and don't wait for it."""
        assert standstill_member.__file__ is not None
        command = [sys.executable, standstill_member.__file__, self._options.to_text(name)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
        self._members[name] = process
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        reader.start()
        self._readers[name] = reader

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as texts:
            for text in texts:
                line = json.loads(text)
                note = self.log.begin if line["what"] == "on" else self.log.end
                with self._changed:
                    for partition in line["partitions"]:
                        note(name, partition, line["t"])
                    self._changed.notify_all()

    def stop(self, name: str) -> None:
        """Let a member leave in good order, and wait until it has."""
        self._members[name].send_signal(signal.SIGTERM)
        self._wait(name)

    def _wait(self, name: str) -> None:
        self._members.pop(name).wait(_TIMEOUT_S)
        self._readers.pop(name).join(_TIMEOUT_S)

    def kill(self, name: str) -> None:
        """Kill a member."""
        self._members[name].kill()
        self._wait(name)
        with self._changed:
            self.log.die(name, time.monotonic())

    def stop_all(self) -> None:
        """Let all members leave in good order."""
        for name in self.names:
            self._members[name].send_signal(signal.SIGTERM)
        for name in self.names:
            self._wait(name)

    def settle(self) -> float:
        """Wait until all partitions are worked on and all members have some; return that time."""
        with self._changed:
            if not self._changed.wait_for(self._is_settled, _TIMEOUT_S):
                raise TimeoutError(f"{self._options.kind}: not all is assigned: {self.log.owners}")
        return time.monotonic()

    def _is_settled(self) -> bool:
        owners = self.log.owners
        counts = Counter(owners.values())
        is_shared = len(owners) == self.log.partitions and counts.keys() == self._members.keys()
        # With state, partitions go to a newcomer a few at a time.
        return is_shared and (not self._options.restore_s or _spread(counts) <= 1)

    def cost_of(self, event: Callable[[], None]) -> float:
        """Make something happen; return the partition-seconds until the group has settled."""
        began_s = time.monotonic()
        event()
        return self.log.stopped_s(began_s, self.settle())


def _spread(counts: Counter[str]) -> int:
    return max(counts.values()) - min(counts.values())


@dataclass(slots=True)
class WorkLog:
    """When each partition was worked on, and by which member."""

    partitions: int
    #: By partition: the member that works on it now and since when, and all finished spans.
    _open: dict[int, tuple[str, float]] = field(default_factory=dict)
    _worked: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    #: How often a member began while another one was still at work.
    overlaps: int = 0

    def begin(self, member: str, partition: int, at_s: float) -> None:
        """A member begins to work on a partition."""
        self.overlaps += partition in self._open
        self._open[partition] = (member, at_s)

    def end(self, member: str, partition: int, at_s: float) -> None:
        """A member has finished its work on a partition."""
        owner, since_s = self._open.get(partition, ("", 0.0))
        if owner == member:
            del self._open[partition]
            self._worked.setdefault(partition, []).append((since_s, at_s))

    def die(self, member: str, at_s: float) -> None:
        """All work of a member ends."""
        for partition in [number for number, (owner, _) in self._open.items() if owner == member]:
            self.end(member, partition, at_s)

    @property
    def owners(self) -> dict[int, str]:
        """The members at work, by partition."""
        return {partition: owner for partition, (owner, _) in self._open.items()}

    def stopped_s(self, from_s: float, until_s: float) -> float:
        """The partition-seconds within a time in which no member worked."""
        worked_s = 0.0
        for partition in range(self.partitions):
            spans = [*self._worked.get(partition, ())]
            if partition in self._open:
                spans.append((self._open[partition][1], until_s))
            worked_s += sum(
                max(0.0, min(end_s, until_s) - max(begin_s, from_s)) for begin_s, end_s in spans
            )
        return self.partitions * (until_s - from_s) - worked_s
