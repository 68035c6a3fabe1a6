"""What a node asks of the store about shards, and what it does not know of the outcome."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from coterie_server.storage import Lease, Store, Survey

__all__ = ["Claims", "claim_alone"]


class Claims:
    """Claims and releases shards in the name of a node.

    A call that failed or was cancelled may have taken effect.  So its shards are in doubt: they may
    be leased to this node, which does not serve them.  Only a claim that is answered ends that; a
    release may be of the lease before, and then has none.
    """

    def __init__(self, store: Store, owner: str, ttl_ms: int) -> None:
        self._store = store
        self._owner = owner
        self._ttl_ms = ttl_ms
        #: The shards that are being claimed; former leases on them are not to be renewed.
        self.under_way: set[int] = set()
        self.in_doubt: set[int] = set()
        #: What was leased to this node without being held, when the store was last looked at.
        self.stray: list[Lease] = []

    @property
    def unsure(self) -> set[int]:
        """The shards that the store may say are this node's before the node knows."""
        return self.in_doubt | self.under_way

    async def claim(self, shards: Sequence[int]) -> list[Lease]:
        """Claim shards, and return the leases on those that were free."""
        self.under_way.update(shards)
        try:
            with self._doubting(shards):
                taken = await self._store.claim(shards, self._owner, self._ttl_ms)
            self.in_doubt.difference_update(shards)
            return taken
        finally:
            self.under_way.difference_update(shards)

    async def claim_again(self, shard: int) -> list[Lease]:
        """Claim a shard anew that is this node's; empty if another one has taken it by now.

        It has it also if its lease has expired: if the store's clock was set forward, that is too
        early, and who takes shards from others waits for as long as these trust their leases.
        """
        self.under_way.add(shard)
        try:
            leases = (await self._store.survey()).leases
            if any(each.shard == shard and each.owner != self._owner for each in leases):
                return []
            return await self.claim([shard])
        finally:
            self.under_way.discard(shard)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases."""
        with self._doubting([lease.shard for lease in leases]):
            await self._store.release(leases)

    @contextmanager
    def _doubting(self, shards: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.in_doubt.update(shards)
            raise

    def look(self, survey: Survey, held: Collection[int]) -> None:
        """Find out what is leased to this node without being held."""
        self.stray = [
            lease
            for lease in survey.leases
            if lease.owner == self._owner
            and lease.is_valid
            and lease.shard in self.in_doubt - self.under_way
            and lease.shard not in held
        ]

    async def give_back(self) -> None:
        """Release what is leased to this node without being held: no node would serve it.

        It stays in doubt until it is claimed again, so that it is not taken for this node's former
        share.
        """
        if self.stray:
            await self._store.release(self.stray)


async def claim_alone(store: Store, held: Lease, shard: int) -> Lease | None:
    """Claim a shard again that is held, where no keeper does; None if it is another node's."""
    taken = await store.claim([shard], held.owner, held.left_ms)
    return taken[0] if taken else None
