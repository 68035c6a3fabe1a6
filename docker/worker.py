# noqa: INP001 - a script, not a package
"""A worker for the compose files that counts, for ever, on each shard that it owns.

It is given where the coordinator is and, if it has to prove who it is, the folder with its
certificate, or a file of Kafka's `client.properties`.
For workers that do something useful, see `examples`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from coterie_client import Group, Partition, Security, Tls

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


def _security(path: Path) -> Security:
    if not path.is_dir():
        return Security.from_properties(path)
    return Security(tls=Tls(cafile=path / "ca.pem", certfile=path / "both.pem"))


async def main(bootstrap: str, credentials: str = "") -> None:
    """Work until asked to stop."""
    async with Group(
        bootstrap,
        "counting",
        topics=["shards"],
        security=_security(Path(credentials)) if credentials else Security(),
        stop_on_signals=True,
    ) as group:
        await group.run(_count)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
