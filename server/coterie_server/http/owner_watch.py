"""Watches of who owns what: each change once for all that watch a group, in order, with a number.

A watch has the present table of a group and the last changes.  Each watcher has its own place in
them and no buffer: one that is too slow, or that comes back too late, finds that changes are
missing, and gets the whole table instead.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final, final

from coterie_server.group import Refusal
from coterie_server.group.owners import Ownerships
from coterie_server.http.ownership_json import head_of, pieces_of
from coterie_server.http.streams import Broadcast
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_server.http.node_view import NodeView

__all__ = ["GroupWatch", "OwnerWatches", "WatchEndedError"]

_log = get_logger(__name__)

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


class WatchEndedError(Exception):
    """A watch goes on no longer; the text is a sentence."""


@final
class GroupWatch:
    """Who owns what in one group, and what has changed of late."""

    def __init__(self, view: NodeView, group_id: str, why_ended: Callable[[str], str]) -> None:
        self._view = view
        self._group_id = group_id
        self._why_ended = why_ended
        #: No two watches have the same: numbers of another node, or of another life of this one,
        #: are never taken for this one's.
        self.epoch: Final = secrets.token_hex(8)
        self.watchers = 0
        self.table = Ownerships(0, "", {}, {})
        self.changes: Final = Broadcast[bytes](_CHANGES_MAX, _CHANGES_BYTES_MAX)
        self._touched = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._snapshot: tuple[int, list[bytes]] = (-1, [])
        self._encoding = asyncio.Lock()

    async def start(self) -> None:
        """Look at the group, and go on doing so; raises what `NodeView.ownerships` raises."""
        self._view.listeners.add(self._group_id, self._touched.set)
        try:
            found = await self._look()
        except BaseException:
            self._view.listeners.remove(self._group_id, self._touched.set)
            raise
        self.table = found
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def stop(self, why: str) -> None:
        """End it; its watchers learn why."""
        self._view.listeners.remove(self._group_id, self._touched.set)
        if self._task is not None:
            self._task.cancel()
        self.changes.end(why)

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
            raise Refusal("group_not_found", f"There is no group {self._group_id!r} here.")
        return found

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._touched.wait()
                    await asyncio.sleep(_GATHER_S)
                except TimeoutError:
                    if not self._why_ended(self._group_id) and not self._have_topics_changed():
                        continue
                if why := self._why_ended(self._group_id):
                    break
                await self._publish(await self._look())
        except Refusal as refusal:
            why = str(refusal)
        except Exception:  # noqa: BLE001  # a bug, whatever it is: watchers come anew
            _log.exception("a watch of owners failed", group=self._group_id)
            why = "The watch failed because of a fault in the node; its log has the details."
        self.stop(why)

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


@final
class OwnerWatches:
    """The watches of a node's groups, one for each group that is watched."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._watches: dict[str, GroupWatch] = {}
        self._starting = asyncio.Lock()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def join(self, group_id: str) -> GroupWatch:
        """Watch a group, until `leave`; raises `Refusal` if that can't be done."""
        async with self._starting:
            watch = self._watches.get(group_id)
            if watch is None or watch.changes.ended:
                watch = GroupWatch(self._view, group_id, self._why_ended)
                await watch.start()
                self._watches[group_id] = watch
        watch.watchers += 1
        if timer := self._timers.pop(group_id, None):
            timer.cancel()
        return watch

    def leave(self, group_id: str, watch: GroupWatch) -> None:
        """Watch a group no longer; its changes are kept a while for those that come back."""
        watch.watchers -= 1
        if watch.watchers or self._watches.get(group_id) is not watch:
            return
        if watch.changes.ended or len(self._timers) >= _LINGERING_MAX:
            self._end(group_id)
            return
        loop = asyncio.get_running_loop()
        self._timers[group_id] = loop.call_later(_LINGER_S, self._end, group_id)

    async def close(self) -> None:
        """End all watches."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for group_id in list(self._watches):
            self._watches.pop(group_id).stop("The node is stopping.")

    def _end(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        if watch := self._watches.pop(group_id, None):
            watch.stop("The watch is over.")

    def _why_ended(self, group_id: str) -> str:
        view = self._view
        if view.elsewhere(group_id) is not None:
            return "Another node has the group now."
        return view.not_shown(group_id) or ""
