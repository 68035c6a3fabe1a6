"""What is left of a SQLite store when its process is killed, or its log torn, at any moment."""

import asyncio
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from coterie_server.storage import KeptRecord, SqliteStore
from tests.server.storage import crash_child
from tests.support.processes import killed_on_error
from tests.support.profiles import mostly_slow

CHILD = Path(crash_child.__file__)


def run_until_killed(path: Path, lines: int) -> dict[int, int]:
    """Kill a writing process after some lines of output; return each writer's last batch."""
    acknowledged: dict[int, int] = {}
    started = subprocess.Popen(
        [sys.executable, str(CHILD), str(path), "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with killed_on_error(started) as child:
        assert child.stdout is not None
        for count, line in enumerate(child.stdout, start=1):
            if line.endswith("\n"):  # the kill may have cut off the last one
                writer, batch = line.split()
                acknowledged[int(writer)] = int(batch)
            if count == lines:
                child.kill()
    return acknowledged


async def loaded(path: Path) -> list[KeptRecord]:
    """Return everything that the store holds."""
    async with SqliteStore(path) as store:
        return [record for shard in range(3) for record in await store.load(shard)]


def parts_by_batch(records: list[KeptRecord]) -> dict[int, list[int]]:
    """Return for each writer how many parts there are of its batches, by number.

    Holds that a writer's record of its last batch names the last one.
    """
    counts: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    last: dict[int, int] = {}
    for key, value in records:
        writer, batch, *_ = key.decode().split("/")
        if batch == "last":
            last[int(writer)] = int(value)
        else:
            counts[int(writer)][int(batch)] += 1
    assert last == {writer: max(batches) for writer, batches in counts.items()}
    return {
        writer: [batches[batch] for batch in range(max(batches) + 1)]
        for writer, batches in counts.items()
    }


@pytest.mark.parametrize("lines", mostly_slow([150, 1, 30, 600]))
def test_kill_loses_nothing_acknowledged(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "coterie.db"
    acknowledged = run_until_killed(path, lines)
    kept = parts_by_batch(asyncio.run(loaded(path)))
    assert acknowledged
    for writer, batch in acknowledged.items():
        assert len(kept[writer]) > batch
    for parts in kept.values():
        assert set(parts) == {crash_child.PARTS}


@pytest.mark.slow
def test_kill_after_kill(tmp_path: Path) -> None:
    path = tmp_path / "coterie.db"

    async def epochs() -> list[int]:
        async with SqliteStore(path) as store:
            return [lease.fence.epoch for lease in (await store.survey()).leases]

    seen = []
    for _ in range(3):
        run_until_killed(path, 20)
        seen.append(asyncio.run(epochs()))
    assert seen == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]


async def write_and_copy(path: Path, copy: Path, batches: int) -> None:
    """Append batches one by one, and copy the file and its log while the store is open."""
    async with SqliteStore(path) as store:
        (lease,) = await store.claim([0], "ann", 1000)
        for batch in range(batches):
            number = b"%07d" % batch
            parts = [(b"0/%s/%d" % (number, part), b"x" * 300) for part in range(3)]
            await store.append(lease, [*parts, (b"0/last", number)])
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")


@pytest.mark.parametrize("damage", mostly_slow(["cut off", "flipped"]))
def test_torn_log_leaves_whole_batches(tmp_path: Path, damage: str) -> None:
    whole, torn = tmp_path / "whole.db", tmp_path / "torn.db"
    asyncio.run(write_and_copy(tmp_path / "coterie.db", whole, batches=25))
    log = Path(f"{whole}-wal").read_bytes()
    chance = random.Random(25)
    left = []
    for place in sorted(chance.randrange(len(log)) for _ in range(40)):
        tail = b"" if damage == "cut off" else bytes([log[place] ^ 0x55]) + log[place + 1 :]
        shutil.copyfile(whole, torn)
        Path(f"{torn}-wal").write_bytes(log[:place] + tail)
        parts = parts_by_batch(asyncio.run(loaded(torn))).get(0, [])
        assert set(parts) <= {3}
        left.append(len(parts))
        Path(torn).unlink()
    assert left == sorted(left)
    assert left[0] < left[-1]
