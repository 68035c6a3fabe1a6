"""Appends to a store until it is killed, and says on standard output what was acknowledged.

Each of several writers appends batches of its own, one after another. Batch 7 of writer 2 is a
record for each part, `2/0000007/0` and so on, and `2/last`, which every batch overwrites.
"""

import asyncio
import sys
import time
from pathlib import Path

from coterie_server.storage import SqliteStore

WRITERS = 6
PARTS = 5


async def write(store: SqliteStore, writer: int, epoch: int) -> None:
    """Append batches to the writer's shard for ever."""
    shard, batch = writer % 3, 0
    while True:
        number = b"%07d" % batch
        records = [(b"%d/%s/%d" % (writer, number, part), b"x" * 100) for part in range(PARTS)]
        await store.append(shard, epoch, [*records, (b"%d/last" % writer, number)])
        sys.stdout.write(f"{writer} {batch}\n")
        sys.stdout.flush()
        batch += 1


async def main(path: Path) -> None:
    """Claim the shards and let all writers run."""
    now_ms = time.time_ns() // 1_000_000
    async with SqliteStore(path) as store:
        leases = [await store.claim(shard, "child", "here:1", now_ms, 1000) for shard in range(3)]
        epochs = [lease.epoch for lease in leases if lease is not None]
        await asyncio.gather(
            *(write(store, writer, epochs[writer % 3]) for writer in range(WRITERS))
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
