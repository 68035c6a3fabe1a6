"""Which shards are this node's, and until when it may act on that.

A lease on a shard is kept in the store.  Each write shows its epoch, so the store itself refuses a
node that lost a shard without noticing.  Answers that need no write have no such guard:
so a node trusts its leases only for their length, less a margin, counted from before it last asked
for them.  Without that trust nothing is answered; requests are held until the store has confirmed
the leases, which takes a moment after a pause, or refused if it can't.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from coterie_protocol.exceptions import CoterieError
from coterie_server.log.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie_server.storage import Lease, Store

__all__ = ["LeaseHolder", "LeaseKeeper", "LeaseTerms", "LeaseTrust", "ShardsTakenError"]

_log = get_logger(__name__)

#: A lease is renewed this many times before it would run out.
_RENEWALS_PER_LEASE: Final = 3
#: This part of a lease is left unused: clocks of two machines don't run at quite the same speed.
_MARGIN: Final = 10
#: How long to wait after a renewal failed.
_RETRY_S: Final = 0.5


class ShardsTakenError(CoterieError):
    """Another node holds shards of this store."""


class LeaseTrust:
    """Until when the node may act as the owner of its shards."""

    __slots__ = ("_elapsed_s", "doubt", "until_s")

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        #: Has the leases confirmed.
        self.doubt: Callable[[], None] = lambda: None
        self.until_s = math.inf

    @property
    def holds(self) -> bool:
        """Whether no other node can have the shards yet."""
        return self._elapsed_s() < self.until_s

    def extend(self, asked_s: float, ttl_ms: int) -> None:
        """Leases that were asked for at a moment are held for so long."""
        self.until_s = asked_s + (ttl_ms - ttl_ms / _MARGIN) / 1000

    def now_s(self) -> float:
        """The moment, for `extend`."""
        return self._elapsed_s()


class LeaseHolder(Protocol):
    """Serves the shards whose leases a keeper keeps."""

    def lost(self, shard: int) -> None:
        """Another node has a shard."""

    def gained(self, lease: Lease) -> None:
        """A shard that was lost can be served again."""

    def confirmed(self) -> None:
        """The leases hold."""

    def doubted(self) -> None:
        """It can't be found out just now whether the leases hold."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """In whose name shards are leased, and for how long at a time."""

    owner: str
    #: Where clients find the owner.
    address: str
    ttl_ms: int


class LeaseKeeper:
    """Claims shards, renews the leases on them, and takes back what it lost when that is free."""

    def __init__(
        self,
        store: Store,
        terms: LeaseTerms,
        trust: LeaseTrust,
        now_ms: Callable[[], int],
        holder: LeaseHolder,
    ) -> None:
        self._store = store
        self._trust = trust
        self._owner = terms.owner
        self._address = terms.address
        self._ttl_ms = terms.ttl_ms
        self._now_ms = now_ms
        self._holder = holder
        self._shards: tuple[int, ...] = ()
        self._leases: dict[int, Lease] = {}
        self._wake = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        #: Why the leases can't be renewed; empty if they can.
        self.trouble = ""

    async def claim_all(self, shards: Iterable[int]) -> dict[int, Lease]:
        """Take all these shards, or raise `ShardsTakenError` and leave them to their owners."""
        self._shards = tuple(shards)
        asked_s = self._trust.now_s()
        claimed = await asyncio.gather(*(self._claim(shard) for shard in self._shards))
        self._leases = {lease.shard: lease for lease in claimed if lease is not None}
        if None in claimed:
            holders = {
                f"{held.owner} at {held.address}"
                for held in await self._store.leases()
                if held.owner not in ("", self._owner)
            }
            await self._release()
            raise ShardsTakenError(
                f"{self._store.url} is in use by {', '.join(sorted(holders))}."
                " Stop that node, or give this one a store of its own."
            )
        self._trust.extend(asked_s, self._ttl_ms)
        return dict(self._leases)

    def start(self) -> None:
        """Keep the leases from now on."""
        self._trust.doubt = self._wake.set
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def lost(self, shard: int) -> None:
        """The store refused a write to a shard: another node has it."""
        self._leases.pop(shard, None)

    async def stop(self) -> None:
        """Renew nothing more and give everything up."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        await self._release()

    async def _release(self) -> None:
        leases, self._leases = self._leases, {}
        await asyncio.gather(*(self._store.release(lease) for lease in leases.values()))

    async def _claim(self, shard: int) -> Lease | None:
        now_ms = self._now_ms()
        return await self._store.claim(shard, self._owner, self._address, now_ms, self._ttl_ms)

    # -- keeping them --------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause_s = self._ttl_ms / 1000 / _RENEWALS_PER_LEASE
        wait_s = pause_s
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._renew(pause_s)
                await self._take_back()
            except Exception as error:  # noqa: BLE001  # whatever it is, try again
                self._be_in_trouble(str(error) or repr(error))
                wait_s = min(_RETRY_S, pause_s)
            else:
                wait_s = pause_s

    async def _renew(self, complain_after_s: float) -> None:
        asked_s, before = self._trust.now_s(), list(self._leases.values())
        renewal = asyncio.ensure_future(self._store.renew(before, self._now_ms(), self._ttl_ms))
        try:
            while not renewal.done():
                await asyncio.wait({renewal}, timeout=complain_after_s)
                if not renewal.done():
                    self._be_in_trouble("the store does not answer")
        except asyncio.CancelledError:
            renewal.cancel()
            raise
        held = {lease.shard: lease for lease in renewal.result()}
        for lease in before:
            if self._leases.get(lease.shard) is lease:
                self._take_in(lease.shard, held.get(lease.shard))
        self._trust.extend(asked_s, self._ttl_ms)
        if self.trouble:
            _log.warning("leases are renewed again")
            self.trouble = ""
        self._holder.confirmed()

    def _take_in(self, shard: int, renewed: Lease | None) -> None:
        if renewed is not None:
            self._leases[shard] = renewed
        else:
            del self._leases[shard]
            self._holder.lost(shard)

    async def _take_back(self) -> None:
        """Claim the shards that were lost, once no node has a valid lease on them."""
        missing = [shard for shard in self._shards if shard not in self._leases]
        if not missing:
            return
        now_ms = self._now_ms()
        # Asked for by hand, as a process that goes by our own name by mistake counts as well.
        taken = {held.shard for held in await self._store.leases() if now_ms < held.expires_ms}
        for shard in missing:
            lease = None if shard in taken else await self._claim(shard)
            if lease is not None:
                self._leases[shard] = lease
                self._holder.gained(lease)

    def _be_in_trouble(self, why: str) -> None:
        if why != self.trouble:
            _log.warning("leases can't be renewed", error=why)
        self.trouble = why
        self._holder.doubted()
