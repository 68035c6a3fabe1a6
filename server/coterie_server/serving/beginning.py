"""What a node begins with: topics, and users who can log in from the start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from coterie_server.log.logger import get_logger
from coterie_server.serving.cluster import CATALOGUE_SHARD
from coterie_server.serving.peers import PeerError
from coterie_server.storage import StoreError
from coterie_server.topics import TopicRefusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from coterie_server.security.records import Credentials
    from coterie_server.serving.catalogue_shard import CatalogueShard
    from coterie_server.serving.cluster import Cluster
    from coterie_server.serving.other_nodes import OtherNodes
    from coterie_server.serving.topic_copy import TopicCopy
    from coterie_server.serving.topic_counts import TopicCounts

__all__ = ["Beginning"]

_log = get_logger(__name__)

#: How long other nodes are asked for a topic that this one needs to start: until one that died has
#: lost its leases, at least.
_PATIENCE_S: Final = 30.0


@final
class Beginning:
    """Has topics and users stored, by this node or by the one that has the catalogue.

    `until_looked` waits until the other nodes have been looked at once more.
    """

    def __init__(
        self,
        catalogue: CatalogueShard,
        copy: TopicCopy,
        cluster: Cluster,
        others: OtherNodes,
        counts: TopicCounts,
        until_looked: Callable[[], Awaitable[object]],
        announce: Callable[[], object],
    ) -> None:
        self._catalogue = catalogue
        self._copy = copy
        self._cluster = cluster
        self._others = others
        self._counts = counts
        self._until_looked = until_looked
        self._announce = announce
        #: Whether all that the node begins with is stored, or known.
        self.is_over = False

    async def begin(self, topics: Mapping[str, int], users: Credentials) -> None:
        """Have topics, or raise `TopicRefusal`, and users; who has the catalogue stores users."""
        for name, partitions in topics.items():
            await self.ensure(name, partitions)
        if users:
            await self._begin_with_users(users)
        self.is_over = True
        self._announce()

    async def _begin_with_users(self, users: Credentials) -> None:
        """Store users, or know those that the node stores that has the catalogue.

        Of nodes that start together, one gets the catalogue, maybe a moment later.  To the others
        its users must be known before any client logs in.
        """
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _PATIENCE_S
        while self._catalogue.core is None:
            owner = self._cluster.owner_of(CATALOGUE_SHARD)
            if owner is not None and owner.has_begun:
                await self._copy.refresh()
                return
            if loop.time() >= give_up_s:
                if owner is None:
                    raise StoreError("the first users can't be stored: no node has the topics")
                _log.warning("the first users are not known yet", owner=owner.node_id)
                return
            await self._until_looked()
        if removed := await self._catalogue.ensure_users(users):
            _log.warning("users of the settings were removed, and stay so", users=removed)

    async def ensure(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _PATIENCE_S
        while True:
            try:
                await self._ensure(name, partitions)
            except PeerError as error:
                if loop.time() >= give_up_s:
                    why = f"Topic '{name}' can't be created or extended: {error}."
                    raise TopicRefusal("not_available", why) from error
                await self._until_looked()
            else:
                return

    async def _ensure(self, name: str, partitions: int) -> None:
        if self._catalogue.is_owned:
            try:
                await self._catalogue.ensure(name, partitions)
            except StoreError as error:
                if self._catalogue.failure:
                    raise
                raise PeerError("another node is taking the topics over") from error
            return
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        if owner is None:
            raise PeerError("no node has the topics just now")
        known = self._counts.get(name, 0)
        if known > partitions:
            raise TopicRefusal("shrink", f"Topic '{name}' has {known} partitions and can't shrink.")
        if known == partitions:
            return
        problem = await (self._others.extend if known else self._others.create)(name, partitions)
        if problem:
            raise TopicRefusal(
                "refused", f"Topic '{name}' can't have {partitions} partitions: {problem}"
            )
        await self._copy.refresh()  # so that this node, too, knows it once it is ready
