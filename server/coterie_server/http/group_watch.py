"""A watch of one group: the group in full whenever something of it changes, for all who watch it.

Heartbeats change nothing but when members were last heard of, so that is told by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple, final

from coterie_server.group import no_group
from coterie_server.http.following import Following
from coterie_server.http.streams import (
    ALIVE_S,
    Broadcast,
    Streams,
    event,
    event_of,
    write_in_pieces,
)

if TYPE_CHECKING:
    from aiohttp import web

    from coterie_server.http.node_view import NodeView

__all__ = ["GroupViewWatch", "tell_views"]

#: How long changes are gathered, and how long between two views at least.
_GATHER_S: Final = 0.02
_PAUSE_S: Final = 0.25
#: How often it is told when members were last heard of, and looked whose group it is.
_LOOK_S: Final = 2.0
#: How many members are looked at before other tasks get a turn.
_MEMBERS_AT_ONCE: Final = 1000
_ENTRIES_MAX: Final = 16
_BYTES_MAX: Final = 4_194_304

#: A group as JSON; None if there is none of that name.
InFull = Callable[[str], Awaitable[bytes | None]]


class _Told(NamedTuple):
    kind: str
    line: bytes


@final
class GroupViewWatch(Following):
    """Follows one group for as long as there are watchers."""

    what = "a group"

    def __init__(self, view: NodeView, group_id: str, in_full: InFull) -> None:
        self.changes: Final = Broadcast[_Told](_ENTRIES_MAX, _BYTES_MAX)
        super().__init__(view, group_id, self.changes)
        self._in_full = in_full
        #: The number of the last view, and the event that has it.
        self.latest: tuple[int, bytes] = (0, b"")

    async def _begin(self) -> None:
        await self._look()

    async def _look(self) -> None:
        self._touched.clear()
        body = await self._in_full(self._group_id)
        if body is None:
            raise no_group(self._group_id)
        line = event("group", body)
        if line != self.latest[1]:
            self.changes.add(_Told("group", line), len(line))
            self.latest = self.changes.number, line
            await self.changes.wake()

    async def _go_on(self) -> str:
        while not (why := self._why_gone()):
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._touched.wait()
            except TimeoutError:
                await self._tell_seen()
                continue
            await asyncio.sleep(_GATHER_S)
            await self._look()
            await asyncio.sleep(_PAUSE_S - _GATHER_S)
        return why

    async def _tell_seen(self) -> None:
        group = self._view.find(self._group_id)
        if group is None:
            return
        seen: dict[str, int] = {}
        for count, member in enumerate(list(group.members.values()), start=1):
            seen[member.id] = self._view.date_of(member.last_seen_ms)
            if count % _MEMBERS_AT_ONCE == 0:
                await asyncio.sleep(0)
        line = event_of("seen", {"now_ms": self._view.date_ms(), "seen": seen})
        self.changes.add(_Told("seen", line), len(line))
        await self.changes.wake()


async def tell_views(watch: GroupViewWatch, streams: Streams, response: web.StreamResponse) -> None:
    """Send one watcher what there is to tell, until it goes."""
    changes = watch.changes
    place, line = watch.latest
    await write_in_pieces(response, line)
    while not changes.ended:
        missed = changes.after(place)
        if missed is None:
            # What came after the last view, up to now, is at most when members were heard of.
            place = changes.number
            await write_in_pieces(response, watch.latest[1])
            continue
        # The last of each kind says it all.
        last = {told.kind: told.line for _, told in missed}
        place = changes.number
        for each in last.values():
            await write_in_pieces(response, each)
        if not await changes.changed(place, ALIVE_S):
            await streams.say_alive(response)
    await streams.end(response, changes.ended)
