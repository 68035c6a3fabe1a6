"""A store in several SQLite files, so that processes that write to different shards don't wait.

SQLite lets one process at a time write to a file, and keeps the others waiting until that is on
the disk.  So the main file has what all nodes share: who is there, what they agree on, and the
catalogue of topics, whose shard has a negative number.  Each of the others has the records and the
leases of some shards: an append and its fence are checked in one transaction.

How many files there are is agreed on in the main file.  One means that it holds everything, as it
did before stores were divided.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from coterie_server.storage.abc import (
    CHUNK_RECORDS,
    KeptRecord,
    Lease,
    Record,
    Store,
    StoreError,
    Survey,
    wall_ms,
)
from coterie_server.storage.schema import Connect
from coterie_server.storage.sqlite import SqliteStore

__all__ = ["PART", "DividedStore", "not_its_part", "part_name", "part_path", "parts_there"]

T = TypeVar("T")

#: The name under which a part keeps which one it is.
PART: Final = "part"


def part_path(path: Path, number: int, files: int) -> Path:
    """The path of a part, beside the main file itself if that is reached by a link."""
    main = path.resolve()
    return main.with_name(f"{main.stem}-{number + 1}-of-{files}{main.suffix}")


def part_name(number: int) -> str:
    """The name under which the main file keeps which part belongs to it."""
    return f"{PART} {number}"


def not_its_part(part: str, store: str) -> StoreError:
    """What is said of a file that stands where a part of a store should."""
    return StoreError(
        f"{part} is not the file that belongs to {store}: put the right one back; or, if what it"
        " held may be lost, start `coterie serve` once with --accept-data-loss. The documentation"
        ' says more under "Recover a store"'
    )


def _lacks_main(path: Path, parts: int) -> StoreError:
    """What is said where there are only the parts of a store, and no mark tells of more."""
    return StoreError(
        f"{path} is gone, with the topics, users and ACLs, and {part_path(path, 0, parts)} is"
        " there: put the right one back; or, if what it held may be lost, start `coterie serve`"
        ' once with --accept-data-loss. The documentation says more under "Recover a store"'
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def parts_there(path: Path) -> int:
    """Of how many parts there is the first one; 0 if there is none."""
    main = path.resolve()
    pattern = re.compile(rf"{re.escape(main.stem)}-1-of-(\d+){re.escape(main.suffix)}")
    names = (each.name for each in main.parent.glob(f"{main.stem}-1-of-*"))
    return max((int(found[1]) for name in names if (found := pattern.fullmatch(name))), default=0)


class DividedStore(Store):
    """A store in one main file and, if it is divided, some more.

    A new one is begun with `files` files, unless it `must_exist`; one that exists keeps the number
    that it has.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        files: int = 1,
        accept_loss: bool = False,
        is_shared: bool = False,
        must_exist: bool = False,
        connect: Connect = sqlite3.connect,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self.is_shared = is_shared
        self._path = Path(path).absolute()
        self._wanted = files
        self._accept_loss = accept_loss
        self._must_exist = must_exist
        self._connect = connect
        self._now_ms = now_ms
        self._main = self._make(self._path)
        self._parts: list[SqliteStore] = []

    def _make(self, file: Path) -> SqliteStore:
        return SqliteStore(
            file, connect=self._connect, accept_loss=self._accept_loss, now_ms=self._now_ms
        )

    @property
    def url(self) -> str:
        """What the store is, for logs."""
        return self._main.url

    @property
    def files(self) -> int:
        """Over how many files the shards are spread, by their numbers."""
        return max(len(self._parts), 1)

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open all files, which are created if need be."""
        if self._must_exist and not self._path.exists():
            raise StoreError(
                f"{self._path} is gone, and another store can't be begun while other nodes have"
                " the one that was there. Stop all of them, and see how to recover a store in the"
                " documentation"
            )
        # Where only the main file was lost, what the others hold is still to be found.
        left = 0 if _has_content(self._path) else parts_there(self._path)
        if left and not self._accept_loss:
            raise _lacks_main(self._path, left)
        await self._main.open()
        try:
            files = await self._main.agree_on_files(left or self._wanted)
            if files > 1 and not self._parts:
                await self._open_parts(files)
        except BaseException:
            await self.close()
            raise

    async def _open_parts(self, files: int) -> None:
        for number in range(files):
            part = self._make(part_path(self._path, number, files))
            self._parts.append(part)
            await part.open()
            await self._check(number, part)

    async def _check(self, number: int, part: SqliteStore) -> None:
        """Refuse a part that is not the one which was last used here."""
        found = await part.agree(PART, uuid.uuid4().hex)
        known = await self._main.agree(part_name(number), found)
        if found == known:
            return
        if not self._accept_loss:
            raise not_its_part(part.url, self.url)
        await self._main.replace_agreed(part_name(number), found)

    async def close(self) -> None:
        """Finish what was begun and close all files."""
        for part in self._parts:
            await part.close()
        await self._main.close()
        self._parts = []

    async def accept_loss(self) -> None:
        """Begin all marks anew at what the store holds."""
        await asyncio.gather(*(each.accept_loss() for each in (self._main, *self._parts)))

    def way_givers(self) -> Sequence[Callable[[], None]]:
        """What lets the threads that write go on."""
        return [giver for each in self._parts or (self._main,) for giver in each.way_givers()]

    # -- nodes ---------------------------------------------------------------------------------

    async def reserve(self, owner: str, ttl_ms: int) -> None:
        """Reserve a name for this process for as long as the store is open.

        Nobody divides the store from then on, but somebody may have since it was opened.
        """
        await self._main.reserve(owner, ttl_ms)
        if (files := await self._main.count_files()) != self.files:
            raise StoreError(
                f"{self.url} was divided into {files} files while this node opened it: start the"
                " node again"
            )

    async def renew(
        self, owner: str, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> list[Lease]:
        """Keep a node listed and its leases held for `ttl_ms` from now."""
        by_file = self._by_file(leases, lambda lease: lease.shard)
        own = by_file.pop(self._main, [])
        renewed = await asyncio.gather(
            self._main.renew(owner, note, own, ttl_ms),
            *(file.extend(owner, its, ttl_ms) for file, its in by_file.items()),
        )
        return [lease for some in renewed for lease in some]

    async def withdraw(self, owner: str) -> None:
        """List a node no longer."""
        await self._main.withdraw(owner)

    async def survey(self) -> Survey:
        """Return who uses the store, and who has which shard."""
        main, *rest = await asyncio.gather(*(each.survey() for each in (self._main, *self._parts)))
        leases = [*main.leases, *(lease for part in rest for lease in part.leases)]
        return Survey(main.nodes, tuple(sorted(leases, key=lambda lease: lease.shard)))

    # -- leases --------------------------------------------------------------------------------

    async def claim(self, shards: Iterable[int], owner: str, ttl_ms: int) -> list[Lease]:
        """Take shards for `ttl_ms`, but those on which another owner's lease is valid."""
        by_file = self._by_file(shards, lambda shard: shard)
        claimed = await asyncio.gather(
            *(file.claim(its, owner, ttl_ms) for file, its in by_file.items())
        )
        return [lease for some in claimed for lease in some]

    async def release(self, leases: Iterable[Lease]) -> None:
        """Give shards up, so that any node can claim them at once."""
        by_file = self._by_file(leases, lambda lease: lease.shard)
        await asyncio.gather(*(file.release(its) for file, its in by_file.items()))

    def _by_file(
        self, items: Iterable[T], shard_of: Callable[[T], int]
    ) -> dict[SqliteStore, list[T]]:
        found: dict[SqliteStore, list[T]] = {}
        for item in items:
            found.setdefault(self._file_of(shard_of(item)), []).append(item)
        return found

    # -- records -------------------------------------------------------------------------------

    def _file_of(self, shard: int) -> SqliteStore:
        if shard < 0 or not self._parts:
            return self._main
        return self._parts[shard % len(self._parts)]

    async def scan(
        self, shard: int, chunk_records: int = CHUNK_RECORDS
    ) -> AsyncIterator[list[KeptRecord]]:
        """Yield what a shard holds, in key order, in chunks of at most that many records."""
        async for chunk in self._file_of(shard).scan(shard, chunk_records):
            yield chunk

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Keep records, all of them or none; they are durable when it returns."""
        await self._file_of(lease.shard).append(lease, records)

    async def agree(self, name: str, value: str) -> str:
        """Return the value stored under a name, which is the first that was proposed."""
        return await self._main.agree(name, value)
