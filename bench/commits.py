"""Commits that are on disk before they are answered: SQLite, PostgreSQL, a Kafka that flushes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.support.crowds import Crowded, Figures, Scale, in_turns, share_of_clients
from bench.support.measure import Effort, Figure, ratio, summary
from bench.support.report import Cell, Column, Report, Row
from bench.support.servers import PROC, KafkaServer, Serving, WorkersServer
from tests.interop.kafka_broker import toolchain_problem
from tests.support.postgres_server import missing, running_server

__all__ = ["run"]

#: The project's aims: more than Kafka on SQLite, and so many a second on PostgreSQL.
_OVER_KAFKA: Final = 1.0
_ON_POSTGRES: Final = 10_000

_KAFKA: Final = "Kafka, flushing each"
_FLUSHING: Final = {"log.flush.interval.messages": 1}
#: As if all groups happened to be in one of its fifty logs: what is committed in all of them at one
#: time is flushed at once, and nothing else is.
_ONE_LOG: Final = "Kafka, flushing each, one log"
_IN_ONE_LOG: Final = {**_FLUSHING, "offsets.topic.num.partitions": 1}

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"

_COLUMNS: Final = (
    Column("what", "commits on disk"),
    Column("per_s", "per second"),
    Column("cpu", "server's\nCPU each"),
    Column("over_kafka", "rate\n÷ Kafka's"),
)

_FULL: Final = Scale(rounds=7, seconds=2.0, clients=2, groups=8, members=20, partitions=10)
_QUICK: Final = Scale(rounds=2, seconds=0.1, clients=2, groups=2, members=2, partitions=2)


def run(effort: Effort) -> Report:
    """Measure all in turns."""
    title = "Commits on disk"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 3))
        return Report(title, _COLUMNS, (absent,))
    scale = _QUICK if effort.quick else _FULL
    _FOLDER.mkdir(parents=True, exist_ok=True)
    left_out = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_FOLDER)))
        counts = (2,) if effort.quick else (1, 2)
        servers: dict[str, Serving] = _on_sqlite(folder, counts)
        if problem := missing():
            left_out.append(f"Without PostgreSQL: {problem}.")
        else:
            servers |= _on_postgres(folder, counts, stack)
        if problem := "left out of a quick try" if effort.quick else toolchain_problem():
            left_out.append(f"Without Kafka: {problem}.")
        else:
            servers[_KAFKA] = KafkaServer(folder / "kafka", _FLUSHING)
            servers[_ONE_LOG] = KafkaServer(folder / "kafka-one-log", _IN_ONE_LOG)
        contenders = {name: Crowded(name, server, scale) for name, server in servers.items()}
        for contender in contenders.values():
            contender.start(stack)
        figures = Figures()
        in_turns(contenders, scale.rounds, lambda each: each.requests("commits", figures))
    rows = tuple(_row(name, figures) for name in servers)
    return Report(title, _COLUMNS, rows, (*_notes(scale, figures), *left_out))


def _name(store: str, workers: int) -> str:
    return f"{store}, {workers} worker{'s' if workers > 1 else ''}"


def _on_sqlite(folder: Path, counts: Sequence[int]) -> dict[str, Serving]:
    return {
        _name("SQLite", workers): WorkersServer(folder / f"sqlite-{workers}", workers)
        for workers in counts
    }


def _on_postgres(
    folder: Path, counts: Sequence[int], stack: contextlib.ExitStack
) -> dict[str, Serving]:
    settings = {"fsync": "on", "shared_buffers": "128MB"}
    servers: dict[str, Serving] = {}
    for workers in counts:
        database = stack.enter_context(running_server(settings, where=_FOLDER))
        store = ("--store", database.url())
        server = WorkersServer(folder / f"postgres-{workers}", workers, store)
        servers[_name("PostgreSQL", workers)] = server
    return servers


def _row(name: str, figures: Figures) -> Row:
    per_s = summary(figures.per_s[name], unit="/s")
    over_kafka: Cell = None
    if name.startswith("PostgreSQL"):
        per_s = replace(per_s, reached=per_s.median >= _ON_POSTGRES)
    if _KAFKA in figures.per_s and name != _KAFKA:
        over_kafka = _judged(ratio(figures.per_s[name], figures.per_s[_KAFKA]), name)
    cpu = summary(figures.cpu_us[name], unit="µs")
    return Row("", (name, per_s, cpu, over_kafka))


def _judged(figure: Figure, name: str) -> Figure:
    is_aim = name.startswith("SQLite")
    return replace(figure, reached=figure.median > _OVER_KAFKA) if is_aim else figure


def _notes(scale: Scale, figures: Figures) -> tuple[str, ...]:
    groups = scale.clients * scale.groups
    members = f"{groups * scale.members} members in {groups} groups"
    return (
        f"{members} commit {scale.partitions} offsets each, again as soon as",
        "they are answered, which is when the commit is on disk.",
        "The server's CPU is that of the workers, without PostgreSQL's own.",
        f"A client process took {share_of_clients(figures)} of a core at most.",
        "Kafka keeps offsets in fifty logs, by the names of groups, or in so many as it is told.",
        f"All run all the time on one disk, busy in turns; medians of {scale.rounds} rounds.",
    )
