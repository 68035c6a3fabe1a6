"""What is stored of topics, on a node that does not have the catalogue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from coterie_server.serving.cluster import CATALOGUE_SHARD
from coterie_server.serving.topic_counts import in_turn
from coterie_server.serving.turnstile import Turnstile
from coterie_server.topics import from_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie_server.serving.catalogue_shard import CatalogueShard
    from coterie_server.serving.cluster import TopicsVersion
    from coterie_server.serving.context import NodeContext
    from coterie_server.serving.topic_counts import TopicCounts
    from coterie_server.storage import KeptRecord
    from coterie_server.topics import Catalogue, PartitionEnds

__all__ = ["Groups", "TopicCopy"]


class Groups(Protocol):
    """The groups of this node, and what is known of those of the others."""

    def topics_changed(self, changes: Mapping[str, str]) -> None:
        """Let this node's groups know what has become of topics; it is durable."""

    async def until_told(self) -> None:
        """Wait until what they were told is durable."""

    def groups_know(self, version: TopicsVersion) -> bool:
        """Whether the groups of all nodes know the topics at this version, durably."""

    def are_unread(self) -> bool:
        """Whether groups are on their way from one node to another, and known to none."""


class TopicCopy:
    """A copy of the topics, read from the store again and again."""

    def __init__(
        self,
        context: NodeContext,
        make: Callable[[PartitionEnds], Catalogue],
        counts: TopicCounts,
        own: CatalogueShard,
        groups: Groups,
    ) -> None:
        self._store = context.store
        self._ends = context.ends
        self._access = context.access
        self._make = make
        #: How many partitions each topic has, as far as this node knows.
        self.counts = counts
        self._own = own
        self._groups = groups
        #: The copy; None before the first reading.
        self.topics: Catalogue | None = None
        self._stored: list[KeptRecord] | None = None
        #: How often the node had the catalogue itself when it was read last.
        self._lives = 0
        self._reading = asyncio.Lock()
        self._turnstile = Turnstile()
        #: The reading that has not begun yet.
        self._next: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def may_be_behind(self) -> bool:
        """Whether another node may have told of topics that this one has not heard of."""
        return not self._own.may_answer

    def close(self) -> None:
        """Read no more."""
        for task in list(self._tasks):
            task.cancel()

    async def refresh(self) -> None:
        """Know all that any node has told of topics before this was called.

        All who call it before the store is asked share an answer.  No two readings overlap: an
        older one must not end behind a newer one.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._read_in_turn())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._ended)
        await asyncio.shield(self._next)
        await self._turnstile.go_through()

    def _ended(self, reading: asyncio.Task[None]) -> None:
        self._tasks.discard(reading)
        if not reading.cancelled():
            reading.exception()  # those who wait are told

    async def _read_in_turn(self) -> None:
        async with self._reading:
            self._next = None
            while not await self._read():
                pass

    async def _read(self) -> bool:
        """Read what is stored; False if it may be older than what this node has stored itself."""
        before = self._own.version
        stored = await self._store.load(CATALOGUE_SHARD)
        if not self._own.may_answer and self._own.version != before:
            return False
        # What it has changed itself since may be undone by now, and the rows as they were before.
        if stored != self._stored or self._lives != self._own.lives:
            copy = self._make(self._ends)
            rows = (from_stored(key, value) for key, value in stored)
            for _ in copy.recover_in_turns(rows):
                await asyncio.sleep(0)
            if not self._own.may_answer and self._own.version != before:
                return False
            self._take_in(copy, stored)
        return True

    def _take_in(self, copy: Catalogue, stored: list[KeptRecord]) -> None:
        copy.only_tell()
        self.topics, self._stored, self._lives = copy, stored, self._own.lives
        if self._own.may_answer:
            self._stored = (
                None  # the node goes by its own, and by these only once they are read again
            )
            return
        self._access.follow(copy.rights)
        changes = self.counts.read(copy.topics)
        for change in changes:
            if change.change == "deleted":
                self._ends.forget(change.topic)
        for told in in_turn(changes):
            self._groups.topics_changed(told)
