"""Members in processes of their own, and the time in which nobody worked on a partition."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bench.support import standstill_member

__all__ = ["Crew", "Diary"]

_PATIENCE_S: Final = 90.0


@dataclass(slots=True)
class Diary:
    """When each partition was worked on, by anybody."""

    partitions: int
    #: For each partition when it was begun and ended, in turns.
    _open: dict[int, tuple[str, float]] = field(default_factory=dict)
    _worked: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    #: Times at which two worked on one partition.
    overlaps: int = 0

    def begin(self, who: str, partition: int, at_s: float) -> None:
        """Somebody begins."""
        self.overlaps += partition in self._open
        self._open[partition] = (who, at_s)

    def end(self, who: str, partition: int, at_s: float) -> None:
        """Somebody has ended."""
        owner, since_s = self._open.get(partition, ("", 0.0))
        if owner == who:
            del self._open[partition]
            self._worked.setdefault(partition, []).append((since_s, at_s))

    def die(self, who: str, at_s: float) -> None:
        """Somebody is no more."""
        for partition in [number for number, (owner, _) in self._open.items() if owner == who]:
            self.end(who, partition, at_s)

    @property
    def owners(self) -> dict[int, str]:
        """Who works on what."""
        return {partition: owner for partition, (owner, _) in self._open.items()}

    def stopped_s(self, from_s: float, until_s: float) -> float:
        """Partition-seconds of a time in which nobody worked."""
        worked_s = 0.0
        for partition in range(self.partitions):
            spans = [*self._worked.get(partition, ())]
            if partition in self._open:
                spans.append((self._open[partition][1], until_s))
            worked_s += sum(
                max(0.0, min(end_s, until_s) - max(begin_s, from_s)) for begin_s, end_s in spans
            )
        return self.partitions * (until_s - from_s) - worked_s


class Crew:
    """The members of one group, all of one kind."""

    def __init__(
        self, kind: str, session_s: float, bootstrap: str, topic: str, partitions: int
    ) -> None:
        self._kind = kind
        self._session_s = session_s
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = f"{kind}-{time.monotonic_ns()}"
        self.diary = Diary(partitions)
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._listeners: dict[str, threading.Thread] = {}
        self._news = threading.Condition()

    @property
    def names(self) -> tuple[str, ...]:
        """Who is there."""
        return tuple(self._members)

    def start(self, name: str) -> None:
        """One more."""
        assert standstill_member.__file__ is not None
        command = [sys.executable, standstill_member.__file__, self._kind, str(self._session_s)]
        command += [self._bootstrap, self._group, self._topic, name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
        self._members[name] = process
        listener = threading.Thread(target=self._listen, args=(name, process), daemon=True)
        listener.start()
        self._listeners[name] = listener

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as texts:
            for text in texts:
                line = json.loads(text)
                note = self.diary.begin if line["what"] == "on" else self.diary.end
                with self._news:
                    for partition in line["partitions"]:
                        note(name, partition, line["t"])
                    self._news.notify_all()

    def stop(self, name: str) -> None:
        """Have one leave in good order, and wait until it has."""
        self._members[name].send_signal(signal.SIGTERM)
        self._wait(name)

    def _wait(self, name: str) -> None:
        self._members.pop(name).wait(_PATIENCE_S)
        self._listeners.pop(name).join(_PATIENCE_S)

    def kill(self, name: str) -> None:
        """`kill -9` one."""
        self._members[name].kill()
        self._wait(name)
        with self._news:
            self.diary.die(name, time.monotonic())

    def stop_all(self) -> None:
        """Have everybody leave."""
        for name in self.names:
            self._members[name].send_signal(signal.SIGTERM)
        for name in self.names:
            self._wait(name)

    def settle(self) -> float:
        """Wait until everybody has a share and each partition somebody; the moment when it was."""
        with self._news:
            if not self._news.wait_for(self._is_settled, _PATIENCE_S):
                raise TimeoutError(f"{self._kind}: not shared out: {self.diary.owners}")
        return time.monotonic()

    def _is_settled(self) -> bool:
        owners = self.diary.owners
        return len(owners) == self.diary.partitions and set(owners.values()) == set(self.names)

    def during(self, what: Callable[[], None]) -> float:
        """Partition-seconds that something costs, from its begin until all is well again."""
        began_s = time.monotonic()
        what()
        return self.diary.stopped_s(began_s, self.settle())
