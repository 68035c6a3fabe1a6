"""A watch of one group: the group in full whenever something of it changes, for all who watch it.

Heartbeats change nothing but when members were last heard of, so that is told by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

from coterie_server.group import Refusal
from coterie_server.http.streams import ALIVE_S, Broadcast, Streams, event
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from aiohttp import web

    from coterie_server.http.node_view import NodeView

__all__ = ["GroupViewWatch", "GroupViewWatches"]

_log = get_logger(__name__)

#: How long changes are gathered, and how long between two views at least.
_GATHER_S: Final = 0.02
_PAUSE_S: Final = 0.25
#: How often it is told when members were last heard of, and looked whose group it is.
_LOOK_S: Final = 2.0
#: How many members are looked at before other tasks get a turn.
_MEMBERS_AT_ONCE: Final = 1000
_ENTRIES_MAX: Final = 16
_BYTES_MAX: Final = 4_194_304

_dumps: Final = partial(json.dumps, separators=(",", ":"))

#: A group as JSON; None if there is none of that name.
InFull = Callable[[str], Awaitable[bytes | None]]


class _Told(NamedTuple):
    kind: str
    line: bytes


@final
class GroupViewWatch:
    """Follows one group for as long as there are watchers."""

    def __init__(self, view: NodeView, group_id: str, in_full: InFull) -> None:
        self._view = view
        self._group_id = group_id
        self._in_full = in_full
        self.changes: Final = Broadcast[_Told](_ENTRIES_MAX, _BYTES_MAX)
        self.watchers = 0
        #: The number of the last view, and the event that has it.
        self.latest: tuple[int, bytes] = (0, b"")
        self._seen = b""
        self._touched = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look at the group, and go on doing so; raises `Refusal` if there is none."""
        self._view.listeners.add(self._group_id, self._touched.set)
        try:
            await self._look()
        except BaseException:
            self._view.listeners.remove(self._group_id, self._touched.set)
            raise
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def stop(self, why: str) -> None:
        """End it; its watchers learn why."""
        self._view.listeners.remove(self._group_id, self._touched.set)
        if self._task is not None:
            self._task.cancel()
        self.changes.end(why)

    async def _look(self) -> None:
        self._touched.clear()
        body = await self._in_full(self._group_id)
        if body is None:
            raise Refusal("group_not_found", f"There is no group {self._group_id!r} here.")
        line = event("group", body)
        if line != self.latest[1]:
            self.changes.add(_Told("group", line), len(line))
            self.latest = self.changes.number, line
            await self.changes.wake()

    async def _follow(self) -> None:
        try:
            while not (why := self._why_ended()):
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._touched.wait()
                except TimeoutError:
                    await self._tell_seen()
                    continue
                await asyncio.sleep(_GATHER_S)
                await self._look()
                await asyncio.sleep(_PAUSE_S - _GATHER_S)
        except Refusal as refusal:
            why = str(refusal)
        except Exception:  # noqa: BLE001  # a bug, whatever it is: watchers come anew
            _log.exception("a watch of a group failed", group=self._group_id)
            why = "The watch failed because of a fault in the node; its log has the details."
        self.stop(why)

    def _why_ended(self) -> str:
        if self._view.elsewhere(self._group_id) is not None:
            return "Another node has the group now."
        return self._view.not_shown(self._group_id) or ""

    async def _tell_seen(self) -> None:
        group = self._view.find(self._group_id)
        if group is None:
            return
        seen: dict[str, int] = {}
        for count, member in enumerate(list(group.members.values()), start=1):
            seen[member.id] = self._view.date_of(member.last_seen_ms)
            if count % _MEMBERS_AT_ONCE == 0:
                await asyncio.sleep(0)
        line = event("seen", _dumps({"now_ms": self._view.date_ms(), "seen": seen}).encode())
        self.changes.add(_Told("seen", line), len(line))
        await self.changes.wake()


@final
class GroupViewWatches:
    """The watches of a node's groups, one for each group that is watched."""

    def __init__(self, view: NodeView, in_full: InFull) -> None:
        self._view = view
        self._in_full = in_full
        self._watches: dict[str, GroupViewWatch] = {}
        self._starting = asyncio.Lock()

    async def tell(
        self, request: web.Request, group_id: str, streams: Streams
    ) -> web.StreamResponse:
        """Send one watcher what there is to tell, until it goes; may raise `Refusal` before."""
        watch = await self._join(group_id)
        try:
            response = await streams.begin(request)
            now = _dumps({"now_ms": self._view.date_ms()}).encode()
            await response.write(event("begin", now))
            await _tell(watch, streams, response)
            return response
        finally:
            self._leave(group_id, watch)

    async def _join(self, group_id: str) -> GroupViewWatch:
        async with self._starting:
            watch = self._watches.get(group_id)
            if watch is None or watch.changes.ended:
                watch = GroupViewWatch(self._view, group_id, self._in_full)
                await watch.start()
                self._watches[group_id] = watch
            watch.watchers += 1
        return watch

    def _leave(self, group_id: str, watch: GroupViewWatch) -> None:
        watch.watchers -= 1
        if not watch.watchers:
            if self._watches.get(group_id) is watch:
                del self._watches[group_id]
            watch.stop("The watch is over.")

    def close(self) -> None:
        """End all watches."""
        for watch in self._watches.values():
            watch.stop("The node is stopping.")


async def _tell(watch: GroupViewWatch, streams: Streams, response: web.StreamResponse) -> None:
    changes = watch.changes
    place, line = watch.latest
    await response.write(line)
    while not changes.ended:
        missed = changes.after(place)
        if missed is None:
            place, line = watch.latest
            await response.write(line)
            # What came since is at most when members were heard of.
            place = max(place, changes.number)
            continue
        # The last of each kind says it all.
        last = {told.kind: told.line for _, told in missed}
        place = changes.number
        for each in last.values():
            await response.write(each)
        if not await changes.changed(place, ALIVE_S):
            await streams.say_alive(response)
    await streams.end(response, changes.ended)
