"""Where groups are kept: one contract, several stores."""

from __future__ import annotations

import re
from pathlib import Path

from coterie_server.storage.abc import (
    FencedError,
    KeptRecord,
    Lease,
    OwnerTakenError,
    Record,
    Store,
    StoreError,
)
from coterie_server.storage.memory import MemoryStore
from coterie_server.storage.sqlite import SqliteStore

__all__ = [
    "FencedError",
    "KeptRecord",
    "Lease",
    "MemoryStore",
    "OwnerTakenError",
    "Record",
    "SqliteStore",
    "Store",
    "StoreError",
    "open_store",
]

FILE_NAME = "coterie.db"

# At least two letters: one and a colon is a drive.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.DOTALL)


def open_store(url: str, *, accept_loss: bool = False) -> Store:
    """Return the store that a URL names, to be opened by its user.

    It refuses to open when it is behind what was acknowledged, unless that loss is accepted.

    `memory:` is a new one in the process, `sqlite:PATH` a file. Anything without such a beginning
    is a path: of a file if it is one or ends in `.db`, else of a data directory, in which the store
    is `coterie.db`.
    """
    named = _SCHEME.fullmatch(url)
    if named is None:
        path = Path(url)
        is_file = path.suffix == ".db" or path.is_file()
        return SqliteStore(path if is_file else path / FILE_NAME, accept_loss=accept_loss)
    scheme, rest = named.groups()
    if scheme == "memory" and rest in ("", "//"):
        return MemoryStore()
    if scheme == "sqlite" and rest not in ("", ":memory:"):
        return SqliteStore(rest, accept_loss=accept_loss)
    raise StoreError(
        f"{url} names no store: expected memory:, sqlite:PATH or the path of a data directory"
    )
