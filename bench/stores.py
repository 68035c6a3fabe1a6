"""How many appends a second the stores make durable, of which one waits in each of some shards."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from bench.support.measure import Effort, Figure, ratio, summary
from bench.support.report import Cell, Column, Report, Row, widest
from coterie_server.storage import Lease, SqliteStore, Store
from coterie_server.storage.postgres import PostgresStore
from tests.support.postgres_server import missing, running_server

__all__ = ["run"]

#: The project's aim for PostgreSQL, with many shards.
_AIM: Final = 10_000
_SHARDS: Final = (1, 4, 16, 64)
#: About what a commit of ten offsets takes.
_VALUE_BYTES: Final = 400
_KEYS: Final = 100

_SQLITE: Final = "sqlite"
_POSTGRES: Final = "postgres"
_ROUNDS: Final = 5
_TURN_S: Final = 1.0
_QUICK_TURN_S: Final = 0.02
_TTL_MS: Final = 3_600_000

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"

_COLUMNS: Final = (
    Column("what", "what"),
    Column(_SQLITE, "SQLite"),
    Column(_POSTGRES, "PostgreSQL"),
    Column("ratio", "PostgreSQL\n÷ SQLite"),
    Column("spread", "spread"),
)

#: Appends per second, by store and round.
Rates = dict[str, list[float]]


def run(effort: Effort) -> Report:
    """Measure both stores, on the same disk."""
    # Not in the system's folder for temporary files, which may be in memory.
    _FOLDER.mkdir(parents=True, exist_ok=True)
    problem = missing()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_FOLDER)))
        stores: dict[str, Store] = {_SQLITE: SqliteStore(folder / "coterie.db")}
        if problem is None:
            settings = {"fsync": "on", "shared_buffers": "128MB"}
            server = stack.enter_context(running_server(settings, where=_FOLDER))
            stores[_POSTGRES] = PostgresStore(server.url())
        measured = uvloop.run(_measure(stores, effort))
    rows = tuple(_row(shards, waiting, rates) for (shards, waiting), rates in measured.items())
    notes = (
        f"One record of {_VALUE_BYTES} bytes in each append, on disk when it returns;",
        "each shard's next append begins when its last one has returned.",
        "The server of PostgreSQL runs on the same machine, with its defaults but for memory.",
        *(() if problem is None else (f"Without PostgreSQL: {problem}.",)),
    )
    return Report("Stores", _COLUMNS, rows, notes)


async def _measure(stores: Mapping[str, Store], effort: Effort) -> dict[tuple[int, int], Rates]:
    turn_s = _QUICK_TURN_S if effort.quick else _TURN_S
    measured: dict[tuple[int, int], Rates] = {}
    async with AsyncExitStack() as stack:
        leases = {}
        for name, store in stores.items():
            await stack.enter_async_context(store)
            leases[name] = await store.claim(range(max(_SHARDS)), "bench", _TTL_MS)
        for case in ((shards, waiting) for waiting in (1, 8) for shards in _SHARDS):
            rates: Rates = {name: [] for name in stores}
            for _ in range(min(effort.rounds, _ROUNDS)):
                for name, store in stores.items():
                    rates[name].append(await _rate(store, leases[name], *case, turn_s))
            measured[case] = rates
    return measured


async def _rate(
    store: Store, leases: list[Lease], shards: int, waiting: int, turn_s: float
) -> float:
    value = os.urandom(_VALUE_BYTES)
    began = time.perf_counter()

    async def append(lease: Lease, number: int) -> int:
        for count in itertools.count(1):
            await store.append(lease, [(b"%d/%d" % (number, count % _KEYS), value)])
            if time.perf_counter() - began > turn_s:
                return count
        raise AssertionError("counting does not end")

    counts = await asyncio.gather(
        *(append(lease, number) for lease in leases[:shards] for number in range(waiting))
    )
    return sum(counts) / (time.perf_counter() - began)


def _row(shards: int, waiting: int, rates: Rates) -> Row:
    what = f"{shards} {'shard' if shards == 1 else 'shards'}"
    group = "One append waits in each shard" if waiting == 1 else f"{waiting} wait in each shard"
    ours = summary(rates[_SQLITE], unit="/s")
    cells: list[Cell] = [what, ours, None, None, widest([ours])]
    if _POSTGRES in rates:
        theirs = _judged(summary(rates[_POSTGRES], unit="/s"), shards)
        cells = [what, ours, theirs, ratio(rates[_POSTGRES], rates[_SQLITE])]
        cells.append(widest([ours, theirs]))
    return Row(group, tuple(cells))


def _judged(figure: Figure, shards: int) -> Figure:
    return replace(figure, reached=figure.median >= _AIM) if shards == max(_SHARDS) else figure
