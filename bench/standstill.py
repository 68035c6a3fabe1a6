"""What a rebalance costs: partition-seconds in which no member is at work."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.support import standstill_member
from bench.support.measure import Effort, summary
from bench.support.report import Cell, Column, Report, Row
from bench.support.servers import CoterieServer
from bench.support.standstill_member import FINISH_S, HEARTBEATS_PER_SESSION

__all__ = ["WorkLog", "run"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
_TOPIC: Final = "work"
_TIMEOUT_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class _Scale:
    members: int
    partitions: int
    rounds: int
    session_s: float


_FULL: Final = _Scale(members=5, partitions=60, rounds=3, session_s=6.0)
_QUICK: Final = _Scale(members=1, partitions=4, rounds=2, session_s=0.6)

#: The contenders' names in the table.
_CONTENDERS: Final = {
    "cooperative": "Coterie, cooperative-sticky",
    "static": "Coterie, cooperative-sticky, static members",
    "eager": "Coterie, range (eager)",
    "aiokafka": "aiokafka, roundrobin (eager)",
}

_COLUMNS: Final = (
    Column("who", "members"),
    Column("out", "one more\nmember"),
    Column("rolling", "rolling\nrestart"),
    Column("crash", "kill -9\nof one"),
    Column("overlaps", "two at\none time"),
)

_Costs = dict[str, list[float]]


def run(effort: Effort) -> Report:
    """Measure each contender in turns."""
    scale = _QUICK if effort.quick else _FULL
    kinds = ("cooperative", "aiokafka") if effort.quick else tuple(_CONTENDERS)
    costs: dict[str, _Costs] = {kind: {} for kind in kinds}
    overlaps = dict.fromkeys(kinds, 0)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        server = CoterieServer(Path(folder), {_TOPIC: scale.partitions})
        server.start()
        try:
            for _ in range(scale.rounds):
                for kind in kinds:
                    overlaps[kind] += _once(kind, f"127.0.0.1:{server.port}", scale, costs[kind])
        finally:
            server.stop()
    rows = [Row("", (_CONTENDERS[kind], *_cells(costs[kind]), overlaps[kind])) for kind in kinds]
    return Report("Stopped partition-seconds", _COLUMNS, tuple(rows), _notes(scale))


def _cells(costs: _Costs) -> tuple[Cell, ...]:
    return tuple(summary(costs[name], unit="s") for name in ("out", "rolling", "crash"))


def _once(kind: str, bootstrap: str, scale: _Scale, costs: _Costs) -> int:
    """Run a group through all events; return how often a partition had two workers."""
    group = _Group(kind, bootstrap, scale)
    try:
        for number in range(scale.members):
            group.start(f"m{number}")
        group.settle()
        events: dict[str, Callable[[], None]] = {
            "out": lambda: group.start("late"),
            "rolling": lambda: _restart_each(group),
            "crash": lambda: group.kill("m0"),
        }
        for name, event in events.items():
            costs.setdefault(name, []).append(group.cost_of(event))
        return group.log.overlaps
    finally:
        group.stop_all()


def _restart_each(group: _Group) -> None:
    for name in group.names:
        group.stop(name)
        group.start(name)
        group.settle()


def _notes(scale: _Scale) -> tuple[str, ...]:
    sizes = f"{scale.partitions} partitions, {scale.members} members"
    pace = f"sessions of {scale.session_s:g} s, {HEARTBEATS_PER_SESSION} heartbeats in each"
    turns = f"one daemon, contenders in turns, {scale.rounds} rounds; medians"
    return (
        f"{sizes}; {pace};",
        f"work on a partition takes {FINISH_S * 1000:g} ms to end; {turns}.",
        "From the event until each partition is worked on again and each member has partitions.",
        "A start includes that of a Python process, and a crash the session that has to end first.",
    )


# -- the members, each in a process of its own -----------------------------------------------------


class _Group:
    """The members of one group, all of one kind."""

    def __init__(self, kind: str, bootstrap: str, scale: _Scale) -> None:
        self._kind = kind
        self._bootstrap = bootstrap
        self._session_s = scale.session_s
        self._group_id = f"{kind}-{time.monotonic_ns()}"
        self.log = WorkLog(scale.partitions)
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._changed = threading.Condition()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._members)

    def start(self, name: str) -> None:
        assert standstill_member.__file__ is not None
        command = [sys.executable, standstill_member.__file__, self._kind, str(self._session_s)]
        command += [self._bootstrap, self._group_id, _TOPIC, name]
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
        self._members[name].kill()
        self._wait(name)
        with self._changed:
            self.log.die(name, time.monotonic())

    def stop_all(self) -> None:
        for name in self.names:
            self._members[name].send_signal(signal.SIGTERM)
        for name in self.names:
            self._wait(name)

    def settle(self) -> float:
        """Wait until all partitions are worked on and all members have some; return that time."""
        with self._changed:
            if not self._changed.wait_for(self._is_settled, _TIMEOUT_S):
                raise TimeoutError(f"{self._kind}: not all is assigned: {self.log.owners}")
        return time.monotonic()

    def _is_settled(self) -> bool:
        owners = self.log.owners
        return len(owners) == self.log.partitions and set(owners.values()) == set(self.names)

    def cost_of(self, event: Callable[[], None]) -> float:
        """Make something happen; return the partition-seconds until the group has settled."""
        began_s = time.monotonic()
        event()
        return self.log.stopped_s(began_s, self.settle())


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
