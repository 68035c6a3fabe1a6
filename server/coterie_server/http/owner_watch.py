"""Watches of who owns what: each change once for all that watch a group, in order, with a number.

A watch has the present table of a group and the last changes.  Each watcher has its own place in
them and no buffer: one that is too slow, or that comes back too late, finds that changes are
missing, and gets the whole table instead.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final, final

from coterie_server.group import no_group
from coterie_server.group.owners import Ownerships
from coterie_server.http.following import Following, Followings
from coterie_server.http.ownership_json import head_of, pieces_of
from coterie_server.http.streams import Broadcast

if TYPE_CHECKING:
    from coterie_server.http.node_view import NodeView

__all__ = ["GroupWatch", "owner_watches"]

#: How many changes a watch keeps, and how many bytes of them.
_CHANGES_MAX: Final = 256
_CHANGES_BYTES_MAX: Final = 4_194_304
_DIGITS_MAX: Final = 18
#: How long changes are gathered: a rebalance is many small steps.
_GATHER_S: Final = 0.01
#: How often a watch looks whether it is still this node that has the group.
_LOOK_S: Final = 1.0
#: How long changes are kept for watchers that come back.
_LINGER_S: Final = 60.0
#: How many groups may be kept in mind that are not watched at present.
_LINGERING_MAX: Final = 1000


@final
class GroupWatch(Following):
    """Who owns what in one group, and what has changed of late."""

    what = "owners"

    def __init__(self, view: NodeView, group_id: str) -> None:
        self.changes: Final = Broadcast[bytes](_CHANGES_MAX, _CHANGES_BYTES_MAX)
        super().__init__(view, group_id, self.changes)
        #: No two watches have the same: numbers of another node, or of another life of this one,
        #: are never taken for this one's.
        self.epoch: Final = secrets.token_hex(8)
        self.table = Ownerships(0, "", {}, {})
        self._snapshot: tuple[int, list[bytes]] = (-1, [])
        self._encoding = asyncio.Lock()

    async def _begin(self) -> None:
        self.table = await self._look()

    # -- for watchers --------------------------------------------------------------------------

    def place_of(self, event_id: str) -> int | None:
        """After which change a watcher goes on that has seen this one; None if it can't."""
        epoch, _, number = event_id.partition(".")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX
        if epoch != self.epoch or not is_number or not self.changes.has_all_after(int(number)):
            return None
        return int(number)

    async def snapshot(self) -> tuple[int, list[bytes]]:
        """The number of the last change, and the table after it, as the rest of an object."""
        async with self._encoding:
            number, table = self.changes.number, self.table
            if self._snapshot[0] != number:
                head = head_of(self._group_id, table)
                pieces = [each async for each in pieces_of(head, table.partitions.items())]
                self._snapshot = (number, pieces)
            return self._snapshot

    # -- following -----------------------------------------------------------------------------

    async def _look(self) -> Ownerships:
        self._touched.clear()
        found = await self._view.ownerships(self._group_id)
        if found is None:
            raise no_group(self._group_id)
        await self._view.confirm(self._group_id)
        return found

    async def _go_on(self) -> str:
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._touched.wait()
                await asyncio.sleep(_GATHER_S)
            except TimeoutError:
                if not self._why_gone() and not self._have_topics_changed():
                    continue
            if why := self._why_gone():
                return why
            await self._publish(await self._look())

    def _have_topics_changed(self) -> bool:
        sizes = self._view.topics
        return any(sizes.get(topic, 0) > size for topic, size in self.table.topics.items())

    async def _publish(self, found: Ownerships) -> None:
        before = self.table
        if found == before:
            return
        changed = [
            (partition, ownership)
            for partition, ownership in found.partitions.items()
            if before.partitions.get(partition) != ownership
        ]
        gone = [each for each in before.partitions if each not in found.partitions]
        head: dict[str, Any] = {**head_of(self._group_id, found), "gone": gone}
        body = b"".join([each async for each in pieces_of(head, changed)])
        number = self.changes.number + 1
        event = b"id: %s.%d\nevent: change\ndata: %s\n\n" % (self.epoch.encode(), number, body)
        self.table = found
        self.changes.add(event, len(event))
        await self.changes.wake()


def owner_watches(view: NodeView) -> Followings[GroupWatch]:
    """The watches of a node's groups; changes are kept a while for watchers that come back."""
    return Followings(
        lambda group_id: GroupWatch(view, group_id), linger_s=_LINGER_S, most=_LINGERING_MAX
    )
