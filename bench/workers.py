"""One worker and two on one machine: heartbeats, commits, and storms of many groups."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.support.crowds import Crowded, Figures, Scale, in_turns, share_of_clients
from bench.support.measure import Effort, ratio, summary
from bench.support.quotas import why_not
from bench.support.report import Column, Report, Row
from bench.support.servers import PROC, WorkersServer

__all__ = ["run"]

#: The project's aim, on two free cores.
_FASTER: Final = 1.7
#: So much of a core leaves two workers' clients enough of two.
_SHARE: Final = 0.4

_ALL: Final = "as many cores as there are"
_HELD: Final = f"{_SHARE:g} of a core for each worker"

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"

_ONE: Final = "one"
_TWO: Final = "two"

_COLUMNS: Final = (
    Column("what", "what"),
    Column(_ONE, "1 worker"),
    Column(_TWO, "2 workers"),
    Column("ratio", "2 workers\n÷ 1"),
    Column("one_cpu", "CPU each,\n1 worker"),
    Column("two_cpu", "CPU each,\n2 workers"),
    Column("client_cpu", "clients'\nCPU"),
)

_FULL: Final = Scale(
    rounds=7, seconds=2.0, clients=2, groups=8, members=20, partitions=10, storm=60
)
_QUICK: Final = Scale(rounds=2, seconds=0.1, clients=2, groups=2, members=2, partitions=2, storm=2)


def run(effort: Effort) -> Report:
    """Measure both in turns."""
    title = "Workers"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 6))
        return Report(title, _COLUMNS, (absent,))
    scale = _QUICK if effort.quick else _FULL
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder, contextlib.ExitStack() as stack:
        contenders = {
            name: Crowded(name, WorkersServer(Path(folder, name), workers), scale)
            for name, workers in ((_ONE, 1), (_TWO, 2))
        }
        for contender in contenders.values():
            contender.start(stack)
        rows = _rows(_ALL, contenders, scale)
        if lacking := why_not():
            rows.append(Row(_HELD, (lacking, *[None] * 6)))
        else:
            for contender in contenders.values():
                stack.enter_context(contender.held(_SHARE))
            rows += _rows(_HELD, contenders, scale)
    return Report(title, _COLUMNS, tuple(rows), _notes(scale))


def _rows(group: str, contenders: Mapping[str, Crowded], scale: Scale) -> list[Row]:
    return [_row(group, what, found) for what, found in _measured(contenders, scale).items()]


def _measured(contenders: Mapping[str, Crowded], scale: Scale) -> dict[str, Figures]:
    beats, commits, storms = Figures(), Figures(), Figures()

    def take_turn(contender: Crowded) -> None:
        contender.requests("heartbeats", beats)
        contender.requests("commits", commits)
        contender.storm(storms)

    in_turns(contenders, scale.rounds, take_turn)
    offsets = f"commits of {scale.partitions} offsets"
    return {"heartbeats": beats, offsets: commits, "members that join at once": storms}


def _row(group: str, what: str, figures: Figures) -> Row:
    faster = ratio(figures.per_s[_TWO], figures.per_s[_ONE])
    faster = replace(faster, reached=faster.median >= _FASTER)
    cells = (
        f"{what} a second",
        summary(figures.per_s[_ONE], unit=""),
        summary(figures.per_s[_TWO], unit=""),
        faster,
        summary(figures.cpu_us[_ONE], unit="µs"),
        summary(figures.cpu_us[_TWO], unit="µs"),
        share_of_clients(figures),
    )
    return Row(group, cells)


def _notes(scale: Scale) -> tuple[str, ...]:
    groups = f"{scale.groups} groups of {scale.members} members"
    storm = f"{scale.groups} groups of {scale.storm} members form at once in each"
    return (
        f"{scale.clients} client processes with {groups} each; in a storm, {storm}.",
        "CPU each is all workers' time for a request, or for a member that joins.",
        "The clients' CPU is the most that one of their processes took of a core.",
        f"Both servers run all the time and are busy in turns; medians of {scale.rounds} rounds.",
        "Workers and clients need free cores alike; each coordinates as many groups as the other.",
        f"Held to {_SHARE:g} of a core each, two workers and their clients have enough of two.",
    )
