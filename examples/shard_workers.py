"""Workers that share the shards of a job.

    coterie serve --topic shards:12
    python examples/shard_workers.py

Run the second line in as many terminals as you like, and stop any of them: the shards move, and
each goes on where its last worker left off.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import structlog

from coterie_client import Group, Partition

log = structlog.get_logger()


async def work(shard: Partition) -> None:
    """Count, in place of something useful."""
    position = await shard.committed()
    done = position.offset if position is not None else 0
    log.info("begins", shard=str(shard), done=done, token=shard.token)
    try:
        while True:
            # Whatever is written elsewhere should carry shard.token, so that a former worker's
            # late write can be refused there.
            await asyncio.sleep(0.1)
            done += 1
            if done % 10 == 0:
                await shard.commit(done)
    finally:
        # The shard is ours until this has ended, unless it was lost: then the commit fails.
        await shard.commit(done)
        log.info("hands over", shard=str(shard), done=done)


async def main(bootstrap: str) -> None:
    """Work until asked to stop."""
    async with Group(bootstrap, "counting", topics=["shards"]) as group:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, group.stop)
        await group.run(work)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
