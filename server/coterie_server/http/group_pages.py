"""One group over HTTP: as it is, as it changes, its committed offsets, and what it is to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from aiohttp import web

from coterie_server.group import no_group
from coterie_server.history import Beginning, HistoryLimit, rebalance_json
from coterie_server.http.answers import json_body
from coterie_server.http.following import Followings
from coterie_server.http.group_watch import GroupViewWatch, tell_views
from coterie_server.http.groups import group_in_full, offsets_in_full

if TYPE_CHECKING:
    from coterie_server.backfill import Backfill
    from coterie_server.http.elsewhere import Elsewhere
    from coterie_server.http.node_view import NodeView
    from coterie_server.http.streams import Streams

__all__ = ["GroupPages"]


@final
class GroupPages:
    """Shows groups."""

    def __init__(
        self,
        node: NodeView,
        elsewhere: Elsewhere,
        streams: Streams,
        backfill: Backfill,
        one_at_a_time: asyncio.Lock,
    ) -> None:
        self._node = node
        self._elsewhere = elsewhere
        self._streams = streams
        self._backfill = backfill
        self._history = backfill.history
        self._one_at_a_time = one_at_a_time
        self._watches = Followings(lambda name: GroupViewWatch(node, name, self._in_full))

    async def close(self, _app: web.Application) -> None:
        """End all watches, so that their clients turn to other nodes."""
        self._watches.close()

    async def group(self, request: web.Request) -> web.Response:
        """Show a group and its last rebalances."""
        self._node.require_open()
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        shown = await self._in_full(group_id)
        if shown is None:
            raise no_group(group_id)
        return json_body(shown)

    async def _in_full(self, group_id: str) -> bytes | None:
        """A group of this node; None if there is none of that name."""
        group = self._node.find(group_id)
        if group is None:
            return None
        taken_over_ms = self._node.taken_over_ms(group_id)
        if taken_over_ms is None:
            beginning = await self._backfill.look_up(group_id, group.generation)
        else:  # what this node knows from before that has gaps
            beginning = Beginning(taken_over_ms, HistoryLimit.TAKEN_OVER)
        async with self._one_at_a_time:
            shown = await self._show(group_id, beginning)
        await self._node.confirm(group_id)
        return shown

    async def _show(self, group_id: str, beginning: Beginning) -> bytes | None:
        group = await self._node.group(group_id)
        if group is None:
            return None
        running = self._history.running(group_id)
        more = {
            "node": self._node.node_id,
            "shard": self._node.shard_of(group_id),
            "rebalance": None if running is None else rebalance_json(running),
            "rebalances": [
                rebalance_json(each)
                for each in self._history.last(group_id)
                if beginning.limit is not HistoryLimit.TAKEN_OVER
                or each.started_ms >= (beginning.since_ms or 0)
            ],
            "history": {
                "since_ms": beginning.since_ms,
                "limit": beginning.limit,
                "message": _LIMITS[beginning.limit],
            },
        }
        return await group_in_full(group, more)

    async def offsets(self, request: web.Request) -> web.Response:
        """Show the offsets that a group has committed."""
        self._node.require_open()
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        async with self._one_at_a_time:
            group = self._node.find(group_id)
            if group is None:
                raise no_group(group_id)
            rows = group.offsets.copy().rows()  # as they are now; there may be very many
            body = await offsets_in_full(group_id, rows, self._node.date_ms())
        await self._node.confirm(group_id)
        return json_body(body)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Show a group, and show it again whenever something of it changes."""
        return await self._elsewhere.stream(request, self._streams, self._tell)

    async def _tell(self, request: web.Request, group_id: str) -> web.StreamResponse:
        watch = await self._watches.join(group_id)
        try:
            response = await self._streams.begin_dated(request)
            await tell_views(watch, self._streams, response)
            return response
        finally:
            self._watches.leave(group_id, watch)


#: Why no earlier rebalances are shown.
_LIMITS: Final[Mapping[HistoryLimit, str]] = {
    HistoryLimit.COMPLETE: "These are all rebalances of the group.",
    HistoryLimit.KEPT: "A node keeps the last few rebalances of a group; the journal has the rest.",
    HistoryLimit.JOURNAL: "The node's journal goes back no further.",
    HistoryLimit.READ_BACK: "The node reads only the end of its journal; the rest is in its files.",
    HistoryLimit.UNREADABLE: "The node's journal can't be read; the node's log says why.",
    HistoryLimit.READING: "The node is still reading its journal; ask again.",
    HistoryLimit.NO_JOURNAL: "The node keeps no journal, so this is all since it started.",
    HistoryLimit.TAKEN_OVER: "Another node coordinated the group before; its journal has the rest.",
    HistoryLimit.MISSING: (
        "What was before is not in this node's journal: another node coordinated the group, or the"
        " lines were lost or deleted."
    ),
}
