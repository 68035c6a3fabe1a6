"""Workers that share the rows of a SQLite table, in shards.

    coterie serve
    python examples/shard_workers.py

The second line fills a table of jobs if there is none, and works on it. Run it in as many terminals
as you like, and stop any of them however you like: the shards move, each goes on where its last
worker left off, and what a former owner writes too late is refused by the table itself.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import signal
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final

from coterie_client import Admin, Group, Partition
from coterie_protocol.errors import TopicAlreadyExistsError

TOPIC: Final = "jobs"
SHARDS: Final = 12
#: How many results are stored at once.
BATCH: Final = 10
LOOK_EVERY_S: Final = 0.5

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS jobs (
    job INTEGER PRIMARY KEY, shard INTEGER NOT NULL, payload TEXT NOT NULL, result TEXT
);
CREATE INDEX IF NOT EXISTS jobs_of_shard ON jobs (shard, job);
CREATE TABLE IF NOT EXISTS owners (shard INTEGER PRIMARY KEY, token INTEGER NOT NULL);
"""

log = logging.getLogger(TOPIC)


class FormerOwnerError(Exception):
    """Somebody else owns the shard by now."""


class Jobs:
    """The table, which takes results from the latest owner of a shard only."""

    def __init__(self, path: Path) -> None:
        # SQLite answers within a millisecond. A database that doesn't belongs into a thread:
        # heartbeats travel in the event loop.
        self._db = sqlite3.connect(path, timeout=10)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_SCHEMA)

    def fill(self, count: int) -> None:
        """Have some jobs to do, unless there are any."""
        rows = [(job, job % SHARDS, f"job {job}") for job in range(1, count + 1)]
        with self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO jobs (job, shard, payload) VALUES (?, ?, ?)", rows
            )

    def left(self) -> int:
        """How many have no result yet."""
        (count,) = self._db.execute("SELECT count(*) FROM jobs WHERE result IS NULL").fetchone()
        return int(count)

    def after(self, shard: int, job: int) -> list[tuple[int, str]]:
        """The next jobs of a shard, with what is to be done."""
        query = "SELECT job, payload FROM jobs WHERE shard = ? AND job > ? ORDER BY job LIMIT ?"
        return self._db.execute(query, (shard, job, BATCH)).fetchall()

    def store(self, shard: int, token: int, results: Mapping[int, str]) -> None:
        """Store results, unless somebody has come with a higher token for this shard."""
        claim = (
            "INSERT INTO owners (shard, token) VALUES (?, ?) ON CONFLICT (shard)"
            " DO UPDATE SET token = excluded.token WHERE excluded.token >= token"
        )
        with self._db:  # one transaction: between the question and the writes nobody else writes
            if self._db.execute(claim, (shard, token)).rowcount == 0:
                raise FormerOwnerError(f"shard {shard} has an owner with a token above {token}")
            rows = [(result, job) for job, result in results.items()]
            self._db.executemany("UPDATE jobs SET result = ? WHERE job = ?", rows)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


async def work(shard: Partition, jobs: Jobs) -> None:
    """Do the jobs of a shard, from the last one that was committed on."""
    # Nothing to store yet, but from here on former owners are refused.
    jobs.store(shard.number, shard.token, {})
    position = await shard.committed()
    done = position.offset if position is not None else 0
    log.info("%s begins at %d with token %d", shard, done, shard.token)
    while True:
        results: dict[int, str] = {}
        try:
            for job, payload in jobs.after(shard.number, done):
                results[job] = await do(payload)
        finally:
            # Also if the shard is about to go to somebody else: what is done is not done again.
            if results:
                jobs.store(shard.number, shard.token, results)
                done = max(results)
                await shard.commit(done)
                log.info("%s stored up to %d", shard, done)
        if not results:
            await asyncio.sleep(LOOK_EVERY_S)


async def do(payload: str) -> str:
    """Do a job; something more useful takes as long."""
    await asyncio.sleep(0.02)
    return hashlib.sha256(payload.encode()).hexdigest()


def join(bootstrap: str) -> Group:
    """Be a member of the group of workers."""
    return Group(bootstrap, "workers", topics=[TOPIC])


async def main(bootstrap: str, jobs: Jobs) -> None:
    """Work until asked to stop."""
    async with Admin(bootstrap) as admin:
        with suppress(TopicAlreadyExistsError):
            await admin.topics.create(TOPIC, partitions=SHARDS)
    async with join(bootstrap) as group:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, group.stop)
        await group.run(partial(work, jobs=jobs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Work on a table of jobs.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--database", type=Path, default=Path("jobs.db"))
    options = parser.parse_args()
    # Coterie's client logs there as well, and prints nothing by itself.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with closing(Jobs(options.database)) as table:
        table.fill(2_400)
        asyncio.run(main(options.bootstrap, table))
