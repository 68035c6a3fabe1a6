"""A watch of the list of groups: the line of each group that changes, at most once a second.

It costs a node nothing while no client watches, and one line for each group that has changed,
however many watch: they all get the same bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, final

from coterie_server.group import Refusal
from coterie_server.http.following import FAILED
from coterie_server.http.streams import Broadcast, event, event_of
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from coterie_server.http.groups import KnownGroups, PageQuery
    from coterie_server.http.node_view import NodeView

__all__ = ["ChangedLine", "ListWatch", "ListWatches"]

_log = get_logger(__name__)

#: How long changes are gathered at first, and how long between two lines of one group at least.
_GATHER_S: Final = 0.05
_PAUSE_S: Final = 1.0
#: How often a watch looks whether its groups are still this node's, and the others' with nodes that
#: its watchers hear of.
_LOOK_S: Final = 1.0
#: How many lines are made before other tasks get a turn; that takes a millisecond or two.
_LINES_AT_ONCE: Final = 100
#: How much is kept for watchers that read slowly.
_PIECES_MAX: Final = 2048
_BYTES_MAX: Final = 4_194_304


class ChangedLine(NamedTuple):
    """What is told of one group."""

    group: str
    #: Its state; empty if it is gone.
    state: str
    #: The event.
    line: bytes

    def told(self, query: PageQuery) -> bytes:
        """The event for one watcher; nothing if the group is none of those that it asks for."""
        if not query.names(self.group):
            return b""
        if self.state and query.states and self.state not in query.states:
            return _gone(self.group)
        return self.line


def _gone(group_id: str) -> bytes:
    return event_of("gone", {"group": group_id})


@final
class ListWatch:
    """Follows the groups of a node for as long as there are watchers."""

    def __init__(self, view: NodeView, groups: KnownGroups) -> None:
        self._view = view
        self._groups = groups
        self.changes: Final = Broadcast[list[ChangedLine]](_PIECES_MAX, _BYTES_MAX)
        self.watchers = 0
        #: The groups of which something may have become, in the order in which it did.
        self._touched: dict[str, None] = {}
        self._wake = asyncio.Event()
        #: What was told last, to tell nothing twice; as hashes, as there may be many groups.
        self._told: dict[str, int] = {}
        self._lives, self._nodes = view.own_lives(), self._other_nodes()
        view.listeners.add_to_all(self._touch)
        #: None when it has ended: an ended task leads back here.
        self._task: asyncio.Task[None] | None
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def stop(self, why: str) -> None:
        """End it; its watchers learn why."""
        self._view.listeners.remove_from_all(self._touch)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self.changes.end(why)

    def _other_nodes(self) -> frozenset[int]:
        return frozenset(each.node_id for each in self._view.others())

    def _touch(self, group_id: str) -> None:
        if self._groups.find(group_id) is None:
            # It may come again as it was, and new watchers may have seen the list without it.
            self._told.pop(group_id, None)
        self._touched[group_id] = None
        self._wake.set()

    async def _follow(self) -> None:
        try:
            while not (why := self._why_over()):
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._wake.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(_GATHER_S)
                if self._why_over():
                    continue  # or groups that are another node's now would be told as gone
                await self._tell()
                await asyncio.sleep(_PAUSE_S - _GATHER_S)
        except Refusal as refusal:
            why = str(refusal)
        except Exception:  # noqa: BLE001  # a bug, whatever it is: watchers come anew
            _log.exception("a watch of the groups failed")
            why = FAILED
        self.stop(why)

    def _why_over(self) -> str:
        """Why this may not be all that is to be told any more; empty if it is."""
        if self._lives != self._view.own_lives():
            return "Groups have come from another node or gone to one; ask again."
        if not self._other_nodes() <= self._nodes:
            return "A node has come, and may have groups; ask again."
        return ""

    async def _tell(self) -> None:
        touched, self._touched = list(self._touched), {}
        self._wake.clear()
        for begin in range(0, len(touched), _LINES_AT_ONCE):
            lines = [self._line(name) for name in touched[begin : begin + _LINES_AT_ONCE]]
            news = [line for line in lines if line is not None]
            await self._view.confirm_all()
            if news:
                self.changes.add(news, sum(len(each.line) for each in news))
                await self.changes.wake()
            await asyncio.sleep(0)

    def _line(self, name: str) -> ChangedLine | None:
        group = self._groups.find(name)
        if group is None:
            self._told.pop(name, None)
            return ChangedLine(name, "", _gone(name))
        summary = self._groups.summary(group)
        line = event("group", summary.json().encode())
        if self._told.get(name) == hash(line):
            return None
        self._told[name] = hash(line)
        return ChangedLine(name, summary.state, line)


@final
class ListWatches:
    """The one watch of a node's list, while it has watchers."""

    def __init__(self, view: NodeView, groups: KnownGroups) -> None:
        self._view = view
        self._groups = groups
        self._watch: ListWatch | None = None

    def join(self) -> ListWatch:
        """Watch the list, until `leave`."""
        watch = self._watch
        if watch is None or watch.changes.ended:
            watch = self._watch = ListWatch(self._view, self._groups)
        watch.watchers += 1
        return watch

    def leave(self, watch: ListWatch) -> None:
        """Watch it no longer."""
        watch.watchers -= 1
        if not watch.watchers and watch is self._watch:
            self._watch = None
            watch.stop("The watch is over.")

    def close(self) -> None:
        """End the watch."""
        if self._watch is not None:
            self._watch.stop("The node is stopping.")
