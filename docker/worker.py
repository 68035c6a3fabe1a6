# noqa: INP001 - a script, not a package
"""A worker for `compose.yaml` that counts, for ever, on each shard that it owns.

For workers that do something useful, see `examples`.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from coterie_client import Group, Partition

_log = logging.getLogger("counting")

PAUSE_S = 0.1
#: How many steps between two commits.
STEPS = 10


async def _count(shard: Partition) -> None:
    position = await shard.committed()
    done = position.offset if position is not None else 0
    _log.info("%s begins at %d with token %d", shard, done, shard.token)
    try:
        while True:
            await asyncio.sleep(PAUSE_S)
            done += 1
            if done % STEPS == 0:
                await shard.commit(done)
    finally:
        if shard.is_owned:
            await shard.commit(done)
        _log.info("%s ends at %d", shard, done)


async def main(bootstrap: str) -> None:
    """Work until asked to stop."""
    async with Group(bootstrap, "counting", topics=["shards"], stop_on_signals=True) as group:
        await group.run(_count)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(main(sys.argv[1]))
