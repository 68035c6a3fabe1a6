"""A stateful HTTP service: each process keeps the counters of its shards in memory.

    coterie serve
    python examples/counter_service.py --port 8081
    python examples/counter_service.py --port 8082
    python examples/counter_router.py --port 8080
    curl -X POST -H 'Idempotency-Key: 1' http://127.0.0.1:8080/counters/apples

Each counter belongs to a shard, and each shard to one process, which tells the group where it is
reached. The router finds it there. Kill a process, and others take its shards over, with the
totals as they were stored. What a request is refused for is the fencing token: one that was routed
to a later owner comes with a higher token than this process has, and a write of a former owner has
a lower one than the table has seen. So no write is lost, and none counts twice.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sqlite3
import sys
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web

from coterie_client import Admin, Group, Partition
from coterie_protocol.errors import TopicAlreadyExistsError
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.partitioner import partition_of_key

GROUP: Final = "counters"
TOPIC: Final = "counters"
SHARDS: Final = 16
HEADER: Final = "Fencing-Token"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS owners (shard INTEGER PRIMARY KEY, token INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS writes (
    id TEXT PRIMARY KEY, shard INTEGER NOT NULL, counter TEXT NOT NULL, total INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS writes_of_shard ON writes (shard, counter, total);
"""

log = logging.getLogger(GROUP)


class FormerOwnerError(Exception):
    """Another process owns the shard by now."""


class Table:
    """What was counted, which takes writes only from the latest owner of a shard."""

    def __init__(self, path: Path) -> None:
        # SQLite answers within a millisecond. Use a slower database from a thread, so that the
        # event loop stays free for heartbeats.
        self._db = sqlite3.connect(path, timeout=10, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_SCHEMA)

    def take_over(self, shard: int, token: int) -> dict[str, int]:
        """The totals of a shard; from here on, all its former owners are refused."""
        with self._transaction(shard, token):
            query = "SELECT counter, max(total) FROM writes WHERE shard = ? GROUP BY counter"
            return dict(self._db.execute(query, (shard,)).fetchall())

    def write(self, shard: int, token: int, write_id: str, counter: str, total: int) -> int:
        """Store a write, and return the total; of one that is stored already, that of then."""
        with self._transaction(shard, token):
            query = "SELECT total FROM writes WHERE id = ?"
            known: tuple[int] | None = self._db.execute(query, (write_id,)).fetchone()
            if known is not None:
                return known[0]
            row = (write_id, shard, counter, total)
            self._db.execute("INSERT INTO writes VALUES (?, ?, ?, ?)", row)
            return total

    def _transaction(self, shard: int, token: int) -> sqlite3.Connection:
        """Begin a transaction as the owner of a shard, in which nothing comes between."""
        claim = (
            "INSERT INTO owners (shard, token) VALUES (?, ?) ON CONFLICT (shard)"
            " DO UPDATE SET token = excluded.token WHERE excluded.token >= token"
        )
        self._db.execute("BEGIN IMMEDIATE")
        if self._db.execute(claim, (shard, token)).rowcount == 0:
            self._db.execute("ROLLBACK")
            raise FormerOwnerError(f"shard {shard} has an owner with a token above {token}")
        return self._db  # as a context manager, it commits or rolls back

    def close(self) -> None:
        """Close the file."""
        self._db.close()


@dataclass(slots=True)
class Shard:
    """A shard that this process owns."""

    token: int
    totals: dict[str, int]


@dataclass(slots=True)
class Service:
    """The counters of this process."""

    table: Table
    shards: dict[int, Shard] = field(default_factory=dict)

    async def work(self, partition: Partition) -> None:
        """Own a shard: answer for its counters until it is revoked or lost."""
        number, token = partition.number, partition.token
        self.shards[number] = Shard(token, self.table.take_over(number, token))
        log.info("owns shard %d with token %d", number, token)
        try:
            await asyncio.Event().wait()
        finally:
            del self.shards[number]
            log.info("gave up shard %d", number)

    async def count(self, request: web.Request) -> web.Response:
        """Count one."""
        counter, write_id = request.match_info["counter"], request.headers["Idempotency-Key"]
        number = partition_of_key(counter.encode(), SHARDS)
        shard = self.shards.get(number)
        if shard is None or int(request.headers.get(HEADER, "0")) > shard.token:
            # 421, Misdirected Request: the router looks again who the owner is.
            raise web.HTTPMisdirectedRequest(text=f"This process does not own shard {number}.\n")
        total = shard.totals.get(counter, 0) + 1
        try:
            stored = self.table.write(number, shard.token, write_id, counter, total)
        except FormerOwnerError as error:
            raise web.HTTPMisdirectedRequest(text=f"{error}\n") from error
        shard.totals[counter] = max(stored, shard.totals.get(counter, 0))
        return web.json_response({"counter": counter, "total": stored})


async def main(bootstrap: str, host: str, port: int, table: Table, session_s: float) -> None:
    """Serve until stopped."""
    async with Admin(bootstrap) as admin:
        with suppress(TopicAlreadyExistsError):
            await admin.topics.create(TOPIC, partitions=SHARDS)
    service, app = Service(table), web.Application()
    app.router.add_post("/counters/{counter}", service.count)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    group = Group(
        bootstrap,
        GROUP,
        topics=[TOPIC],
        address=f"{host}:{port}",
        session_timeout=session_s,
        heartbeat_interval=session_s / 5,
        stop_on_signals=True,
    )
    async with group:
        await group.run(service.work)
    await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Keep counters.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--host", default="127.0.0.1", help="where the router reaches this process")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--database", type=Path, default=Path("counters.db"))
    parser.add_argument("--session", type=float, default=10.0, help="seconds until it counts dead")
    options = parser.parse_args()
    # Coterie's client logs here as well; it prints nothing by itself.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    at = (options.bootstrap, options.host, options.port)
    # Once there is a group, Ctrl-C and SIGTERM end it in good order.
    with suppress(KeyboardInterrupt):
        try:
            with closing(Table(options.database)) as opened:
                asyncio.run(main(*at, opened, options.session))
        except (CoterieError, OSError) as error:  # there is no coordinator, or the port is taken
            sys.exit(str(error))
        except sqlite3.OperationalError as error:
            sys.exit(f"{options.database}: {error}")
