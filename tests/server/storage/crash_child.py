"""Appends to a store until it is killed, and says on standard output what was acknowledged.

Each of several writers appends batches of its own, one after another. Batch 7 of writer 2 is a
record for each part, `2/0000007/0` and so on, and `2/last`, which every batch overwrites.

Several such processes may share a store; the second argument is a process's number.  They end in
good order when standard input ends.
"""

import asyncio
import sys
from pathlib import Path

from coterie_server.storage import Lease, SqliteStore, Store

WRITERS = 6
SHARDS = 3
PARTS = 5
TTL_MS = 1000


async def write(store: Store, writer: int, lease: Lease) -> None:
    """Append batches under a lease for ever."""
    kept = dict(await store.load(lease.shard))
    last = kept.get(b"%d/last" % writer)
    batch = 0 if last is None else int(last) + 1
    while True:
        number = b"%07d" % batch
        records = [(b"%d/%s/%d" % (writer, number, part), b"x" * 100) for part in range(PARTS)]
        await store.append(lease, [*records, (b"%d/last" % writer, number)])
        sys.stdout.write(f"{writer} {batch}\n")
        sys.stdout.flush()
        batch += 1


async def renew(store: Store, owner: str, leases: list[Lease]) -> None:
    """Keep the leases for ever."""
    while True:
        assert len(await store.renew(owner, b"", leases, TTL_MS)) == len(leases)
        await store.survey()
        await asyncio.sleep(TTL_MS / 5000)


async def work(store: Store, number: int) -> None:
    """Claim the process's shards and let all of its writers run."""
    owner = f"child-{number}"
    await store.reserve(owner, TTL_MS)
    shards = range(number * SHARDS, (number + 1) * SHARDS)
    leases = await store.claim(shards, owner, TTL_MS)
    assert len(leases) == SHARDS
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(renew(store, owner, leases))
        for writer in range(WRITERS):
            lease = leases[writer % SHARDS]
            tasks.create_task(write(store, number * WRITERS + writer, lease))


async def main(path: Path, number: int) -> None:
    """Work on a store until standard input ends."""
    async with SqliteStore(path) as store:
        working = asyncio.create_task(work(store, number))
        asked = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
    if not working.cancelled():
        working.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
