"""One group over HTTP: as it is, as it changes, its committed offsets, and what it is to do."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

from aiohttp import web

from coterie_protocol.journal import CAUSES
from coterie_server.group import Refusal
from coterie_server.history import Beginning, HistoryLimit, RebalanceRecord
from coterie_server.http.answers import json_body, no_group, not_ready, refused
from coterie_server.http.group_watch import GroupViewWatches
from coterie_server.http.groups import group_in_full, offsets_in_full

if TYPE_CHECKING:
    from coterie_server.backfill import Backfill
    from coterie_server.http.elsewhere import Elsewhere
    from coterie_server.http.node_view import NodeView
    from coterie_server.http.streams import Streams

__all__ = ["GroupPages", "rebalance_json"]


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
        self._watches = GroupViewWatches(node, self._in_full)

    async def close(self, _app: web.Application) -> None:
        """End all watches, so that their clients turn to other nodes."""
        self._watches.close()

    async def group(self, request: web.Request) -> web.Response:
        """Show a group and its last rebalances."""
        if not self._node.is_open:
            return not_ready(self._node.not_ready() or "")
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        shown = await self._in_full(group_id)
        return no_group(group_id) if shown is None else json_body(shown)

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
            return await self._show(group_id, beginning)

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
        if not self._node.is_open:
            return not_ready(self._node.not_ready() or "")
        group_id = request.match_info["group"]
        elsewhere = await self._elsewhere.answer(request, group_id)
        if elsewhere is not None:
            return elsewhere
        async with self._one_at_a_time:
            group = self._node.find(group_id)
            if group is None:
                return no_group(group_id)
            rows = list(group.offsets.values())
            return json_body(await offsets_in_full(group_id, rows, self._node.date_ms()))

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Show a group, and show it again whenever something of it changes."""
        if reason := self._node.not_ready():
            return not_ready(reason)
        group_id = request.match_info["group"]
        try:
            with self._streams.admit():
                owner = self._elsewhere.streamed_by(request, group_id)
                if owner is not None:
                    return await self._streams.pass_on(request, owner)
                elsewhere = await self._elsewhere.answer(request, group_id)
                if elsewhere is not None:
                    return elsewhere
                return await self._watches.tell(request, group_id, self._streams)
        except Refusal as refusal:
            return refused(refusal)


def rebalance_json(rebalance: RebalanceRecord) -> dict[str, Any]:
    """A rebalance as JSON."""
    values = dataclasses.asdict(rebalance)
    for late in values["late"]:
        late["host"] = late["host"].lstrip("/")
    stopped_ms, silent_ms = (values.pop(f"{name}_partition_ms") for name in ("stopped", "silent"))
    del values["group"]
    return values | {
        "because": CAUSES.get(rebalance.cause, rebalance.cause),
        "prepare_ms": rebalance.prepare_ms,
        "complete_ms": rebalance.complete_ms,
        "total_ms": rebalance.total_ms,
        "stopped_partition_seconds": None if stopped_ms is None else stopped_ms / 1000,
        "silent_partition_seconds": None if silent_ms is None else silent_ms / 1000,
    }


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
}
