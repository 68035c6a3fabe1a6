"""What one more member costs a group whose partitions have state, in partition-seconds."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.support.measure import Effort, Figure, ratio, summary
from bench.support.report import Column, Report, Row
from bench.support.servers import CoterieServer
from bench.support.standstill_group import StandstillGroup
from bench.support.standstill_member import (
    FINISH_S,
    HEARTBEATS_PER_SESSION,
    READY_INTERVAL_S,
    MemberOptions,
)

__all__ = ["QUICK", "run"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
_TOPIC: Final = "work"
#: The project's aim, as a share of what it costs with cooperative-sticky alone.
_AIM: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Scale:
    members: int
    partitions: int
    rounds: int
    session_s: float
    restore_s: float
    #: Members that start together are to be in one generation.
    initial_delay_s: float


_FULL: Final = _Scale(5, 60, rounds=3, session_s=6.0, restore_s=3.0, initial_delay_s=3.0)
QUICK: Final = _Scale(1, 2, rounds=2, session_s=0.6, restore_s=0.1, initial_delay_s=0.0)

#: The contenders' names in the table.
_CONTENDERS: Final = {
    "eager": "Coterie, range (eager)",
    "cooperative": "Coterie, cooperative-sticky",
    "warm": "Coterie, cooperative-sticky, with warm",
}

_COLUMNS: Final = (
    Column("who", "members"),
    Column("stopped", "stopped"),
    Column("ratio", "÷ cooperative-\nsticky"),
    Column("took", "until\nbalanced"),
    Column("overlaps", "two at\none time"),
)


@dataclass(slots=True)
class _Costs:
    """What was measured of one contender, round by round."""

    stopped_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    overlaps: int = 0


def run(effort: Effort) -> Report:
    """Measure each contender in turns."""
    scale = QUICK if effort.quick else _FULL
    kinds = ("cooperative", "warm") if effort.quick else tuple(_CONTENDERS)
    costs = {kind: _Costs() for kind in kinds}
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        delay = {"group.initial.rebalance.delay.ms": str(round(scale.initial_delay_s * 1000))}
        server = CoterieServer(Path(folder), {_TOPIC: scale.partitions}, settings=delay)
        server.start()
        try:
            # A quick try does all at once: most of its time is that of starting processes.
            with ThreadPoolExecutor(max_workers=4 if effort.quick else 1) as turns:
                bootstrap = f"127.0.0.1:{server.port}"
                measured = turns.map(
                    lambda kind: _measure(kind, bootstrap, scale, costs[kind]), kinds * scale.rounds
                )
                list(measured)  # raises what failed
        finally:
            server.stop()
    rows = [_row(kind, costs) for kind in kinds]
    return Report("Stopped partition-seconds with state", _COLUMNS, tuple(rows), _notes(scale))


def _measure(kind: str, bootstrap: str, scale: _Scale, costs: _Costs) -> None:
    group_id = f"{kind}-{time.monotonic_ns()}"
    options = MemberOptions(kind, bootstrap, group_id, _TOPIC, scale.session_s, scale.restore_s)
    group = StandstillGroup(options, scale.partitions)
    try:
        for number in range(scale.members):
            group.start(f"m{number}")
        group.settle()
        began_s = time.monotonic()
        group.start("late")
        settled_s = group.settle()
        costs.stopped_s.append(group.log.stopped_s(began_s, settled_s))
        costs.took_s.append(settled_s - began_s)
        costs.overlaps += group.log.overlaps
    finally:
        group.stop_all()


def _row(kind: str, costs: dict[str, _Costs]) -> Row:
    own, base = costs[kind], costs["cooperative"]
    stopped, took = (summary(values, unit="s") for values in (own.stopped_s, own.took_s))
    over = None if own is base else _judged(kind, ratio(own.stopped_s, base.stopped_s))
    return Row("", (_CONTENDERS[kind], stopped, over, took, own.overlaps))


def _judged(kind: str, over: Figure) -> Figure:
    return replace(over, reached=over.median <= _AIM) if kind == "warm" else over


def _notes(scale: _Scale) -> tuple[str, ...]:
    sizes = f"{scale.partitions} partitions, {scale.members} members, and then one more"
    pace = f"sessions of {scale.session_s:g} s, {HEARTBEATS_PER_SESSION} heartbeats in each"
    restoring = (
        f"A partition's state takes {scale.restore_s:g} s to restore, several at once as well"
    )
    ready = f"members say at most every {READY_INTERVAL_S:g} s which have caught up"
    return (
        f"{sizes}; {pace}; work on a partition takes {FINISH_S * 1000:g} ms to end.",
        f"{restoring}; nothing is handed over with warm before all of it is restored.",
        "While state is restored, its partition counts as stopped unless a member works on it.",
        f"With warm, two warm-ups at a time, which is the default; {ready}.",
        f"One daemon, contenders in turns, {scale.rounds} rounds; medians.",
        "From the start of the member's process until each member has its share.",
    )
