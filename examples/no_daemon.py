"""Workers without a daemon: each runs a coordinator beside its group, and they share a store.

    python examples/no_daemon.py postgresql://user@db.example/coterie
    python examples/no_daemon.py sqlite:/tmp/workers.db

The first line is for workers that all reach one PostgreSQL and each other, the second one for
workers of one machine. Run it in as many terminals as you like, and stop any of them however you
like: the partitions of a worker that ends move to the others, and so do the groups that it
coordinated.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal

from coterie_client import Group, Partition
from coterie_server.embedded import EmbeddedNode

TOPIC = "tiles"
PARTITIONS = 12
PAUSE_S = 0.2

log = logging.getLogger(TOPIC)


async def work(partition: Partition) -> None:
    """Count on from where the last owner stopped."""
    position = await partition.committed()
    done = position.offset if position else 0
    log.info("works on %s from %s", partition.number, done)
    while True:
        await asyncio.sleep(PAUSE_S)
        done += 1
        await partition.commit(done)


async def main(store: str, host: str | None) -> None:
    """Coordinate and work until a signal says that it is enough."""
    async with EmbeddedNode(store, host=host, topics={TOPIC: PARTITIONS}) as node:
        log.info("coordinates on %s", node.bootstrap)
        group = Group(
            node.bootstrap, "render", topics=[TOPIC], session_timeout=10.0, stop_on_signals=True
        )
        async with group:
            await group.run(work)
        # The group has ended, and with it how it handles signals; the node hands over yet.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Work without a daemon.")
    parser.add_argument("store", help="postgresql://... or sqlite:PATH, the same for all workers")
    parser.add_argument("--host", help="where the other workers reach this one")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    asyncio.run(main(options.store, options.host))
