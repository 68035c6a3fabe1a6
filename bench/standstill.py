"""What a rebalance costs: partition-seconds in which no member is at work."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.support.measure import Effort, summary
from bench.support.report import Cell, Column, Report, Row
from bench.support.servers import CoterieServer
from bench.support.standstill_group import StandstillGroup
from bench.support.standstill_member import FINISH_S, HEARTBEATS_PER_SESSION, MemberOptions

__all__ = ["run"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
_TOPIC: Final = "work"


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
    group_id = f"{kind}-{time.monotonic_ns()}"
    options = MemberOptions(kind, bootstrap, group_id, _TOPIC, scale.session_s)
    group = StandstillGroup(options, scale.partitions)
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


def _restart_each(group: StandstillGroup) -> None:
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
