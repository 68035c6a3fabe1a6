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
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coterie_server.log.logger import get_logger
from coterie_server.serving.claims import Claims
from coterie_server.serving.clock import Soon
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.serving.patience import Patience
from coterie_server.serving.shares import Move, Scene, given_at_once, next_move
from coterie_server.serving.sparing import Sparing
from coterie_server.serving.trial import Trial
from coterie_server.serving.troubles import LeaseTroubles
from coterie_server.serving.waiters import Bell
from coterie_server.storage import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from coterie_server.serving.cluster import Cluster
    from coterie_server.serving.lease_terms import LeaseHolder, LeaseTerms
    from coterie_server.storage import Lease, Store

__all__ = ["LeaseKeeper"]

_log = get_logger(__name__)

#: A lease is renewed this many times before it would run out.
_RENEWALS_PER_LEASE: Final = 3
#: How long to wait after the store failed.
_RETRY_S: Final = 0.5
#: How long after a hint to look, so that a flood of them, which any client can send, does no harm.
_HINT_S: Final = 0.005
#: How long a node that leaves waits for others to take what it has given, and how often it looks.
_TAKEN_WITHIN_S: Final = 0.5
_LOOK_IF_TAKEN_S: Final = 0.01


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
        self._owner, self._ttl_ms = terms.owner, terms.ttl_ms
        lease_s, look_ms = terms.ttl_ms / 1000, terms.look_every_ms
        self._renew_every_s, self._companions = lease_s / _RENEWALS_PER_LEASE, terms.companions
        look_s = math.inf if look_ms is None else look_ms / 1000
        self._look_every_s = min(look_s, self._renew_every_s)
        self._cluster = cluster
        self._holder = holder
        self._shards: Sequence[int] = ()
        self._leases: dict[int, Lease] = {}
        self._claims = Claims(store, terms.owner, terms.ttl_ms, trust.now_s)
        #: When shards were claimed whose leases have not been renewed yet.
        self._claimed_s: dict[int, float] = {}
        #: Who had each shard last, as far as it was seen.
        self._owners: dict[int, str] = {}
        self._sparing, self._bell = Sparing(holder.is_forming), Bell()
        self._hint = Soon(_HINT_S, self._bell.ring)
        self._keeping: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None
        self._has_name = self._is_stopping = self._is_leaving = False
        #: Whether the others are to hear something new of this node.
        self._has_news = False
        #: Whether the store was looked at while shards were being claimed and given.
        self._is_to_move_again = False
        #: When the node last asked to have its leases renewed.
        self._trial, self._renewed_s = Trial(lease_s), -math.inf
        # Who is alone with a store has nobody to respect.
        self._patience = Patience(self._owner, 0.0 if look_ms is None else lease_s)
        self.troubles = LeaseTroubles(self._renew_every_s, self._doubt)

    # -- life ----------------------------------------------------------------------------------

    async def join(self, shards: Sequence[int]) -> dict[int, Lease]:
        """Be one of the nodes that share these shards; return what is free for this one."""
        self._shards = shards
        await self._store.reserve(self._owner, self._ttl_ms)
        self._has_name = True
        self._trial.come(self._trust.now_s())
        await self._renew()
        await self._look()
        # Because the name is reserved, leases under it are those of a process that has ended.
        own = {shard for shard, owner in self._cluster.owners.items() if owner == self._owner}
        await self._claim(self._next_move(apart_from=own).claim)
        return dict(self._leases)

    def start(self) -> None:
        """Keep the leases from now on."""
        self._trust.doubt = self.announce
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def announce(self) -> None:
        """Tell the others soon what the node has to say."""
        self._has_news = True
        self._bell.ring()

    def look_soon(self) -> None:
        """See what another node has given up."""
        self._hint.ask()

    def claim_no_more(self) -> None:
        """Take no further shards, as the node is about to stop."""
        self._is_stopping = True

    async def leave(self) -> None:
        """Give the shards to other nodes, a few at a time, as long as these take them.

        The others are served meanwhile.  What is left is released by `stop`.
        """
        self.claim_no_more()
        if self._keeping is None:
            return
        try:
            async with asyncio.timeout(self._ttl_ms / 1000):
                if self._moving is not None:
                    await asyncio.wait({self._moving})
                await self._look()
                if self._takers():
                    self._is_leaving = True
                    await self._renew()
                    await self._hand_over_all()
        except (StoreError, TimeoutError) as error:
            _log.warning("not all shards are handed over", error=str(error) or "it takes too long")

    async def _hand_over_all(self) -> None:
        is_taken = True
        while is_taken and self._leases:
            # The catalogue, whose number is the lowest, goes last.
            given = sorted(self._leases)[-given_at_once(self._shards) :]
            await asyncio.gather(*map(self._give, given))
            await self._holder.wake_others()
            is_taken = await self._are_taken(given)

    async def _are_taken(self, shards: Sequence[int]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_TAKEN_WITHIN_S):
                while True:
                    survey = await self._store.survey()
                    # So that clients are told at once where their groups have gone.
                    self._cluster.look(survey, self._leases)
                    if self._cluster.owners.keys() >= set(shards):
                        return True
                    await asyncio.sleep(_LOOK_IF_TAKEN_S)
        return False

    def _takers(self) -> set[str]:
        """The nodes to divide the shards among, but for this one."""
        notes = self._cluster.notes.items()
        return {owner for owner, note in notes if not note.is_leaving} - {self._owner}

    async def stop(self) -> None:
        """Renew nothing more and give everything up."""
        self.claim_no_more()
        self._trust.doubt = self._trust.decide
        self._trust.decide()
        self._hint.cancel()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        if self._moving is not None:  # what it claims is to be released as well
            await asyncio.wait({self._moving}, timeout=self._renew_every_s)
            self._moving.cancel()
            await asyncio.wait({self._moving})
        await self._claims.close()
        leases, self._leases = list(self._leases.values()), {}
        try:
            async with asyncio.timeout(self._ttl_ms / 1000):  # by then they are over in any case
                if self._has_name:  # or what is listed under it is another process's
                    await self._give_all_up(leases)
        except (StoreError, TimeoutError) as error:
            why = str(error) or "the store does not answer"
            _log.warning("shards are not given up: others wait for their leases", error=why)

    async def _give_all_up(self, leases: Sequence[Lease]) -> None:
        # First, so that the others share out among themselves what is free a moment later.
        await self._store.withdraw(self._owner)
        await self._store.release(leases)
        if self._claims.in_doubt:
            self._claims.look(await self._store.survey(), self._leases)
            await self._claims.give_back()
        if leases:
            await self._holder.wake_others()

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
        self._claimed_s.pop(shard, None)
        taken, asked_s = await self._claims.claim_again(shard)
        is_held = shard in self._leases and self._leases[shard].fence == held.fence
        if taken is not None and is_held:
            self._take(taken, asked_s)
            return taken
        if taken is not None:
            await self._claims.release([taken])  # it was lost, or given up, meanwhile
        elif is_held:
            self.lost(shard)
        return None

    def _take(self, lease: Lease, asked_s: float) -> None:
        self._leases[lease.shard] = lease
        self._claimed_s[lease.shard] = asked_s
        self._trust.include(asked_s, self._ttl_ms)
        self._cluster.gained(lease.shard)

    # -- keeping the leases --------------------------------------------------------------------

    async def _keep(self) -> None:
        wait_s = self._look_every_s
        while True:
            await self._bell.sleep(wait_s)
            trouble = self.troubles.renewal
            try:
                since_s = self._trust.now_s() - self._renewed_s
                if self._has_news or since_s + wait_s > self._renew_every_s:
                    await self._renew()
                trouble = self.troubles.sight
                await self._look()
                self._move_on()
            except Exception as error:  # noqa: BLE001  # whatever it is, try again
                trouble.begin(str(error) or repr(error))
                self._has_news |= trouble is self.troubles.renewal  # nobody has heard of it
                wait_s = min(_RETRY_S, self._renew_every_s)
            else:
                wait_s = self._look_every_s

    async def _renew(self) -> None:
        asked_s = self._trust.now_s()
        before, is_late = self._settled(), not self._trust.holds
        self._has_news = False
        is_settled = not is_late and self._trial.is_over(asked_s)
        # What a blind node would leave to itself, no node would serve.
        is_leaving = self._is_leaving or self._patience.is_blind
        note = self._holder.note(is_settled=is_settled, is_leaving=is_leaving)
        asking = self._store.renew(self._owner, note, list(before.values()), self._ttl_ms)
        renewed = await self.troubles.renewal.answer_to(asking)
        self._take_in(before, {lease.shard: lease for lease in renewed})
        self._renewed_s = asked_s
        self._patience.hear(self._trust.now_s())
        if is_late:
            self._trial.begin_again(asked_s)
        # A claim whose answer came meanwhile may have been asked for long before.
        self._trust.extend(min((asked_s, *self._claimed_s.values())), self._ttl_ms)
        self.troubles.renewal.end()
        self._trust.decide()
        self._holder.confirmed()

    def _settled(self) -> dict[int, Lease]:
        """The leases of which no claim is about to make others."""
        return {s: lease for s, lease in self._leases.items() if s not in self._claims.under_way}

    def _take_in(self, before: Mapping[int, Lease], renewed: Mapping[int, Lease]) -> None:
        """Go on with leases that were renewed; those of `before` that were not are lost."""
        # Some may have been given away meanwhile, or be claimed anew.
        settled = self._settled()
        kept = {shard for shard, lease in before.items() if settled.get(shard) is lease}
        if lost := sorted(kept - renewed.keys()):
            _log.error("shards are lost to other nodes", count=len(lost), shards=lost)
        for shard in lost:
            self.lost(shard)
            self._holder.lost(shard)
        for shard in kept & renewed.keys():
            self._claimed_s.pop(shard, None)
            self._leases[shard] = renewed[shard]

    def _doubt(self) -> None:
        self._trust.decide()
        self._holder.doubted()

    # -- sharing -------------------------------------------------------------------------------

    async def _look(self) -> None:
        survey = await self.troubles.sight.answer_to(self._store.survey())
        self._patience.look(survey.leases, self._trust.now_s())
        self._claims.look(survey, self._leases)
        self._cluster.look(survey, self._leases)
        unsure = self._claims.unsure  # if they are ours, that is new, and they were another's
        self._owners |= {
            each.shard: each.owner
            for each in survey.leases
            if each.shard not in unsure or each.owner != self._owner
        }
        self.troubles.sight.end()
        self._holder.looked()

    def _move_on(self) -> None:
        """Claim and give what is due, unless that is being done."""
        if self._moving is not None and not self._moving.done():
            self._is_to_move_again = True
            return
        # Who is about to stop may stay for seconds, and what nobody serves must not wait for that.
        move = Move() if self._is_stopping else self._next_move()
        if move or self._claims.stray:
            self._moving = asyncio.get_running_loop().create_task(self._do(move))

    def _next_move(self, apart_from: set[int] | None = None) -> Move:
        """What to do next; leases on these shards don't count."""
        notes, now_s = self._cluster.notes, self._trust.now_s()
        alone = self._patience.left_alone(now_s, self._cluster.lease_s_of)
        expected = self._companions if self._trial.has_just_come(now_s) else ()
        scene = Scene(
            shards=self._shards,
            me=self._owner,
            mine=self._leases.keys(),
            # One under our own name that is not ours counts as well: two processes that take
            # their shards from each other would never end.
            others={
                shard: owner
                for shard, owner in {**alone, **self._cluster.owners}.items()
                if shard not in self._leases and shard not in (apart_from or ())
            },
            present={self._owner, *self._takers(), *expected},
            settled={who for who, note in notes.items() if note.is_settled and not note.is_leaving},
            expired=self._patience.expired,
            is_spared=lambda shard: self._sparing.spares(shard, now_s),
            files=self._store.files,
        )
        move = next_move(scene, given_at_once(self._shards))
        self._sparing.look(move.surplus, now_s)
        return move

    async def _do(self, move: Move) -> None:
        """Move shards; of those whose rows are locked, say, the others must not wait."""
        await _tried(self._give_all(move.give))
        await _tried(self._claim(move.claim))
        await _tried(self._claims.give_back())
        if self._is_to_move_again:
            self._is_to_move_again = False
            self._bell.ring()

    async def _give_all(self, shards: Sequence[int]) -> None:
        if shards:
            await asyncio.gather(*map(self._give, shards))
            await self._holder.wake_others()

    async def _give(self, shard: int) -> None:
        if (lease := self._leases.get(shard)) is None:
            return
        await self._holder.give_up(shard)
        lease = self._leases.get(shard, lease)
        self.lost(shard)
        await self._claims.release([lease])

    async def _claim(self, shards: Sequence[int]) -> None:
        if not shards:
            return
        asked_s, expired = self._trust.now_s(), self._patience.expired
        taken = await self._claims.claim(shards)
        if self._trust.now_s() >= self._trust.end_of(asked_s, self._ttl_ms):
            await self._claims.release(taken)  # too late: they may be another node's by now
            return
        for lease in taken:
            self._take(lease, asked_s)
            former_owner = self._owners.get(lease.shard, "")
            how = "expired" if lease.shard in expired else "handed_over" if former_owner else "free"
            if not self._is_stopping:
                self._holder.gained(lease, how, former_owner)


async def _tried(moving: Awaitable[None]) -> None:
    try:
        await moving
    except Exception as error:  # noqa: BLE001  # whatever it is, look again
        _log.warning("shards can't be taken or given", error=str(error) or repr(error))
