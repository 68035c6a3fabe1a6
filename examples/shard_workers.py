"""Workers that share the rows of a SQLite table, in shards.

    coterie serve
    python examples/shard_workers.py

The second line fills a table of jobs if there is none, and works on it. Run it in as many terminals
as you like, and stop any of them however you like: the shards move, each continues where its last
worker stopped, and the table itself refuses late writes of a former owner.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final

from coterie_client import Admin, Group, Partition
from coterie_protocol.errors import TopicAlreadyExistsError
from coterie_protocol.exceptions import CoterieError

TOPIC: Final = "jobs"
SHARDS: Final = 12
#: How many results are stored in one transaction.
BATCH: Final = 10
POLL_INTERVAL_S: Final = 0.5

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS jobs (
    job INTEGER PRIMARY KEY, shard INTEGER NOT NULL, payload TEXT NOT NULL, result TEXT
);
CREATE INDEX IF NOT EXISTS jobs_of_shard ON jobs (shard, job);
CREATE TABLE IF NOT EXISTS owners (shard INTEGER PRIMARY KEY, token INTEGER NOT NULL);
"""

log = logging.getLogger(TOPIC)


class FormerOwnerError(Exception):
    """Another worker owns the shard by now."""


class Jobs:
    """The table, which accepts results only from the latest owner of a shard."""

    def __init__(self, path: Path) -> None:
        # SQLite answers within a millisecond. Use a slower database from a thread, so that the
        # event loop stays free for heartbeats.
        self._db = sqlite3.connect(path, timeout=10)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_SCHEMA)

    def fill(self, count: int) -> None:
        """Insert some jobs, unless they exist."""
        rows = [(job, job % SHARDS, f"job {job}") for job in range(1, count + 1)]
        with self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO jobs (job, shard, payload) VALUES (?, ?, ?)", rows
            )

    def left(self) -> int:
        """The number of jobs without a result."""
        (count,) = self._db.execute("SELECT count(*) FROM jobs WHERE result IS NULL").fetchone()
        return int(count)

    def after(self, shard: int, job: int) -> list[tuple[int, str]]:
        """The next jobs of a shard, with their payloads."""
        query = "SELECT job, payload FROM jobs WHERE shard = ? AND job > ? ORDER BY job LIMIT ?"
        return self._db.execute(query, (shard, job, BATCH)).fetchall()

    def store(self, shard: int, token: int, results: Mapping[int, str]) -> None:
        """Store results, unless this shard has had an owner with a higher token."""
        claim = (
            "INSERT INTO owners (shard, token) VALUES (?, ?) ON CONFLICT (shard)"
            " DO UPDATE SET token = excluded.token WHERE excluded.token >= token"
        )
        with self._db:  # one transaction: nothing is written between check and update
            if self._db.execute(claim, (shard, token)).rowcount == 0:
                raise FormerOwnerError(f"shard {shard} has an owner with a token above {token}")
            rows = [(result, job) for job, result in results.items()]
            self._db.executemany("UPDATE jobs SET result = ? WHERE job = ?", rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


async def work(shard: Partition, jobs: Jobs) -> None:
    """Do the jobs of a shard, continuing after the last committed one."""
    # There is nothing to store yet, but from here on former owners are refused.
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
            # Also if the shard is being revoked: the next owner need not repeat what is done.
            if results:
                jobs.store(shard.number, shard.token, results)
                done = max(results)
                await shard.commit(done)
                log.info("%s stored up to %d", shard, done)
        if not results:
            await asyncio.sleep(POLL_INTERVAL_S)


async def do(payload: str) -> str:
    """Do a job; this stands for useful work."""
    await asyncio.sleep(0.02)
    return hashlib.sha256(payload.encode()).hexdigest()


def join(bootstrap: str) -> Group:
    """Create a member of the group of workers."""
    return Group(bootstrap, "workers", topics=[TOPIC], stop_on_signals=True)


async def main(bootstrap: str, jobs: Jobs) -> None:
    """Work until stopped."""
    async with Admin(bootstrap) as admin:
        with suppress(TopicAlreadyExistsError):
            await admin.topics.create(TOPIC, partitions=SHARDS)
    async with join(bootstrap) as group:
        await group.run(partial(work, jobs=jobs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Work on a table of jobs.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--database", type=Path, default=Path("jobs.db"))
    options = parser.parse_args()
    # Coterie's client logs here as well; it prints nothing by itself.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Once there is a group, Ctrl-C and SIGTERM end it in good order.
    with suppress(KeyboardInterrupt):
        try:
            with closing(Jobs(options.database)) as table:
                table.fill(2_400)
                asyncio.run(main(options.bootstrap, table))
        except CoterieError as error:  # such as: there is no coordinator
            sys.exit(str(error))
        except sqlite3.OperationalError as error:
            sys.exit(f"{options.database}: {error}")
