"""One worker and two on one machine: heartbeats, commits, and storms of many groups."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.support import frames
from bench.support.client_process import ClientProcess, Crowd, busy_together
from bench.support.load import cpu_s
from bench.support.measure import Effort, ratio, summary
from bench.support.report import Column, Report, Row
from bench.support.servers import PROC, WorkersServer

__all__ = ["run"]

#: The project's aim, on two free cores.
_FASTER: Final = 1.7

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"

_COLUMNS: Final = (
    Column("what", "what"),
    Column("one", "1 worker"),
    Column("two", "2 workers"),
    Column("ratio", "2 workers\n÷ 1"),
    Column("one_cpu", "CPU each,\n1 worker"),
    Column("two_cpu", "CPU each,\n2 workers"),
    Column("client_cpu", "clients'\nCPU"),
)


@dataclass(frozen=True, slots=True)
class _Scale:
    rounds: int
    seconds: float
    clients: int
    #: Of each client process.
    groups: int
    members: int
    partitions: int
    storm: int


_FULL: Final = _Scale(
    rounds=7, seconds=2.0, clients=2, groups=8, members=20, partitions=10, storm=60
)
_QUICK: Final = _Scale(rounds=2, seconds=0.1, clients=2, groups=2, members=2, partitions=2, storm=2)


@dataclass(slots=True)
class _Figures:
    """What came of one kind of load, by the number of workers, round by round."""

    per_s: dict[int, list[float]] = field(default_factory=dict)
    #: Of the server, for each request, in microseconds.
    cpu_us: dict[int, list[float]] = field(default_factory=dict)
    #: The largest share of a core that a client process took.
    client_share: list[float] = field(default_factory=list)


class _Contender:
    """A server, and the processes that keep it busy."""

    def __init__(self, folder: Path, workers: int, scale: _Scale) -> None:
        self._server = WorkersServer(folder / str(workers), workers)
        self._scale = scale
        self._clients: list[ClientProcess] = []

    def start(self, stack: contextlib.ExitStack) -> None:
        scale = self._scale
        self._server.start()
        stack.callback(self._server.stop)
        frames.make_ready(self._server.port, scale.members * scale.partitions)
        for number in range(scale.clients):
            crowd = Crowd(
                f"crowd-{number}",
                self._server.port,
                scale.groups,
                scale.members,
                scale.partitions,
                scale.storm,
            )
            client = ClientProcess(crowd)
            stack.callback(client.stop)
            self._clients.append(client)

    def requests(self, workers: int, what: str, figures: _Figures) -> None:
        """Keep the server busy, and note what came of it."""
        before_s = self._cpu_s()
        told = busy_together(self._clients, what, self._scale.seconds)
        # The clients begin before they count, so their part of all answers is a little less.
        used_s = (self._cpu_s() - before_s) / 1.1
        answers = sum(each[0] for each in told)
        figures.per_s.setdefault(workers, []).append(sum(n / s for n, s, _ in told))
        figures.cpu_us.setdefault(workers, []).append(used_s / answers * 1e6)
        figures.client_share.append(max(used / s for _, s, used in told))

    def storm(self, workers: int, figures: _Figures) -> None:
        """Let many groups form at once, and note how many members a second that makes."""
        before_s = self._cpu_s()
        told = busy_together(self._clients, "storm")
        scale = self._scale
        members = scale.clients * scale.groups * scale.storm
        took_s = max(seconds for _, seconds, _ in told)
        figures.per_s.setdefault(workers, []).append(members / took_s)
        used_s = self._cpu_s() - before_s
        figures.cpu_us.setdefault(workers, []).append(used_s / members * 1e6)
        figures.client_share.append(max(used / s for _, s, used in told))

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, self._server.pids))


def run(effort: Effort) -> Report:
    """Measure both in turns."""
    title = "Workers"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 6))
        return Report(title, _COLUMNS, (absent,))
    scale = _QUICK if effort.quick else _FULL
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder, contextlib.ExitStack() as stack:
        contenders = {workers: _Contender(Path(folder), workers, scale) for workers in (1, 2)}
        for contender in contenders.values():
            contender.start(stack)
        figures = _measured(contenders, scale)
    rows = [_row(what, found) for what, found in figures.items()]
    return Report(title, _COLUMNS, tuple(rows), _notes(scale))


def _measured(contenders: Mapping[int, _Contender], scale: _Scale) -> dict[str, _Figures]:
    beats, commits, storms = _Figures(), _Figures(), _Figures()
    for turn in range(scale.rounds):
        order = list(contenders.items())
        for workers, contender in order[turn % 2 :] + order[: turn % 2]:
            contender.requests(workers, "heartbeats", beats)
            contender.requests(workers, "commits", commits)
            contender.storm(workers, storms)
    offsets = f"commits of {scale.partitions} offsets"
    return {"heartbeats": beats, offsets: commits, "members that join at once": storms}


def _row(what: str, figures: _Figures) -> Row:
    faster = ratio(figures.per_s[2], figures.per_s[1])
    faster = replace(faster, reached=faster.median >= _FASTER)
    cells = (
        f"{what} a second",
        summary(figures.per_s[1], unit=""),
        summary(figures.per_s[2], unit=""),
        faster,
        summary(figures.cpu_us[1], unit="us"),
        summary(figures.cpu_us[2], unit="us"),
        _share(figures.client_share),
    )
    return Row("", cells)


def _share(shares: Sequence[float]) -> str:
    return f"{100 * max(shares):.0f} %"


def _notes(scale: _Scale) -> tuple[str, ...]:
    groups = f"{scale.groups} groups of {scale.members} members"
    storm = f"{scale.groups} groups of {scale.storm} members form at once in each"
    return (
        f"{scale.clients} client processes with {groups} each; in a storm, {storm}.",
        "CPU each is all workers' time for a request, or for a member that joins.",
        "The clients' CPU is the most that one of their processes took of a core.",
        f"Both servers run all the time and are busy in turns; medians of {scale.rounds} rounds.",
        "Workers and clients need free cores alike.",
    )
