"""The node as the HTTP pages and the figures look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.group import Refusal
from coterie_server.http import summarize, view
from coterie_server.metrics import Census, count_groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.http import GroupSummary, GroupView
    from coterie_server.journal import JournalWriter
    from coterie_server.net import Listener
    from coterie_server.node import Node

__all__ = ["Show"]


class Show:
    """Looks at a node that may not be ready yet, or not any more."""

    def __init__(self, listener: Listener, journal: JournalWriter | None) -> None:
        self._listener = listener
        self._journal = journal
        self._node: Node | None = None
        self._why_not = "The groups are being read."

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
        unserved = self._node.unserved_shards
        if unserved:
            return f"{len(unserved)} shards can't be served; the log says why."
        return None

    def groups(self) -> Iterable[GroupSummary]:
        """The groups of this node."""
        return [summarize(group) for group in self._node.groups()] if self._node else []

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

    def census(self) -> Census:
        """How things stand at this moment."""
        node = self._node
        return Census(
            groups=count_groups(node.groups()) if node else None,
            topics=len(node.topics) if node else None,
            parked_fetches=node.parked_fetches if node else None,
            net=self._listener.stats(),
            journal=self._journal.stats() if self._journal else None,
        )
