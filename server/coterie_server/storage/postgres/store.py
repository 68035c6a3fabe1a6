"""The store that several nodes share, in a PostgreSQL database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    Fence,
    KeptRecord,
    Lease,
    Record,
    Store,
    StoreError,
    Survey,
)
from coterie_server.storage.damage import Damage, check_record
from coterie_server.storage.lanes import Changes, Lanes
from coterie_server.storage.postgres.address import Address
from coterie_server.storage.postgres.leases import LeaseTable
from coterie_server.storage.postgres.link import ANSWER_S, Link
from coterie_server.storage.postgres.literals import key_of, literal_size
from coterie_server.storage.postgres.readers import Readers, Start
from coterie_server.storage.postgres.schema import open_schema
from coterie_server.storage.postgres.session import Session
from coterie_server.storage.postgres.shared_link import SharedLink, Shortage
from coterie_server.storage.postgres.sql import Statements

__all__ = ["PostgresStore"]

#: Connections for appends, and for reading records.  More lanes gather less each, and fewer let
#: more shards wait for one that is being claimed.
LANES: Final = 3
READERS: Final = 2

#: Making tables may wait for another node that does so.
_OPEN_S: Final = 30.0
#: How long to wait for what is under way at the end, and then to say goodbye.  Others can have a
#: node's name at once if it does; if not, they wait for its entry to end.
_GOODBYE_S: Final = 2.0

_log = get_logger(__name__)


@dataclass(slots=True)
class _Opened:
    """What exists between `open` and `close`."""

    statements: Statements
    #: What has a connection of its own if there are enough, or else goes by that for `work`.
    writers: Sequence[Link]
    readers: Sequence[Link]
    heartbeat: Link
    work: Link
    leases: LeaseTable
    lanes: Lanes
    reading: Readers
    #: How many connections were made for renewals when one was made last.
    connections: int = 0

    @property
    def shared(self) -> list[Link]:
        """Those that a node can do without."""
        return [*self.writers, *self.readers]

    @property
    def links(self) -> list[Link]:
        return [*self.shared, self.work, self.heartbeat]

    async def make_sure(self, *, of_all: bool) -> None:
        """Have all connections, or those that were made once, and such that work."""
        doubtful = [
            link for link in self.links if link.is_doubtful and (of_all or link.connections)
        ]
        await asyncio.gather(*(link.make_sure() for link in doubtful))

    def compare(self) -> None:
        """Suspect all other connections if the one for renewals was lost: they go the same way."""
        before, self.connections = self.connections, self.heartbeat.connections
        if 0 < before < self.connections:
            for link in (*self.shared, self.work):
                link.suspect()


class PostgresStore(Store):
    """Keeps everything in tables of one schema of a PostgreSQL database.

    Any number of processes may open it; their leases say which shards each may write.  Calls fail
    when they got no answer from the database for `answer_s`.
    """

    is_shared = True

    def __init__(self, url: str, *, answer_s: float = ANSWER_S) -> None:
        self._address = Address.parse(url)
        self._answer_s = answer_s
        self._opened: _Opened | None = None
        #: Sees to connections that are not in use.
        self._making_sure: asyncio.Task[None] | None = None
        self._calls = 0
        self._no_calls = asyncio.Event()
        self._no_calls.set()

    @property
    def url(self) -> str:
        """What the store is, for logs: without a password."""
        return self._address.shown

    # -- opening and closing -------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and make the tables if need be."""
        if self._opened is not None:
            return
        work = self._link()
        try:
            statements = await work.run(self._open_schema, answer_s=_OPEN_S)
        except BaseException:
            work.abort()
            raise
        heartbeat = self._link()
        leases = LeaseTable(self.url, statements, heartbeat, work)
        writers = [self._link(has_spare=True) for _ in range(LANES)]
        readers = [self._link(has_spare=True) for _ in range(READERS)]
        shortage = Shortage()
        shared = [SharedLink(link, work, shortage) for link in (*writers, *readers)]
        lanes = Lanes(_Sender(statements, shared[:LANES], leases), LANES)
        reading = Readers(_Source(statements, shared[LANES:]), READERS)
        self._opened = _Opened(
            statements, writers, readers, heartbeat, work, leases, lanes, reading
        )

    def _link(self, *, has_spare: bool = False) -> Link:
        return Link(self._address, self._answer_s, has_spare=has_spare, make_room=self._make_room)

    def _make_room(self) -> None:
        """Give up a connection without which a node can do, so that it gets one that it needs."""
        if self._opened is not None:
            # The first of each kind are used before the others.
            any(link.give_way() for link in reversed(self._opened.shared))

    async def _open_schema(self, session: Session) -> Statements:
        return await open_schema(session, self.url, self._address.schema)

    async def close(self) -> None:
        """Finish what was begun, give this process's names up, and disconnect.

        A database that does not answer is not waited for: what was not answered may come to pass.
        """
        opened, self._opened = self._opened, None
        if opened is None:
            return
        finishing = asyncio.ensure_future(self._finish(opened))
        await asyncio.wait([finishing], timeout=_GOODBYE_S)
        if not finishing.done():
            for link in opened.links:
                link.abort()
        await finishing
        await opened.reading.close()
        if self._making_sure is not None:
            self._making_sure.cancel()
            await asyncio.wait([self._making_sure])
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await opened.leases.give_up_names()
        except (StoreError, TimeoutError) as error:
            reason = str(error) or "the database does not answer"
            _log.warning("the node's name expires by itself, as it can't be given up", why=reason)
        finally:
            await asyncio.gather(*(link.close() for link in opened.links))

    async def _finish(self, opened: _Opened) -> None:
        await self._no_calls.wait()
        await opened.lanes.finish()  # also what its callers no longer wait for

    @contextlib.contextmanager
    def _use(self) -> Iterator[_Opened]:
        """What is open; closing waits for the end of this context."""
        if self._opened is None:
            raise StoreError(f"{self.url} is not open")
        self._calls += 1
        self._no_calls.clear()
        try:
            yield self._opened
        finally:
            self._calls -= 1
            if not self._calls:
                self._no_calls.set()

    # -- nodes and leases ----------------------------------------------------------------------

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for as long as it is renewed, or the store open."""
        with self._use() as opened:
            await opened.leases.reserve(owner, ttl_ms)

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now."""
        with self._use() as opened:
            renewed = await opened.leases.renew(owner, note, tuple(leases), ttl_ms)
            opened.compare()
            self._make_sure(opened, of_all=bool(renewed))
            return renewed

    def _make_sure(self, opened: _Opened, *, of_all: bool) -> None:
        """See to connections that are not in use, which keeps nobody waiting.

        A node that has shards may be given more at any moment, and has all; of nodes without there
        may be many, each within a worker.
        """
        if self._making_sure is None or self._making_sure.done():
            making_sure = opened.make_sure(of_all=of_all)
            self._making_sure = asyncio.get_running_loop().create_task(making_sure)

    async def withdraw(self, owner: str) -> None:
        """List a node no longer; its leases stay as they are."""
        with self._use() as opened:
            await opened.leases.withdraw(owner)

    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard."""
        with self._use() as opened:
            return await opened.leases.survey()

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid."""
        asked = set(shards)
        with self._use() as opened:
            return await opened.leases.claim(asked, owner, ttl_ms)

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once."""
        given = tuple(leases)
        with self._use() as opened:
            await opened.leases.release(given)

    # -- records -------------------------------------------------------------------------------

    async def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records."""
        with self._use() as opened:
            await opened.lanes.settled(shard)
        start, is_last = Start(shard, b""), False
        while not is_last:
            with self._use() as opened:
                rows, is_last = await opened.reading.read(start, chunk_records)
            if rows:
                yield self._checked(shard, rows)
                start = Start(shard, rows[-1]["place"] + b"\0")  # the next place that there can be

    def _checked(self, shard: int, rows: Iterable[Any]) -> list[KeptRecord]:
        chunk = []
        for _, place, rest, value, check in rows:
            key = key_of(place, rest)
            try:
                check_record(shard, key, value, check)
            except Damage as damage:
                raise StoreError(
                    f"{self.url} is damaged ({damage}): see whether another program writes to its"
                    " tables, and restore a backup of the database"
                ) from damage
            chunk.append((key, value))
        # Long keys that begin alike stand together, but in another order.
        chunk.sort()
        return chunk

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns."""
        with self._use() as opened:
            await asyncio.shield(opened.lanes.append(lease, records))

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        with self._use() as opened:
            statements = opened.statements

            async def work(session: Session) -> str:
                await session.execute(statements.propose(name, value))
                (row,) = await session.fetch(statements.agreement(), name)
                agreed = row["value"]
                assert isinstance(agreed, str)
                return agreed

            return await opened.work.run(work)


class _Sender:
    """What the lanes write with."""

    def __init__(
        self, statements: Statements, writers: Sequence[SharedLink], leases: LeaseTable
    ) -> None:
        self._statements = statements
        self._writers = writers
        self._leases = leases

    def size(self, key: bytes, value: bytes | None) -> int:
        """About how many characters a record takes in a statement."""
        return literal_size(key, value)

    async def write(self, lane: int, fences: Mapping[int, Fence], changes: Changes) -> bool:
        """Write to shards, all or none; return False if one of the fences has passed."""
        statement = self._statements.append(fences, changes)
        # Sent once only: what may be on its way must not be kept twice, or late.
        count = await self._writers[lane].run(
            lambda session: session.execute(statement), repeat=False
        )
        return count == len(fences)

    async def holder(self, shard: int) -> str:
        """How a shard is held now, for people."""
        return await self._leases.holder(shard)


class _Source:
    """What the readers read from."""

    def __init__(self, statements: Statements, links: Sequence[SharedLink]) -> None:
        self._statements = statements
        self._links = links

    async def read(self, reader: int, starts: Sequence[Start], limit: int) -> list[list[Any]]:
        """Read rows, for each start those from there on, in order, and so many at most."""
        query = self._statements.scan(starts, limit)
        found: list[list[Any]] = [[] for _ in starts]
        for row in await self._links[reader].run(lambda session: session.fetch(query)):
            found[row["number"] - 1].append(row)
        return found
