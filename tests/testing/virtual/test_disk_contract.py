"""The stores on virtual machines, held to the contract that all stores are held to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Final

import pytest

from coterie_testing.virtual import (
    Database,
    DatabaseStore,
    Disk,
    DiskStore,
    Network,
    Process,
    Scheduler,
)
from tests.server.storage import test_contract as contract

#: The contract's tests that say what they need by these names.
_FIXTURES: Final = frozenset({"store", "other", "another", "count"})
_COUNTS: Final = (0, 1, 6, 7)

Clause = Callable[..., Coroutine[Any, Any, None]]


def _clauses() -> list[object]:
    """Return the contract's tests, each as often as it has parameters."""
    clauses: list[object] = []
    for name, clause in inspect.getmembers(contract, inspect.iscoroutinefunction):
        wanted = inspect.signature(clause).parameters.keys()
        if name.startswith("test_") and wanted <= _FIXTURES:
            counts = _COUNTS if "count" in wanted else (None,)
            clauses += [pytest.param(clause, each, id=f"{name}-{each}") for each in counts]
    return clauses


def test_contract_was_found() -> None:
    assert len(_clauses()) >= 35


@pytest.mark.parametrize("kind", ["disk", "database"])
@pytest.mark.parametrize(("clause", "count"), _clauses())
def test_virtual_store_keeps_the_contract(clause: Clause, count: int | None, kind: str) -> None:
    scheduler = Scheduler()
    process = Process(scheduler, "p")
    disk, database = Disk(scheduler), Database(Network(scheduler))

    def another() -> DiskStore:
        return DiskStore(disk, process) if kind == "disk" else DatabaseStore(database, process)

    async def run() -> None:
        async with another() as store, another() as other:
            given = {"store": store, "other": other, "another": another, "count": count}
            wanted = inspect.signature(clause).parameters
            await clause(**{name: given[name] for name in wanted})

    process.run_until_done(run())
    assert process.errors == []
    scheduler.close()
