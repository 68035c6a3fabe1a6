"""Several processes write to one SQLite file, and some of them are killed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from coterie_server.storage import KeptRecord, SqliteStore
from coterie_server.storage.guard import read_progress
from coterie_server.storage.mark import Mark, mark_path
from coterie_server.storage.schema import open_database
from tests.live.daemon import environment
from tests.server.storage import crash_child
from tests.server.storage.test_crash import parts_by_batch

pytestmark = pytest.mark.slow

CHILD: Final = Path(crash_child.__file__)
PROCESSES: Final = 4
PATIENCE_S: Final = 60.0


class Child:
    """A process that writes to the store, and what it heard to be durable."""

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        #: The last batch of each writer that was acknowledged.
        self.acknowledged: dict[int, int] = {}
        self.lines = 0
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),  # or asyncio tells on standard error what takes long
        )
        self._threads = [
            threading.Thread(target=read) for read in (self._read_lines, self._read_errors)
        ]
        for thread in self._threads:
            thread.start()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # a kill may have cut off the last one
                writer, batch = line.split()
                self.acknowledged[int(writer)] = int(batch)
                self.lines += 1

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def wait_for(self, lines: int) -> None:
        """Wait until so much more was acknowledged."""
        goal = self.lines + lines
        give_up_at = time.monotonic() + PATIENCE_S
        while self.lines < goal:
            assert self._process.poll() is None, self.said
            assert time.monotonic() < give_up_at, f"{self.lines} of {goal}: {self.said}"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._process.kill()

    def begin_to_end(self) -> None:
        """Ask it to end in good order."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ended(self) -> int:
        """Wait for its end; return its status."""
        status = self._process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        return status

    @property
    def said(self) -> str:
        """What it said of errors."""
        return "".join(self._errors)


@contextmanager
def children(path: Path) -> Iterator[tuple[list[Child], Callable[[int], Child]]]:
    """Start all processes at once; they are killed in the end, if they still run."""
    started: list[Child] = []

    def start(number: int) -> Child:
        started.append(Child(path, number))
        return started[-1]

    try:
        yield [start(number) for number in range(PROCESSES)], start
    finally:
        for child in started:
            child.kill()
        for child in started:
            child.ended()
    assert [child.said for child in started if child.said] == []


async def loaded(path: Path) -> list[KeptRecord]:
    """Return everything that the store holds."""
    async with SqliteStore(path) as store:
        shards = range(PROCESSES * crash_child.SHARDS)
        return [record for shard in shards for record in await store.load(shard)]


def assert_all_is_kept(path: Path, acknowledged: dict[int, int]) -> None:
    """Hold that a store has whole batches, and all that were acknowledged."""
    kept = parts_by_batch(asyncio.run(loaded(path)))
    assert len(acknowledged) == PROCESSES * crash_child.WRITERS
    for writer, batch in acknowledged.items():
        assert len(kept[writer]) > batch
    for parts in kept.values():
        assert set(parts) == {crash_child.PARTS}


@pytest.mark.parametrize("seed", range(3))
def test_killed_processes_lose_nothing_and_disturb_no_other(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "coterie.db"
    acknowledged: dict[int, int] = {}
    with children(path) as (living, start):
        for _ in range(4):
            for child in living:
                child.wait_for(200)
            number = chance.randrange(PROCESSES)
            living[number].kill()
            assert living[number].ended() < 0
            acknowledged |= living[number].acknowledged
            for child in living:
                if child.number != number:
                    child.wait_for(50)
            living[number] = start(number)
        for child in living:
            child.wait_for(200)
        for child in living:
            child.kill()
        for child in living:
            child.ended()
            acknowledged |= child.acknowledged
    assert_all_is_kept(path, acknowledged)


@pytest.mark.parametrize("seed", range(3))
def test_mark_has_all_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    """Processes that end in good order leave nothing that was not acknowledged, either."""
    path = tmp_path / f"{seed}.db"
    with children(path) as (living, _):
        for child in living:
            child.wait_for(300)
        for child in living:
            child.begin_to_end()
        assert [child.ended() for child in living] == [0] * PROCESSES
    marked = Mark(mark_path(path)).read()
    with closing(open_database(path)) as connection:
        assert marked == read_progress(connection)
    acknowledged = {
        writer: batch for child in living for writer, batch in child.acknowledged.items()
    }
    assert_all_is_kept(path, acknowledged)
