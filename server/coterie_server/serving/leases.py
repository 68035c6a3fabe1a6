"""Which shards are this node's, and until when it may act on that.

Leases on shards are kept in the store.  Each write shows its fence, so the store itself refuses a
node that lost a shard without noticing.  Answers that need no write have no such guard: so a node
trusts its leases only for their length, less a margin, counted from before it last asked for them.
Without that trust nothing is answered; requests are held until the store has confirmed the leases,
which takes a moment after a pause, or refused if it can't.

Nodes that use the same store share its shards.  Each looks into the store again and again, finds
out who is there, claims what is free and gives away what it has too much of (`shares.py`).
"""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from coterie_server.log.logger import get_logger
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.serving.shares import Move, Scene, next_move
from coterie_server.storage import StoreError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from coterie_server.serving.cluster import Cluster
    from coterie_server.storage import Lease, Store, Survey

__all__ = ["LeaseHolder", "LeaseKeeper", "LeaseTerms"]

T = TypeVar("T")

_log = get_logger(__name__)

#: A lease is renewed this many times before it would run out.
_RENEWALS_PER_LEASE: Final = 3
#: How long to wait after the store failed.
_RETRY_S: Final = 0.5
#: A node gives away this part of all shards at a time at most, so that most of them are served.
_GIVEN_AT_ONCE: Final = 20


