"""What the journal says of a shard's way from node to node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_protocol.journal import ShardGiven, ShardTaken

if TYPE_CHECKING:
    from coterie_server.serving.context import NodeContext
    from coterie_server.storage import Lease

__all__ = ["Tenure"]


class Tenure:
    """Notes when this node takes a shard and when it gives it, if there are other nodes."""

    def __init__(self, shard: int, context: NodeContext) -> None:
        self._shard = shard
        self._observe = context.observe
        self._clock = context.clock
        self._is_shared = context.is_shared
        self._count_shards = context.count_shards
        #: The epoch under which it has the shard; None if it has not.
        self._epoch: str | None = None

    def begin(self, lease: Lease, how: str, former_owner: str) -> None:
        """Note that this node has the shard from here on."""
        self._epoch = str(lease.fence)
        if self._is_shared:
            taken = ShardTaken(
                shard=self._shard, epoch=self._epoch, former_owner=former_owner, how=how
            )
            self._observe(self._clock.date_ms(), taken)

    def end(self, how: str) -> None:
        """It has the shard no longer, and tells of nothing in it any more."""
        epoch, self._epoch = self._epoch, None
        if self._is_shared and epoch is not None:
            shards = self._count_shards()
            given = ShardGiven(shard=self._shard, epoch=epoch, how=how, shards=shards)
            self._observe(self._clock.date_ms(), given)
