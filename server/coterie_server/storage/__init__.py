"""Where groups and topics are kept: one contract (`abc.py`), several stores.

What follows is about the store that is used by default, in a SQLite file; `postgres/__init__.py`
says how the one works that several nodes share.

How a commit becomes bytes on disk
----------------------------------

1. The core answers an OffsetCommit with a row for all of its partitions: offsets that were
   committed together share a record, so the next commit of the same partitions writes one
   (`group/offset_table.py`).  Rows of groups, members and topics are a record each, and the bytes
   of all rows are the business of the core that owns them (`group/records.py`,
   `topics/records.py`).
2. The shard's queue calls `Store.append` with its lease and the records.  Every claim of a shard
   raises its fence, and an append under an older one is refused: a node that lost a shard without
   noticing can't write to it.
3. `SqliteStore` hands the call to a thread (`writer_thread.py`).  All calls that wait when the
   thread looks become one `Transaction`, with one fsync.  Its first statement takes the right to
   write, increments the store's transaction counter and reads the epochs.  Each record is written
   with a checksum over its shard, key and value.
4. After the commit, and before it is acknowledged, the `Guard` looks whether the files are still
   the ones that were opened, and the `Mark`, a small file beside the store, gets the counter.
5. The callers' futures are done, and only then do replies leave the node.

How a loss is noticed
---------------------

SQLite takes a damaged log for one that ends there, and goes on with a file that was deleted.

- At the start, a store whose counter is behind its mark has lost transactions, and a store with
  another identity is another one; either is refused (`schema.py`).  So is a damaged page, found by
  SQLite's own check.
- A wrong checksum is found when a shard is read.
- While it runs, the guard looks at the files before each transaction, and again when it is over,
  whether or not it succeeded.  If another program wrote to one between two transactions, it reads a
  copy with a fresh connection, and compares what that finds with the counter.
- `--accept-data-loss` opens the store all the same and gives it a new identity.  The mark follows
  only when the node calls `accept_loss`: until then the loss is noticed at every start.

One user at a time
------------------

A `FileLock` (`lock.py`) belongs to one process and is released by its end, however it comes.  One
keeps a second daemon out of a data directory; another keeps a second process from using a node's
name in a store.  So a node that starts may claim its own shards at once: no other process can still
write under their former leases.

Several processes may use a file at the same time.  SQLite lets one of them write at a time, and the
others look every few milliseconds whether it is their turn (`busy.py`).  They share the mark: each
writes the number of its own transaction, and the highest counts.

Still, processes that write to one file wait for each other's fsyncs.  So a store that several
workers use is divided (`divided.py`): `coterie.db` keeps what all have in common, and each of the
other files the records and leases of some shards, with a mark and checks of its own.

A file of an earlier schema version is brought up to date when it is opened, in one transaction; one
of a later version is refused and left as it is (`schema.py`).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from coterie_server.storage.abc import (
    Fence,
    FencedError,
    KeptRecord,
    Lease,
    NodeEntry,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
    Survey,
)
from coterie_server.storage.divided import DividedStore, parts_there
from coterie_server.storage.memory import MemoryStore
from coterie_server.storage.sqlite import SqliteStore
from coterie_server.storage.urls import without_password

__all__ = [
    "FILE_NAME",
    "DividedStore",
    "Fence",
    "FencedError",
    "KeptRecord",
    "Lease",
    "MemoryStore",
    "NodeEntry",
    "OwnerTakenError",
    "Record",
    "SqliteStore",
    "Store",
    "StoreError",
    "Survey",
    "count_parts",
    "open_store",
]

FILE_NAME = "coterie.db"

# At least two letters: a single one and a colon is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)

#: By scheme, how a store of that kind is named.
_DATABASE = "postgresql://USER@HOST/DATABASE"
_SCHEMES = {
    "memory": "memory:",
    "sqlite": "sqlite:PATH",
    "postgresql": _DATABASE,
    "postgres": _DATABASE,
}
#: How much a word has to look like one of them to be meant for it: all but a letter or two.
_ALIKE = 0.8


def open_store(
    url: str,
    *,
    accept_loss: bool = False,
    is_shared: bool = False,
    files: int = 1,
    must_exist: bool = False,
) -> Store:
    """Return the store that a URL names, not yet opened.

    `memory:` is a new store in memory, `sqlite:PATH` a file, and `postgresql://...` a database that
    several nodes may share.  Anything else is a path: of a file if it is one or ends in `.db`,
    otherwise of a data directory, in which the store is `coterie.db`.  A new one whose name looks
    like the beginning of a URL is refused: it is hardly meant.

    A store that lost something that was acknowledged refuses to open, unless `accept_loss` is set.
    `is_shared` says that other nodes may use it as well, as they may a file that is named as
    `sqlite:PATH`.  A new store of files is divided into that many `files`; with `must_exist`, none
    is begun.
    """
    divided = partial(DividedStore, files=files, accept_loss=accept_loss, must_exist=must_exist)
    named = _SCHEME.fullmatch(url)
    if named is None:
        _refuse_mistyped(url)
        return divided(_file_at(Path(url)), is_shared=is_shared)
    scheme, rest = named.groups()
    if scheme == "memory" and rest in ("", "//"):
        return MemoryStore()
    if scheme == "sqlite" and rest not in ("", ":memory:"):
        return divided(Path(rest), is_shared=True)
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        # It needs an extra.
        from coterie_server.storage.postgres import PostgresStore  # noqa: PLC0415

        return PostgresStore(url)
    raise StoreError(
        f"{without_password(url)} is not a store: expected memory:, sqlite:PATH,"
        f" {_DATABASE} or the path of a data directory"
    )


def count_parts(url: str) -> int:
    """Into how many files the store that a URL names is divided; 0 if it is not."""
    named = _SCHEME.fullmatch(url)
    if named is None:
        return parts_there(_file_at(Path(url)))
    scheme, rest = named.groups()
    return parts_there(Path(rest)) if scheme == "sqlite" else 0


def _file_at(path: Path) -> Path:
    return path if path.suffix == ".db" or path.is_file() else path / FILE_NAME


def _refuse_mistyped(path: str) -> None:
    """Raise `StoreError` of a path that is probably a URL with a mistake in it."""
    word = path.partition("/")[0].lower()
    near = get_close_matches(word, _SCHEMES, n=1, cutoff=_ALIKE)
    if path in _SCHEMES or (near and not Path(path).exists()):
        expected = _SCHEMES[near[0]]
        raise StoreError(
            f"{_without_login(path)} is not a store: expected {expected}, with the colon;"
            f" a directory of that name is ./{word}"
        )


def _without_login(path: str) -> str:
    """A mistyped URL as it may be logged: a password may stand before the last @."""
    before, at, place = path.rpartition("@")
    return f"{before.partition('/')[0]}...@{place}" if at else path
