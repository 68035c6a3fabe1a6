"""The coordinator over loopback, compared with a bare echo of the same sizes and a real Kafka."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from bench.support.load import LoadResult
from bench.support.measure import Effort, Figure, ratio, summary
from bench.support.report import Cell, Column, Report, Row, widest
from bench.support.server_measurements import (
    COTERIE,
    ECHO,
    FULL,
    KAFKA,
    QUICK,
    Memory,
    Scale,
    measure_memory,
    measure_restart,
    measure_traffic,
)
from bench.support.servers import PROC, more_files
from tests.interop.kafka_broker import toolchain_problem

__all__ = ["run"]

#: The project's aims; ratios are Coterie divided by the other server.
_HEARTBEATS_OVER_ECHO: Final = 0.6
_HEARTBEATS_OVER_KAFKA: Final = 2.0
_MEMBERS_MB: Final = 200

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"

_COLUMNS: Final = (
    Column("what", "what"),
    Column("coterie", "coterie"),
    Column("echo", "bare echo"),
    Column("kafka", "Kafka"),
    Column("over_echo", "coterie\n÷ echo"),
    Column("over_kafka", "coterie\n÷ Kafka"),
    Column("spread", "spread"),
)

#: Figures by contender and round; contenders that were not measured are missing.
Rounds = Mapping[str, Sequence[float]]


def run(effort: Effort) -> Report:
    """Measure traffic, rebalances, memory and restarts."""
    title = "The coordinator on loopback"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 6))
        return Report(title, _COLUMNS, (absent,))
    scale = QUICK if effort.quick else FULL
    problem = "left out of a quick try" if effort.quick else toolchain_problem()
    files = more_files()
    # Not in the system's folder for temporary files, which may be in memory.
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as name:
        measured = uvloop.run(_measure(Path(name), scale, files, with_kafka=problem is None))
    rows, notes = measured
    absent_kafka = () if problem is None else (f"Without Kafka: {problem}.",)
    return Report(title, _COLUMNS, rows, (*_notes(scale), *notes, *absent_kafka))


async def _measure(
    folder: Path, scale: Scale, files: int, *, with_kafka: bool
) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    traffic = await measure_traffic(folder / "traffic", scale, with_kafka=with_kafka)
    memory = await measure_memory(folder / "memory", scale, files, with_kafka=with_kafka)
    restart = await measure_restart(folder / "restart", scale, with_kafka=with_kafka)
    rows = (
        *_rates(f"Heartbeats, {scale.members} members", traffic.heartbeats),
        *_rates(f"Commits of {scale.partitions} offsets, {scale.members} members", traffic.commits),
        *_times(scale, traffic.storms, traffic.joins, restart),
        *_megabytes(memory),
    )
    return _judged(rows), _found(traffic.commits, traffic.heartbeats, traffic.sync_s)


# -- rows ------------------------------------------------------------------------------------------


def _rates(group: str, results: Mapping[str, Sequence[LoadResult]]) -> tuple[Row, ...]:
    def rounds(value: Callable[[LoadResult], float]) -> Rounds:
        return {name: [value(result) for result in each] for name, each in results.items()}

    return (
        _row(group, "requests per second", rounds(lambda result: result.per_second), "/s"),
        _row(group, "server's CPU per request", rounds(lambda result: result.server_cpu_us), "µs"),
    )


def _times(
    scale: Scale, storms: Mapping[int, Rounds], joins: Rounds, restart: Rounds
) -> tuple[Row, ...]:
    offsets = scale.groups * scale.offsets
    return (
        *(
            _row("Rebalances", f"{members:,} members join at once", each, "s")
            for members, each in storms.items()
        ),
        _row("Rebalances", f"one joins a group of {scale.crowd:,}", joins, "s"),
        _row("Restart", f"{scale.groups:,} groups, {offsets:,} offsets", restart, "s"),
    )


def _megabytes(memory: Mapping[str, Memory]) -> tuple[Row, ...]:
    members = next(iter(memory.values())).members

    def rounds(value: Callable[[Memory], int]) -> Rounds:
        # Measured once; given twice, so that there is a spread.
        return {name: [value(each) / 1e6] * 2 for name, each in memory.items()}

    return (
        _row("Memory", "idle", rounds(lambda m: m.idle_bytes), "MB"),
        _row("Memory", f"{members:,} members connected", rounds(lambda m: m.full_bytes), "MB"),
        _row("Memory", "after they left", rounds(lambda m: m.after_bytes), "MB"),
    )


def _row(group: str, what: str, rounds: Rounds, unit: str) -> Row:
    ours = rounds[COTERIE]
    shown = [_shown(rounds, name, unit) for name in (COTERIE, ECHO, KAFKA)]
    ratios = [
        ratio(ours, rounds[name]) if name in rounds and all(rounds[name]) else None
        for name in (ECHO, KAFKA)
    ]
    figures = [figure for figure in ratios if figure is not None]
    return Row(group, (what, *shown, *ratios, widest(figures) if figures else None))


def _shown(rounds: Rounds, name: str, unit: str) -> Figure | None:
    return summary(rounds[name], unit=unit) if name in rounds else None


# -- aims ------------------------------------------------------------------------------------------


def _judged(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(_judge(row) for row in rows)


def _judge(row: Row) -> Row:
    what, ours, echo, kafka, over_echo, over_kafka, spread = row.cells
    if row.group.startswith("Heartbeats") and what == "requests per second":
        over_echo = _aim(over_echo, lambda value: value >= _HEARTBEATS_OVER_ECHO)
        over_kafka = _aim(over_kafka, lambda value: value >= _HEARTBEATS_OVER_KAFKA)
    elif row.group.startswith("Commits") and what == "requests per second":
        over_kafka = _aim(over_kafka, lambda value: value > 1)
    elif row.group == "Rebalances":
        over_kafka = _aim(over_kafka, lambda value: value <= 1)
    elif row.group == "Memory" and str(what).endswith("connected"):
        ours = _aim(ours, lambda value: value < _MEMBERS_MB)
    return replace(row, cells=(what, ours, echo, kafka, over_echo, over_kafka, spread))


def _aim(cell: Cell, reaches: Callable[[float], bool]) -> Cell:
    return replace(cell, reached=reaches(cell.median)) if isinstance(cell, Figure) else cell


# -- notes -----------------------------------------------------------------------------------------


def _notes(scale: Scale) -> tuple[str, ...]:
    turns = f"{scale.rounds} rounds in turns, of {scale.seconds:g} s where requests are counted"
    aims = f"{_HEARTBEATS_OVER_ECHO:g}x echo and {_HEARTBEATS_OVER_KAFKA:g}x Kafka"
    return (
        f"{turns}; one request in flight on each connection; medians.",
        "The spread is half the distance between the quartiles, of the row's least steady ratio.",
        "Bare echo: reads no requests, stores nothing. Instead of rebalances it exchanges as many",
        "frames as the members do; instead of a restart it starts.",
        "Kafka: one node, KRaft, no initial delay, memory and collector as in its start script.",
        "Coterie answers a commit when it is on disk; Kafka does not wait for that.",
        f"Aims: heartbeats {aims}; commits above Kafka's; rebalances not slower;",
        f"members in {_MEMBERS_MB} MB.",
    )


def _found(
    commits: Mapping[str, Sequence[LoadResult]],
    heartbeats: Mapping[str, Sequence[LoadResult]],
    sync_s: Sequence[float],
) -> tuple[str, ...]:
    sync = summary(sync_s, scale=1e3)
    client = [
        summary([result.client_cpu_us for result in each[COTERIE]]).median
        for each in (heartbeats, commits)
    ]
    each = f"{client[0]:.0f} µs of CPU for a heartbeat and {client[1]:.0f} µs for a commit"
    return (
        f"The client itself takes {each}.",
        f"The disk takes {sync.median:.2f} ms to make 4 KB durable (±{sync.spread:.0%}).",
    )