class LeaseHolder(Protocol):
    """Serves the shards whose leases a keeper keeps."""

    def note(self, *, is_settled: bool) -> bytes:
        """What the node tells the others."""

    def lost(self, shard: int) -> None:
        """Another node has a shard."""

    def gained(self, lease: Lease, how: str, former_owner: str) -> None:
        """A shard can be served; `former_owner` had it last, if that is known.

        `how` it came is told as in the journal: it was `free`, its lease had `expired`, or it was
        `handed_over`.
        """

    async def give_up(self, shard: int) -> None:
        """Serve a shard no longer, and return when nothing more is written to it."""

    def looked(self) -> None:
        """The other nodes may not be what they were."""

    def confirmed(self) -> None:
        """The leases hold."""

    def doubted(self) -> None:
        """It can't be found out just now whether the leases hold."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """In whose name shards are leased, and how."""

    owner: str
    ttl_ms: int
    #: How often to look what other nodes do; None if there are none.
    look_every_ms: int | None = None
    #: Nodes that are started together with this one, so that it leaves them their shares at first.
    companions: frozenset[str] = frozenset()


class LeaseKeeper:
    """Claims this node's share of the shards, renews its leases, and gives what is too much."""

    def __init__(
        self,
        store: Store,
        terms: LeaseTerms,
        trust: LeaseTrust,
        cluster: Cluster,
        holder: LeaseHolder,
    ) -> None:
        self._store = store
        self._trust = trust
        self._owner = terms.owner
        self._ttl_ms = terms.ttl_ms
        self._renew_every_s = terms.ttl_ms / 1000 / _RENEWALS_PER_LEASE
        self._companions = terms.companions
        look_ms = terms.look_every_ms
        look_s = math.inf if look_ms is None else look_ms / 1000
        self._look_every_s = min(look_s, self._renew_every_s)
        self._cluster = cluster
        self._holder = holder
        self._shards: Sequence[int] = ()
        self._leases: dict[int, Lease] = {}
        #: Shards that are being claimed, so that former leases on them are not renewed.
        self._claiming: set[int] = set()
        #: Shards of which it is not known whether a claim or a release has taken effect.
        self._in_doubt: set[int] = set()
        #: When shards were claimed whose leases have not been renewed yet.
        self._claimed_s: dict[int, float] = {}
        #: Who had each shard last, as far as it was seen.
        self._owners: dict[int, str] = {}
        #: The shards whose leases had expired when the store was looked at.
        self._expired: set[int] = set()
        self._wake = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._joined_s = -math.inf
        self._renewed_s = -math.inf
        #: Why the leases can't be renewed; empty if they can.
        self.trouble = ""

    # -- life ----------------------------------------------------------------------------------

    async def join(self, shards: Sequence[int]) -> dict[int, Lease]:
        """Be one of the nodes that share these shards; return what is free for this one."""
        self._shards = shards
        await self._store.reserve(self._owner, self._ttl_ms)
        self._joined_s = self._trust.now_s()
        await self._renew()
        await self._look()
        # Because the name is reserved, leases under it are those of a process that has ended.
        own = {shard for shard, owner in self._cluster.owners.items() if owner == self._owner}
        await self._claim(self._next_move(apart_from=own).claim)
        return dict(self._leases)

    def start(self) -> None:
        """Keep the leases from now on."""
        self._trust.doubt = self._wake.set
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def announce(self) -> None:
        """Tell the others soon what the node has to say."""
        self._wake.set()

    def claim_no_more(self) -> None:
        """Take no further shards, as the node is about to stop."""
        self._is_stopping = True

    async def stop(self) -> None:
        """Renew nothing more and give everything up."""
        self.claim_no_more()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        if self._moving is not None:  # what it claims is to be released as well
            await asyncio.wait({self._moving}, timeout=self._renew_every_s)
            self._moving.cancel()
            await asyncio.wait({self._moving})
        leases, self._leases = list(self._leases.values()), {}
        try:
            # First, so that the others share out among themselves what is free a moment later.
            await self._store.withdraw(self._owner)
            await self._store.release(leases)
            if self._in_doubt:
                await self._give_back(await self._store.survey())
        except StoreError as error:
            _log.warning("shards are not given up: others wait for their leases", error=str(error))

    # -- single shards -------------------------------------------------------------------------

    def lost(self, shard: int) -> None:
        """Another node has a shard, as the store says."""
        self._leases.pop(shard, None)
        self._claimed_s.pop(shard, None)
        self._cluster.lost(shard)

    async def claim_again(self, shard: int) -> Lease | None:
        """Claim a shard anew, so that no write under the former lease can come any more.

        Returns None if the shard is this node's no longer.
        """
        held = self._leases.get(shard)
        if held is None:
            return None
        asked_s = self._trust.now_s()
        self._claimed_s.pop(shard, None)
        taken = await self._ask_for([shard])
        if self._leases.get(shard) is not held:
            await self._release(taken)  # it was lost, or given up, meanwhile
            return None
        if not taken:
            self.lost(shard)
            return None
        self._take(taken[0], asked_s)
        return taken[0]

    def _take(self, lease: Lease, asked_s: float) -> None:
        self._leases[lease.shard] = lease
        self._claimed_s[lease.shard] = asked_s
        self._trust.include(asked_s, self._ttl_ms)
        self._cluster.gained(lease.shard)

    async def _ask_for(self, shards: Sequence[int]) -> list[Lease]:
        self._claiming.update(shards)
        try:
            with self._doubting(shards):
                return await self._store.claim(shards, self._owner, self._ttl_ms)
        finally:
            self._claiming.difference_update(shards)

    async def _release(self, leases: Sequence[Lease]) -> None:
        with self._doubting([lease.shard for lease in leases]):
            await self._store.release(leases)

    @contextmanager
    def _doubting(self, shards: Sequence[int]) -> Iterator[None]:
        """Note that these may be leased without being held, unless the store answers.

        A call that failed or was cancelled may have taken effect.
        """
        try:
            yield
        except BaseException:
            self._in_doubt.update(shards)
            raise
        self._in_doubt.difference_update(shards)

    async def _give_back(self, survey: Survey) -> None:
        """Release what was got without being told so: it is served by no node."""
        stray = [
            lease
            for lease in survey.leases
            if lease.owner == self._owner
            and lease.is_valid
            and lease.shard in self._in_doubt - self._claiming
            and lease.shard not in self._leases
        ]
        if stray:
            await self._store.release(stray)

    # -- keeping the leases --------------------------------------------------------------------

    async def _keep(self) -> None:
        wait_s = self._look_every_s
        while True:
            is_asked = await self._woken_within(wait_s)
            try:
                since_s = self._trust.now_s() - self._renewed_s
                if is_asked or since_s + wait_s > self._renew_every_s:
                    await self._renew()
                await self._look()
                self._move_on()
            except Exception as error:  # noqa: BLE001  # whatever it is, try again
                self._be_in_trouble(str(error) or repr(error))
                wait_s = min(_RETRY_S, self._renew_every_s)
            else:
                wait_s = self._look_every_s

    async def _woken_within(self, wait_s: float) -> bool:
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _renew(self) -> None:
        asked_s = self._trust.now_s()
        before = [lease for shard, lease in self._leases.items() if shard not in self._claiming]
        note = self._holder.note(is_settled=not self._is_new(asked_s))
        renewed = await self._answer_to(self._store.renew(self._owner, note, before, self._ttl_ms))
        held = {lease.shard: lease for lease in renewed}
        for lease in before:
            if self._leases.get(lease.shard) is lease:
                self._claimed_s.pop(lease.shard, None)
                self._take_in(lease.shard, held.get(lease.shard))
        lost = sorted(lease.shard for lease in before if lease.shard not in self._leases)
        if lost:
            _log.error("shards are lost to other nodes", count=len(lost), shards=lost)
        self._renewed_s = asked_s
        # A claim whose answer came meanwhile may have been asked for long before.
        self._trust.extend(min((asked_s, *self._claimed_s.values())), self._ttl_ms)
        if self.trouble:
            _log.warning("leases are renewed again")
            self.trouble = ""
        self._holder.confirmed()

    def _is_new(self, now_s: float) -> bool:
        """Whether the node has been there for less than a lease."""
        return now_s - self._joined_s < self._ttl_ms / 1000

    def _take_in(self, shard: int, renewed: Lease | None) -> None:
        if renewed is not None:
            self._leases[shard] = renewed
        else:
            self.lost(shard)
            self._holder.lost(shard)

    async def _answer_to(self, asking: Coroutine[object, object, T]) -> T:
        """Wait for the store, and say so if that takes too long."""
        asked = asyncio.ensure_future(asking)
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=self._renew_every_s)
                if not asked.done():
                    self._be_in_trouble("the store does not answer")
        except asyncio.CancelledError:
            asked.cancel()
            raise
        return asked.result()

    def _be_in_trouble(self, why: str) -> None:
        if why != self.trouble:
            _log.warning("leases can't be renewed", error=why)
        self.trouble = why
        self._holder.doubted()

    # -- sharing -------------------------------------------------------------------------------

    async def _look(self) -> None:
        survey = await self._answer_to(self._store.survey())
        if self._in_doubt:
            await self._answer_to(self._give_back(survey))
        self._cluster.look(survey, self._leases)
        unsure = self._in_doubt | self._claiming  # they may be ours by now, and were another's
        self._owners |= {
            each.shard: each.owner for each in survey.leases if each.shard not in unsure
        }
        self._expired = {lease.shard for lease in survey.leases if not lease.is_valid}
        self._holder.looked()

    def _move_on(self) -> None:
        """Claim and give what is due, unless that is being done."""
        if self._is_stopping or (self._moving is not None and not self._moving.done()):
            return
        move = self._next_move()
        if move:
            self._moving = asyncio.get_running_loop().create_task(self._do(move))

    def _next_move(self, apart_from: set[int] | None = None) -> Move:
        """What to do next; leases on these shards don't count."""
        notes, owners = self._cluster.notes, self._cluster.owners
        expected = self._companions if self._is_new(self._trust.now_s()) else ()
        scene = Scene(
            shards=self._shards,
            me=self._owner,
            mine=self._leases.keys(),
            # One under our own name that is not ours counts as well: two processes that take
            # their shards from each other would never end.
            others={
                shard: owner
                for shard, owner in owners.items()
                if shard not in self._leases and shard not in (apart_from or ())
            },
            present={self._owner, *notes, *expected},
            settled={owner for owner, note in notes.items() if note.is_settled},
            files=self._store.files,
        )
        return next_move(scene, max(len(self._shards) // _GIVEN_AT_ONCE, 1))

    async def _do(self, move: Move) -> None:
        try:
            await asyncio.gather(*map(self._give, move.give))
            await self._claim(move.claim)
        except Exception as error:  # noqa: BLE001  # whatever it is, look again
            _log.warning("shards can't be taken or given", error=str(error) or repr(error))

    async def _give(self, shard: int) -> None:
        lease = self._leases.get(shard)
        if lease is None:
            return
        await self._holder.give_up(shard)
        lease = self._leases.get(shard, lease)
        self.lost(shard)
        await self._release([lease])

    async def _claim(self, shards: Sequence[int]) -> None:
        if not shards:
            return
        asked_s, expired = self._trust.now_s(), self._expired
        taken = await self._ask_for(shards)
        if self._trust.now_s() >= self._trust.end_of(asked_s, self._ttl_ms):
            await self._release(taken)  # too late: they may be another node's by now
            return
        for lease in taken:
            self._take(lease, asked_s)
            former_owner = self._owners.get(lease.shard, "")
            is_over = lease.shard in expired
            how = "expired" if is_over else "handed_over" if former_owner else "free"
            if not self._is_stopping:
                self._holder.gained(lease, how, former_owner)
