"""What a node asks of the store about shards, and what it does not know of the outcome."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from coterie_server.storage.abc import own_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from coterie_server.storage import Lease, Store, Survey

__all__ = ["Claims", "claim_alone"]


class _Again(NamedTuple):
    """A shard that is to be claimed again; who asks waits for its lease, and since when that is."""

    shard: int
    answer: asyncio.Future[tuple[Lease | None, float]]


class Claims:
    """Claims and releases shards in the name of a node.

    A call that failed or was cancelled may have taken effect.  So its shards are in doubt: they may
    be leased to this node, which does not serve them.  Only a claim that is answered ends that; a
    release may be of the lease before, and then has none.
    """

    def __init__(self, store: Store, owner: str, ttl_ms: int, now_s: Callable[[], float]) -> None:
        self._store = store
        self._now_s = now_s
        self._owner = owner
        self._ttl_ms = ttl_ms
        #: The shards that are being claimed; former leases on them are not to be renewed.
        self.under_way: set[int] = set()
        self.in_doubt: set[int] = set()
        #: What was leased to this node without being held, when the store was last looked at.
        self.stray: list[Lease] = []
        self._again: list[_Again] = []
        self._claiming: asyncio.Task[None] | None = None

    @property
    def unsure(self) -> set[int]:
        """The shards that the store may say are this node's before the node knows."""
        return self.in_doubt | self.under_way

    async def claim(self, shards: Sequence[int]) -> list[Lease]:
        """Claim shards, and return the leases on those that were free."""
        self.under_way.update(shards)
        try:
            return await self._claim_those(shards)
        finally:
            self.under_way.difference_update(shards)

    async def claim_again(self, shard: int) -> tuple[Lease | None, float]:
        """Claim a shard anew that is this node's; None if another one has taken it by now.

        It has it also if its lease has expired: if the store's clock was set forward, that is too
        early, and who takes shards from others waits for as long as these trust their leases.

        Shards for which that is asked at one time are claimed together: where a connection is lost,
        that may be all, and one after the other their leases would expire meanwhile.
        """
        again = _Again(shard, asyncio.get_running_loop().create_future())
        self._again.append(again)
        if self._claiming is None:
            self._claiming = asyncio.create_task(self._claim_all_again())
        try:
            return await again.answer
        except asyncio.CancelledError:
            self.in_doubt.add(shard)
            raise
        finally:
            self.under_way.discard(shard)  # not before who asked goes on: a renewal may be answered

    async def _claim_all_again(self) -> None:
        try:
            while self._again:
                asked, self._again = self._again, []
                if waiting := [each for each in asked if not each.answer.done()]:
                    await self._claim_together(waiting)
        finally:
            self._claiming = None
            _fail(self._again, asyncio.CancelledError())

    async def _claim_together(self, asked: Sequence[_Again]) -> None:
        wanted = {each.shard for each in asked}
        try:
            leases = (await self._store.survey()).leases
            gone = {each.shard for each in leases if each.owner != self._owner}
            asked_s = self._now_s()
            self.under_way |= wanted
            taken = {each.shard: each for each in await self._claim_those(wanted - gone)}
        except BaseException as error:
            _fail(asked, error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            # Of who is gone meanwhile; the others see to it when they go on.
            self.under_way -= {each.shard for each in asked if each.answer.cancelled()}
        for shard, answer in asked:
            if not answer.done():
                answer.set_result((taken.get(shard), asked_s))
            elif shard in taken:
                self.in_doubt.add(shard)

    async def _claim_those(self, shards: Collection[int]) -> list[Lease]:
        if not shards:
            return []
        with self._doubting(shards):
            taken = await self._store.claim(shards, self._owner, self._ttl_ms)
        self.in_doubt.difference_update(shards)
        return taken

    async def close(self) -> None:
        """Claim nothing again any more; what is under way is in doubt."""
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.wait([self._claiming])

    async def release(self, leases: Sequence[Lease]) -> None:
        """Release leases."""
        with self._doubting([lease.shard for lease in leases]):
            await self._store.release(leases)

    @contextmanager
    def _doubting(self, shards: Collection[int]) -> Iterator[None]:
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


def _fail(asked: Sequence[_Again], error: BaseException) -> None:
    """Tell who asked, unless they have gone."""
    for _, answer in asked:
        if answer.done():
            continue
        if isinstance(error, Exception):
            answer.set_exception(own_failure(str(error) or repr(error), error))
        else:
            answer.cancel()


async def claim_alone(store: Store, held: Lease, shard: int) -> Lease | None:
    """Claim a shard again that is held, where no keeper does; None if it is another node's."""
    taken = await store.claim([shard], held.owner, held.left_ms)
    return taken[0] if taken else None
