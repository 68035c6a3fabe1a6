"""The node as the HTTP pages and the figures look at it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from coterie_server.group import Refusal
from coterie_server.http import summarize, view
from coterie_server.metrics import Census
from coterie_server.metrics.census import GroupCounting

if TYPE_CHECKING:
    from coterie_server.http import GroupSummary, GroupView
    from coterie_server.journal import JournalWriter
    from coterie_server.metrics import GroupCount
    from coterie_server.net import Listener
    from coterie_server.serving.node import Node

__all__ = ["NodeView"]

#: How many groups are counted before it is others' turn: a few milliseconds.
_GROUPS_AT_ONCE: Final = 2000


class NodeView:
    """Looks at a node that may not be ready yet, or not any more."""

    def __init__(self, listener: Listener, journal: JournalWriter | None) -> None:
        self._listener = listener
        self._journal = journal
        self._node: Node | None = None
        self._why_not = "The groups are being read."
        self._count: GroupCount | None = None

    def open(self, node: Node) -> None:
        """Show a node that is ready."""
        self._node = node
        self._why_not = ""

    def close(self) -> None:
        """Say that the node stops."""
        self._why_not = "The node is stopping."

    # -- for the pages -------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        """Why the node does not serve, in a sentence; None if it does."""
        if self._node is None or self._why_not:
            return self._why_not
        return self._node.trouble or None

    def group_names(self) -> list[str]:
        """The names of this node's groups, in any order."""
        return self._node.group_names() if self._node else []

    def summary(self, group_id: str) -> GroupSummary | None:
        """A group of this node as one of a list; None if there is none."""
        group = self._node.group(group_id) if self._node else None
        return summarize(group) if group else None

    def group(self, group_id: str) -> GroupView | None:
        """A group of this node; None if there is none."""
        node = self._node
        group = node.group(group_id) if node else None
        return view(group, node.phase_deadline(group), node.date_of) if node and group else None

    async def force_rebalance(self, group_id: str) -> GroupView:
        """Start a rebalance and return the group when that is durable, or raise `Refusal`."""
        if self._node is None:
            raise Refusal("not_available", self._why_not)
        await self._node.force_rebalance(group_id)
        found = self.group(group_id)
        if found is None:
            raise Refusal("group_not_found", f"There is no group {group_id!r} here any more.")
        return found

    # -- for the figures -----------------------------------------------------------------------

    async def count_groups(self) -> None:
        """Count the groups for the next census, some at a time, so that nobody waits for it."""
        node, counting = self._node, GroupCounting()
        groups = node.groups() if node else []
        for begin in range(0, len(groups), _GROUPS_AT_ONCE):
            counting.add(groups[begin : begin + _GROUPS_AT_ONCE])
            await asyncio.sleep(0)
        self._count = counting.count() if node else None

    def census(self) -> Census:
        """How things stand at this moment; the groups, when they were last counted."""
        node = self._node
        return Census(
            groups=self._count,
            topics=len(node.topics) if node else None,
            parked_fetches=node.parked_fetches if node else None,
            net=self._listener.stats(),
            journal=self._journal.stats() if self._journal else None,
        )
