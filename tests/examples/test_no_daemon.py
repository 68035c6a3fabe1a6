"""examples/no_daemon.py: workers that coordinate themselves, and die."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.examples.program import Program
from tests.live.daemon import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 12


def worked_on(program: Program) -> dict[int, int]:
    """The partitions that a worker has begun with, and the last offset of each."""
    found = re.findall(r"works on (\d+) from (\d+)", program.log)
    return {int(partition): int(offset) for partition, offset in found}


def owners(store: Path) -> set[str]:
    """The nodes that have shards, by the store."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
        return {owner for (owner,) in db.execute("SELECT owner FROM leases WHERE owner <> ''")}


def test_workers_go_on_when_one_dies_that_had_groups(tmp_path: Path) -> None:
    """Whichever of them coordinated the group: the first one has half of the shards."""
    store = tmp_path / "store.db"
    words = ("no_daemon.py", f"sqlite:{store}")
    with Program(tmp_path, *words) as first:
        eventually(lambda: len(worked_on(first)) == PARTITIONS, "all partitions of the first one")
        with Program(tmp_path, *words) as second:
            eventually(lambda: len(worked_on(second)) == PARTITIONS / 2, "half of the partitions")
            eventually(lambda: len(owners(store)) == 2, "shards of both nodes")
            first.kill()
            eventually(lambda: len(worked_on(second)) == PARTITIONS, "all of them")
            eventually(lambda: len(owners(store)) == 1, "all shards of the second one")
            taken = {each: offset for each, offset in worked_on(second).items() if offset > 0}
            assert len(taken) > PARTITIONS / 2  # it goes on where the first one stopped
            second.stop(again_and_again=True)
    assert not owners(store)
