"""Appends to a store until it is killed, and says on standard output what was acknowledged.

Each of several writers appends batches of its own, one after another. Batch 7 of writer 2 is a
record for each part, `2/0000007/0` and so on, and `2/last`, which every batch overwrites.
"""

import asyncio
import sys
from pathlib import Path

from coterie_server.storage import Lease, SqliteStore

WRITERS = 6
PARTS = 5


async def write(store: SqliteStore, writer: int, lease: Lease) -> None:
    """Append batches to the writer's shard for ever."""
    batch = 0
    while True:
        number = b"%07d" % batch
        records = [(b"%d/%s/%d" % (writer, number, part), b"x" * 100) for part in range(PARTS)]
        await store.append(lease, [*records, (b"%d/last" % writer, number)])
        sys.stdout.write(f"{writer} {batch}\n")
        sys.stdout.flush()
        batch += 1


async def main(path: Path) -> None:
    """Claim the shards and let all writers run."""
    async with SqliteStore(path) as store:
        leases = await store.claim(range(3), "child", 1000)
        await asyncio.gather(
            *(write(store, writer, leases[writer % 3]) for writer in range(WRITERS))
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
