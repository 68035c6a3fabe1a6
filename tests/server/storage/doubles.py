"""Stand-ins for what is around a store: other processes, and the disk."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import asyncpg

from coterie_server.storage import Store

__all__ = ["PATIENCE_S", "Another", "Database", "Disk", "Failing", "Passes", "Time", "disk_error"]

Another = Callable[[], Store]
"""Returns one more store of the same content, closed, as another process would make it."""

Passes = Callable[[int], Awaitable[None]]
"""Lets so many ms pass by the store's clock."""

PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Failing:
    """A store whose appends can be made to fail, and to succeed again."""

    store: Store
    fail: Callable[[], None]
    mend: Callable[[], None]


class Time:
    """A store's clock, which stands still until a test says otherwise."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        """The time."""
        return self.ms

    async def passes(self, ms: int) -> None:
        """Let so many ms pass."""
        self.ms += ms


@dataclass(frozen=True, slots=True)
class Database:
    """The database of stores in PostgreSQL, as an administrator reaches it."""

    url: str
    schema: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """A connection, with this schema in its search path."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f"SET search_path TO {self.schema}")
            yield connection
        finally:
            await connection.close()

    async def run(self, statements: str) -> None:
        """Run statements."""
        async with self.connected() as connection:
            await connection.execute(statements)

    @asynccontextmanager
    async def holding(self, query: str) -> AsyncIterator[None]:
        """Hold the rows that a query locks, while in this context."""
        async with self.connected() as connection, connection.transaction():
            await connection.execute(query)
            yield

    async def until(self, query: str, *values: object) -> None:
        """Wait until a query says true."""
        async with self.connected() as connection, asyncio.timeout(PATIENCE_S):
            while not await connection.fetchval(query, *values):  # noqa: ASYNC110  # it can't wake us
                await asyncio.sleep(0.005)

    async def waiting(self, count: int = 1) -> list[int]:
        """Wait until sessions of stores wait for rows; return their process ids."""
        waiting = (
            " FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'coterie'"
        )
        await self.until(f"SELECT count(*) >= $1 {waiting}", count)
        async with self.connected() as connection:
            return [row["pid"] for row in await connection.fetch(f"SELECT pid {waiting}")]

    async def passes(self, ms: int) -> None:
        """Let all that expires do so earlier, as the server's clock can't be set."""
        past = timedelta(milliseconds=ms)
        async with self.connected() as connection:
            await connection.execute(
                "UPDATE leases SET expires_at = expires_at - $1::interval", past
            )
            await connection.execute(
                "UPDATE nodes SET expires_at = expires_at - $1::interval", past
            )
            await connection.execute(
                "UPDATE timelines SET claims_from = claims_from - $1::interval", past
            )


def disk_error(code: int = sqlite3.SQLITE_IOERR, text: str = "disk I/O error") -> sqlite3.Error:
    """Return an error as SQLite raises it."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_TEST"
    return error


class Disk:
    """Watches the statements of a SQLite store, holds them up and makes them fail.

    Hand its `connect` to the store.
    """

    def __init__(self) -> None:
        self.traced: list[str] = []
        self.connections: list[sqlite3.Connection] = []
        self._failing: dict[str, Exception] = {}
        self._meanwhile: dict[str, Callable[[], object]] = {}
        self._go = threading.Event()
        self._go.set()
        self._is_held = threading.Event()

    @property
    def commits(self) -> int:
        """How many transactions SQLite was told to commit."""
        return self.traced.count("COMMIT")

    def connect(self, path: str, **options: Any) -> sqlite3.Connection:
        """Do what `sqlite3.connect` does, and stay in between."""
        disk = self

        class Watched(sqlite3.Connection):
            def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
                disk._before(sql)
                done = super().execute(sql, *rest)
                disk._after(sql)
                return done

        connection = sqlite3.connect(path, factory=Watched, check_same_thread=False, **options)
        connection.set_trace_callback(self.traced.append)
        self.connections.append(connection)
        return connection

    def fail(self, statement: str, error: Exception) -> None:
        """Let statements that begin with this word fail, until the disk is mended."""
        self._failing[statement] = error

    def meanwhile(self, statement: str, happens: Callable[[], object]) -> None:
        """Have something happen once the next such statement is done, before the store goes on."""
        self._meanwhile[statement] = happens

    def mend(self) -> None:
        """Let everything succeed again."""
        self._failing.clear()

    def _before(self, sql: str) -> None:
        if sql.startswith("BEGIN") and not self._go.is_set():
            self._is_held.set()
            assert self._go.wait(PATIENCE_S)
        for statement, error in self._failing.items():
            if sql.startswith(statement):
                raise error

    def _after(self, sql: str) -> None:
        happens = self._meanwhile.pop(sql, None)
        if happens is not None:
            happens()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no transaction begin while in this context."""
        self._is_held.clear()
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def stands_still(self) -> None:
        """Wait until a transaction is being held."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(self._is_held.wait, PATIENCE_S)
