# noqa: INP001 - a script, not a package
"""Makes the tables of the store that `COTERIE_STORE` names, or brings them up to date."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from coterie_server.storage import StoreError, open_store

#: How long the database may take to start.
_TIMEOUT_S: Final = 120.0
_PAUSE_S: Final = 0.5


async def _open(url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.close()


async def main() -> int:
    """Return the exit status."""
    deadline = time.monotonic() + _TIMEOUT_S
    told = ""
    while True:
        try:
            await _open(os.environ["COTERIE_STORE"])
        except StoreError as error:
            if time.monotonic() > deadline:
                sys.stderr.write(f"The tables can't be made: {error}\n")
                return 1
            if str(error) != told:
                told = str(error)
                sys.stderr.write(f"Waiting: {told}\n")
            await asyncio.sleep(_PAUSE_S)
        else:
            sys.stdout.write("The tables are there.\n")
            return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
