"""Going on with fewer connections than are wanted, where no more can be made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from coterie_server.log.logger import get_logger
from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.errors import UnreachedError, is_full
from coterie_server.storage.postgres.link import Link
from coterie_server.storage.postgres.session import Session

__all__ = ["SharedLink", "Shortage"]

T = TypeVar("T")

#: For how long calls go by the other link before a connection of their own is tried again.
_SHARED_S: Final = 10.0
#: For how long to try one's own while the other has one, which may not be let in any more either:
#: a password may have changed, or a firewall.
_OWN_S: Final = 1.0

_log = get_logger(__name__)


class Shortage:
    """Says once that connections are shared, and once that they are not any more."""

    def __init__(self) -> None:
        self._lacking: set[Link] = set()

    def begins(self, link: Link, why: StoreError) -> None:
        """A link has no connection."""
        if not self._still_lacking():
            _log.warning("connections are shared, as some can't be made", why=str(why))
        self._lacking.add(link)

    def look(self) -> None:
        """See whether all links have one by now."""
        if self._lacking and not self._still_lacking():
            _log.info("connections are shared no more")

    def _still_lacking(self) -> set[Link]:
        self._lacking = {link for link in self._lacking if not link.is_open}
        return self._lacking


class SharedLink:
    """A link whose calls go by another one while it can't be connected, as the server is full, say.

    A node that serves slowly is better than one that has shards and can't serve them.
    """

    def __init__(self, link: Link, spare: Link, shortage: Shortage) -> None:
        self._link, self._spare = link, spare
        self._shortage = shortage
        self._shared_until = 0.0

    async def run(self, work: Callable[[Session], Awaitable[T]], *, repeat: bool = True) -> T:
        """Do some work as `Link.run` does; nothing was sent where there was no connection."""
        time_s = asyncio.get_running_loop().time
        if self._link.is_open or time_s() >= self._shared_until:
            connect_s = _OWN_S if self._spare.is_open else None
            try:
                result = await self._link.run(work, repeat=repeat, connect_s=connect_s)
            except UnreachedError as error:
                if not (self._spare.is_open or is_full(error)):
                    raise
                self._shared_until = time_s() + _SHARED_S
                self._shortage.begins(self._link, error)
            else:
                self._shortage.look()
                return result
        return await self._spare.run(work, repeat=repeat)
