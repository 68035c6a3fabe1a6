"""Workers that keep state in SQLite files, and hand shards over only to who has that state.

    coterie serve
    python examples/stateful_workers.py --state a

The second line fills a log of payments if there is none, and works on it: it adds up a balance for
each account, and writes down which payments an account could not afford. Start another worker with
`--state b`: it first fills its own files from the log while the first one works on, and takes
shards over when it has caught up. Stop it however you like, and start it again: it goes on with the
files that it has.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from coterie_client import Admin, Group, Partition, Standby, WarmSettings
from coterie_protocol.errors import TopicAlreadyExistsError
from coterie_protocol.exceptions import CoterieError

TOPIC: Final = "payments"
SHARDS: Final = 6
#: How many entries are applied in one transaction, and how long that takes.
BATCH: Final = 50
BATCH_S: Final = 0.02
POLL_INTERVAL_S: Final = 0.2

_LOG_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS payments (
    shard INTEGER, seq INTEGER, account TEXT NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (shard, seq)
);
CREATE TABLE IF NOT EXISTS refused (
    shard INTEGER, seq INTEGER, token INTEGER NOT NULL, PRIMARY KEY (shard, seq)
);
CREATE TABLE IF NOT EXISTS owners (shard INTEGER PRIMARY KEY, token INTEGER NOT NULL);
"""
_STATE_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL);
"""

log = logging.getLogger(TOPIC)

Payment = tuple[int, str, int]


class FormerOwnerError(Exception):
    """Another worker owns the shard by now."""


class Log:
    """All payments, and those that were refused; every worker can read it. It stands for a broker.

    It accepts results only from the latest owner of a shard.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=10)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_LOG_SCHEMA)

    def fill(self, count: int) -> None:
        """Write as many payments to each shard, unless they are there."""
        rows = [
            (shard, seq, f"account {seq % 7}", 30 if seq % 3 else -50)
            for shard in range(SHARDS)
            for seq in range(1, count + 1)
        ]
        with self._db:
            self._db.executemany("INSERT OR IGNORE INTO payments VALUES (?, ?, ?, ?)", rows)

    def end(self, shard: int) -> int:
        """The number of its last payment."""
        query = "SELECT coalesce(max(seq), 0) FROM payments WHERE shard = ?"
        (seq,) = self._db.execute(query, (shard,)).fetchone()
        return int(seq)

    def between(self, shard: int, after: int, last: int) -> list[Payment]:
        """The next payments, up to the last one that is wanted."""
        query = (
            "SELECT seq, account, amount FROM payments"
            " WHERE shard = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        )
        return self._db.execute(query, (shard, after, last, BATCH)).fetchall()

    def refuse(self, shard: int, token: int, refused: list[int]) -> None:
        """Write down refused payments, unless this shard has had an owner with a higher token."""
        claim = (
            "INSERT INTO owners (shard, token) VALUES (?, ?) ON CONFLICT (shard)"
            " DO UPDATE SET token = excluded.token WHERE excluded.token >= token"
        )
        with self._db:
            if self._db.execute(claim, (shard, token)).rowcount == 0:
                raise FormerOwnerError(f"shard {shard} has an owner with a token above {token}")
            rows = [(shard, seq, token) for seq in refused]
            self._db.executemany("INSERT OR IGNORE INTO refused VALUES (?, ?, ?)", rows)

    def refused(self) -> list[tuple[int, int]]:
        """Shards and numbers of all refused payments."""
        return self._db.execute("SELECT shard, seq FROM refused ORDER BY shard, seq").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class Balances:
    """The state of one shard, in a file: its balances, and up to which payment they count."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        # A crash of the machine may undo the last transactions: the log has them still.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_STATE_SCHEMA)

    @property
    def position(self) -> int:
        """The number of the last payment that counts."""
        row = self._db.execute("SELECT seq FROM position").fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def applying(self, payments: list[Payment]) -> Iterator[list[int]]:
        """Count payments, all in one transaction; gives those that an account can't afford.

        The transaction ends with the block, so that whatever was done in it is never lost.
        """
        refused = []
        with self._db:
            for seq, account, amount in payments:
                query = "SELECT amount FROM balances WHERE account = ?"
                (balance,) = self._db.execute(query, (account,)).fetchone() or (0,)
                if balance + amount < 0:
                    refused.append(seq)
                else:
                    insert = "INSERT OR REPLACE INTO balances VALUES (?, ?)"
                    self._db.execute(insert, (account, balance + amount))
            if payments:
                insert = "INSERT OR REPLACE INTO position VALUES (1, ?)"
                self._db.execute(insert, (payments[-1][0],))
            yield refused

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class Worker:
    """Work and restores of one process, whose state is in the files of one folder."""

    def __init__(self, payments: Log, folder: Path) -> None:
        self._log = payments
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def held(self) -> dict[tuple[str, int], int | None]:
        """How far behind the files are that are here, at most; asked before each join."""
        lags: dict[tuple[str, int], int | None] = {}
        for path in self._folder.glob("*.db"):
            shard = int(path.stem)
            with closing(Balances(path)) as state:
                lags[TOPIC, shard] = self._log.end(shard) - state.position
        return lags

    def _open(self, shard: int) -> Balances:
        return Balances(self._folder / f"{shard}.db")

    async def restore(self, standby: Standby) -> None:
        """Keep the state of a shard up to date that another worker works on.

        It follows what that one has committed, and never gets ahead of it: what is refused is for
        the owner to write down, and nothing may be missing when this worker takes over.
        """
        shard = standby.number
        with closing(self._open(shard)) as state:
            while True:
                position = await standby.committed()
                committed = position.offset if position else 0
                payments = self._log.between(shard, state.position, committed)
                with state.applying(payments):
                    pass
                standby.lag(max(0, committed - state.position))
                await asyncio.sleep(BATCH_S if payments else POLL_INTERVAL_S)

    async def work(self, partition: Partition) -> None:
        """Count the payments of a shard, and write down those that are refused."""
        shard = partition.number
        self._log.refuse(shard, partition.token, [])  # former owners are refused from here on
        with closing(self._open(shard)) as state:
            position = await partition.committed()
            committed = position.offset if position else 0
            behind = max(0, committed - state.position)
            log.info("%s begins, %d payments behind", partition, behind)
            while True:
                payments = self._log.between(shard, state.position, self._log.end(shard))
                with state.applying(payments) as refused:
                    self._log.refuse(shard, partition.token, refused)
                partition.lag(max(0, committed - state.position))
                if state.position > committed:
                    committed = state.position
                    await partition.commit(committed)
                await asyncio.sleep(BATCH_S if payments else POLL_INTERVAL_S)


def join(bootstrap: str, instance: str | None = None) -> Group:
    """Create a member of the group of workers."""
    return Group(
        bootstrap,
        "bank",
        topics=[TOPIC],
        instance=instance,
        warm=WarmSettings(acceptable_recovery_lag=100, num_standbys=0),
        stop_on_signals=True,
    )


async def run(bootstrap: str, worker: Worker, instance: str | None = None) -> None:
    """Take part in the group until stopped."""
    async with join(bootstrap, instance) as group:
        await group.run(worker.work, warm=worker.restore, held=worker.held)


async def main(bootstrap: str, worker: Worker, instance: str | None) -> None:
    """Work until stopped."""
    async with Admin(bootstrap) as admin:
        with suppress(TopicAlreadyExistsError):
            await admin.topics.create(TOPIC, partitions=SHARDS)
    await run(bootstrap, worker, instance)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Keep the balances of accounts.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--log", type=Path, default=Path("payments.db"))
    parser.add_argument("--state", type=Path, default=Path("state"), help="This worker's files.")
    parser.add_argument("--instance", help="A static name, for a worker that comes back.")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Once there is a group, Ctrl-C and SIGTERM end it in good order.
    with suppress(KeyboardInterrupt):
        try:
            with closing(Log(options.log)) as all_payments:
                all_payments.fill(2_000)
                worker = Worker(all_payments, options.state)
                asyncio.run(main(options.bootstrap, worker, options.instance))
        except (CoterieError, OSError) as error:  # there is no coordinator, or no room for state
            sys.exit(str(error))
        except sqlite3.OperationalError as error:
            sys.exit(f"{options.log} or {options.state}: {error}")
