"""The node as the HTTP pages see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from coterie_server.group import Refusal
from coterie_server.group.owners import Ownerships, ownerships_of
from coterie_server.http.answers import not_ready
from coterie_server.http.group_view import GroupView
from coterie_server.http.groups import finish
from coterie_server.metrics import NodeSnapshot, count_groups
from coterie_server.serving import NodeNote
from coterie_server.serving.group_listeners import GroupListeners

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from coterie_server.group import Group
    from coterie_server.group.step import Step
    from coterie_server.journal import JournalWriter
    from coterie_server.net import Listener
    from coterie_server.serving.node import Node

__all__ = ["NodeView"]


class NodeView:
    """A node that may not be ready yet, or may be stopping."""

    def __init__(self, listener: Listener, journal: JournalWriter | None) -> None:
        self._listener = listener
        #: Where it writes down what happens; None if it does not.
        self.journal: Final = journal
        self._node: Node | None = None
        self._why_not = "The groups are being read."

    def open(self, node: Node) -> None:
        """Show a node, now that it is ready."""
        self._node = node
        self._why_not = ""

    def close(self) -> None:
        """Say from now on that the node is stopping."""
        self._why_not = "The node is stopping."

    @property
    def is_open(self) -> bool:
        """Whether the groups are known: they have been read, or are as they were at the end."""
        return self._node is not None

    def not_ready(self) -> str | None:
        """Why the node does not serve, as a sentence; None if it does."""
        if self._node is None or self._why_not:
            return self._why_not
        return self._node.trouble or None

    def require_open(self) -> None:
        """Raise `Refusal` if the groups are not known."""
        if not self.is_open:
            raise not_ready(self._why_not)

    def require_ready(self) -> None:
        """Raise `Refusal` if the node does not serve."""
        if reason := self.not_ready():
            raise not_ready(reason)

    @property
    def node_id(self) -> int:
        """The number of the node."""
        return self._node.node_id if self._node else -1

    def others(self) -> Sequence[NodeNote]:
        """The other nodes that share the store."""
        return self._node.cluster.others if self._node else ()

    def elsewhere(self, group_id: str) -> NodeNote | None:
        """The other node that has a group; None if it is this one, or none has it now."""
        node = self._node
        shard = node.group_shard(group_id) if node else None
        if node is None or shard is None or shard.is_owned:
            return None
        return node.cluster.owner_of(shard.shard)

    def not_shown(self, group_id: str) -> str | None:
        """Why it can't be said whether there is a group; None if it can."""
        if self._node is None or self._node.group_shard(group_id).is_served:
            return None
        return f"The group {group_id!r} can't be told of just now; ask again."

    def why_gone(self, group_id: str, life: int) -> str:
        """Why a group can't be followed here any more as in a life of its shard; empty if it can.

        Another node may have had it for less time than passes between two looks at this.
        """
        if self.elsewhere(group_id) is not None:
            return "Another node has the group now."
        if self.life_of(group_id) != life:
            return "The group was read anew from the store."
        return self.not_shown(group_id) or ""

    def life_of(self, group_id: str) -> int:
        """A number that no two lives of a group's shard have."""
        return self._node.group_shard(group_id).fence_number if self._node else 0

    def shard_of(self, group_id: str) -> int:
        """The number of a group's shard."""
        return self._node.group_shard(group_id).shard if self._node else -1

    def taken_over_ms(self, group_id: str) -> int | None:
        """Since when a group is this node's, if another node had it after this one had started."""
        return self._node.group_shard(group_id).taken_over_ms if self._node else None

    def shards(self) -> Mapping[int, list[int]]:
        """The shards of groups that each node has, by its id."""
        node = self._node
        found: dict[int, list[int]] = {}
        for shard in node.shards if node else ():
            owner = node.cluster.owner_of(shard.shard) if node else None
            if shard.is_owned:
                found.setdefault(self.node_id, []).append(shard.shard)
            elif owner is not None:
                found.setdefault(owner.node_id, []).append(shard.shard)
        return found

    def note(self) -> NodeNote | None:
        """What the node says of itself to others."""
        return NodeNote.from_bytes(self._node.note(is_settled=True)) if self._node else None

    def unowned(self) -> int:
        """How many shards of groups no node has just now."""
        if self._node is None:
            return 0
        return len(self._node.shards) - sum(map(len, self.shards().values()))

    def group_names(self) -> list[str]:
        """The names of this node's groups, in any order."""
        return self._node.group_names() if self._node else []

    def find(self, group_id: str) -> Group | None:
        """A group of the core, to be shown; None if there is no such group."""
        return self._node.group(group_id) if self._node else None

    async def group(self, group_id: str) -> GroupView | None:
        """A group in full; None if there is no such group."""
        node = self._node
        group = node.group(group_id) if node else None
        if node is None or group is None:
            return None
        return await finish(GroupView.of(group, node.phase_deadline(group), node.date_of))

    async def confirm(self, group_id: str) -> None:
        """See to it that what was found of a group may be told; raises `Refusal` if it may not.

        It is to be durable, and no other node may have had the group by then.
        """
        node = self._node
        if node is None:
            return
        is_durable = await node.group_shard(group_id).until_durable()
        if not (is_durable and await node.trust.until_known()):
            raise not_ready(f"The group {group_id!r} can't be told of just now; ask again.")

    async def confirm_all(self) -> None:
        """The same, of all groups of this node; those whose shards have ended are not told of."""
        node = self._node
        if node is None:
            return
        open_shards = [each for each in node.shards if not each.is_durable]
        await asyncio.gather(*(each.until_durable() for each in open_shards))
        if not await node.trust.until_known():
            raise not_ready("The groups can't be told of just now; ask again.")

    async def ownerships(self, group_id: str) -> Ownerships | None:
        """Who owns what in a group; None if there is no such group.

        Raises `Refusal` if that is not known.  `confirm` what was found before it is told.
        """
        node = self._node
        group = node.group(group_id) if node else None
        if node is None or group is None:
            return None
        found = await finish(ownerships_of(group, node.topics))
        if found is None:
            why = "the node can't read what its members tell each other"
            raise Refusal("unreadable", f"Who owns what in {group_id!r} is not known: {why}.")
        return found

    @property
    def topics(self) -> Mapping[str, int]:
        """How many partitions each topic has."""
        return self._node.topics if self._node else {}

    @property
    def listeners(self) -> GroupListeners:
        """Who is told of what may have become of groups."""
        return self._node.listeners if self._node else GroupListeners()

    def date_ms(self) -> int:
        """The date that the node goes by."""
        return self._node.date_ms() if self._node else 0

    def date_of(self, now_ms: int) -> int:
        """The date of a moment of the time that the groups go by."""
        return self._node.date_of(now_ms) if self._node else 0

    def own_shards(self) -> frozenset[int]:
        """The shards of groups that this node shows."""
        return frozenset(shard for shard, _ in self.own_lives())

    def own_lives(self) -> frozenset[tuple[int, int]]:
        """The same, each with a number that no other life of the shard has."""
        shards = self._node.shards if self._node else ()
        return frozenset(
            (each.shard, each.fence_number) for each in shards if each.is_owned and each.is_served
        )

    def unlisted(self, shards: AbstractSet[int]) -> tuple[int, int]:
        """How many shards of groups are none of these, and how many there are."""
        known = self._node.shards if self._node else ()
        return sum(each.shard not in shards for each in known), len(known)

    async def operate(self, group_id: str, operation: Callable[[Step], None]) -> GroupView | None:
        """Do what an operator asks of a group, and return the group once that is durable.

        None if there is no such group any more; may raise `Refusal`.
        """
        if self._node is None:
            raise Refusal("not_available", self._why_not)
        await self._node.operate(group_id, operation)
        return await self.group(group_id)

    async def snapshot(self) -> NodeSnapshot:
        """The present state of the node's parts, for the metrics."""
        node = self._node
        return NodeSnapshot(
            groups=await count_groups(node.groups()) if node else None,
            topics=len(node.topics) if node else None,
            parked_fetches=node.parked_fetches if node else None,
            net=self._listener.stats(),
            journal=self.journal.stats() if self.journal else None,
        )
