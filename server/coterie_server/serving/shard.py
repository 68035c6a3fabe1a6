"""The life of a shard: read, served, in trouble, read again, given up.

A shard's core and its queue of appends belong together: they are one life of the shard.  When the
store fails, or the core does, that life is over, and the next one begins by reading what is stored.
It does so only when the last append of the former life has ended, one way or the other: an append
that came behind the reading would be stored, and not be known.  After an append has failed, which
may yet come, only a new claim makes sure of that.

The groups' shards and the catalogue of topics live such lives, and all that concerns them is here:
taking, holding and refusing requests, and getting out of trouble.  `stepping` stores what comes of
a step, and tells it.  `GroupShard` and `CatalogueShard` add what their cores differ in.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import CoterieError
from coterie_server.later_version import LaterVersionError
from coterie_server.log.logger import get_logger
from coterie_server.net.exchange import STOPPING
from coterie_server.serving.claims import claim_alone
from coterie_server.serving.context import NodeContext, PendingRequest
from coterie_server.serving.durable_queue import DurableQueue
from coterie_server.serving.failures import refusal
from coterie_server.serving.reload import Reload
from coterie_server.serving.stepping import SteppingShard
from coterie_server.serving.tenure import Tenure
from coterie_server.storage import FencedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie_server.storage import KeptRecord, Lease

__all__ = ["ServedShard"]

_log = get_logger(__name__)

C = TypeVar("C")
R = TypeVar("R")
Q = TypeVar("Q", bound=PendingRequest)


class ServedShard(SteppingShard[R, Q], Generic[C, R, Q]):
    """One shard of a node, with a core of type `C` that makes records `R` of requests `Q`.

    Without a core, because the shard is being read, another node has it, or its store has failed,
    requests are refused with an error that clients retry.  While the node can't be sure that its
    leases still hold, requests are held until it can.
    """

    def __init__(self, shard: int, context: NodeContext) -> None:
        super().__init__(context)
        self.shard: Final = shard
        #: Groups or topics in memory; None while the shard is not served.
        self.core: C | None = None
        self._lease: Lease | None = None
        self._store, self._meter = context.store, context.meter
        self._trust = context.trust
        self._on_fenced = context.on_fenced
        self._claim_again = context.claim_again
        self._tenure = Tenure(shard, context)
        #: Requests that are not taken before the leases are confirmed.
        self._held: list[Q] = []
        self._reload = Reload(
            shard,
            self.load,
            lambda: self.is_owned and not self.is_served,
            lambda: self.is_served,
            self._note_unread,
        )
        self._is_closed = False
        #: What clients are told while there is no core.
        self._trouble = ErrorCode.NOT_COORDINATOR
        #: Whether an append has failed under the lease, and may yet come.
        self._has_failed = False
        #: When it was taken over from another node last; None if it has been here from the start.
        self.taken_over_ms: int | None = None
        #: Why its store failed last, for people; empty if it did not.
        self.failure = ""

    @property
    def is_owned(self) -> bool:
        """Whether the shard is this node's, as far as it knows."""
        return self._lease is not None

    @property
    def fence_number(self) -> int:
        """A number that only grows with the fences of the shard's leases; 0 without a lease."""
        return 0 if self._lease is None else self._lease.fence.number

    @property
    def is_served(self) -> bool:
        """Whether there is a core."""
        return self.core is not None

    @property
    def may_answer(self) -> bool:
        """Whether requests can be answered at this moment, as no other node can have the shard."""
        return self.core is not None and self._trust.holds

    # -- what the kinds of shards differ in ----------------------------------------------------

    @abstractmethod
    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        """Make a core of what is stored."""

    @abstractmethod
    def _take(self, request: Q) -> None:
        """Have the core take a request."""

    # -- requests ------------------------------------------------------------------------------

    def handle(self, request: Q) -> None:
        """Take a request; it is answered now or later, exactly once."""
        if self.core is None:
            self._refuse(request)
        elif self._trust.holds:
            self._take(request)
        else:
            self._hold(request)

    def _hold(self, request: Q) -> None:
        self._held.append(request)
        self._trust.doubt()

    def trusted(self) -> bool:
        """The node's leases hold: go on with what was held; whether that is anything."""
        held = self._take_held()
        for request in held:
            request.resume(partial(self.handle, request))
        return bool(held)

    def doubted(self, *, is_followed: bool = False) -> None:
        """It can't be found out whether the node's leases hold: refuse what was held.

        With `is_followed`, another node may have the shard by now: what is under way is refused
        as well, or its clients would wait here for as long as the store does not answer.
        """
        if self._trust.holds:
            return
        for request in self._take_held():
            request.resume(partial(self._refuse_in_doubt, request))
        if is_followed and self._open:
            self._store_failed(StoreError("the node's leases have run out"))

    def _refuse_in_doubt(self, request: Q) -> None:
        if self.core is None or self._trust.holds:
            self.handle(request)  # it is known by now how things are
        else:
            self._refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _take_held(self) -> list[Q]:
        """The requests that were held, but for those whose clients have gone."""
        held, self._held = self._held, []
        return [request for request in held if not request.abandoned]

    def _take_open(self) -> list[Q]:
        """All requests that await an answer, which are the caller's to refuse now."""
        waiting, self._open = self._open, {}
        return list(waiting.values())

    def _refuse(self, request: Q, trouble: ErrorCode | None = None) -> None:
        """Answer with an error, or hang up where no error would do without harm."""
        answer = refusal(request.message, request.version, trouble or self._told_trouble())
        if answer is not None:
            request.reply(answer)
        else:
            request.close(STOPPING if self._is_closed else "topics can't be read just now")

    def _told_trouble(self) -> ErrorCode:
        """What clients are told: only who is sure to own it says that it reads the shard."""
        if self._trouble is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not self._trust.holds:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # Or members carry on that others may drop.
        return self._trouble

    # -- durability ----------------------------------------------------------------------------

    @property
    def is_durable(self) -> bool:
        """Whether all that has happened so far is durable."""
        return self._queue is None or self._queue.is_settled

    async def until_durable(self) -> bool:
        """Wait for the store; whether all that has happened so far is durable."""
        core, queue = self.core, self._queue
        if queue is not None:
            await queue.until_durable()
        return core is not None and self.core is core

    # -- life ----------------------------------------------------------------------------------

    def own(self, lease: Lease, how: str = "start", former_owner: str = "") -> None:
        """The shard is this node's; it is to be loaded.  `how` is what the journal says."""
        self._lease, self._trouble = lease, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._has_failed = False
        self._tenure.begin(lease, how, former_owner)

    def take_over(self, lease: Lease, how: str = "free", former_owner: str = "") -> None:
        """The shard is this node's now: read it."""
        self.own(lease, how, former_owner)
        if former_owner != lease.owner:
            self.taken_over_ms = self._clock.date_ms()
        self._reload.soon(0)

    async def load(self) -> None:
        """Read the shard and serve it from then on, unless it is given up meanwhile."""
        async with self._reload.alone:
            if self.core is None:
                await self._load()

    async def _load(self) -> None:
        await self._end_former_life()
        lease = self._lease
        if lease is None:
            return
        stored = await self._store.load(self.shard)
        if self._is_closed or self._lease is not lease:
            return
        self._queue = DurableQueue(self._store, lease, self._store_failed, self._meter)
        try:
            self._recover(stored)
        except LaterVersionError as later:
            raise StoreError(f"{self._store.url} has {later}. Start that version") from later
        self.failure = ""

    async def _end_former_life(self) -> None:
        if (queue := self._queue) is not None:
            await queue.settle()
            self._queue = None
        for request in self._take_open():
            self._refuse(request)
        if self._has_failed and self._lease is not None:
            await self._renew_claim(self._lease)

    async def _renew_claim(self, failed: Lease) -> None:
        claim = self._claim_again or partial(claim_alone, self._store, failed)
        lease = await claim(self.shard)
        if self._lease is not failed:
            return
        if lease is None:
            self.fence()
        else:
            self._lease, self._has_failed = lease, False
            self._tenure.begin(lease, "reclaimed", lease.owner)

    def fence(self) -> None:
        """Another node has the shard: answer nothing and write nothing in its name any more."""
        if self._lease is None:
            return
        _log.info("a shard is another node's", shard=self.shard)
        self._tenure.end("lost")
        self._lease = None
        self._end_life(ErrorCode.NOT_COORDINATOR)

    async def give_up(self) -> None:
        """Serve the shard no longer; when this returns, nothing more is written to it."""
        self._lease = None
        await self._end_orderly("handed_over")

    async def close(self) -> None:
        """Wait until what was begun is durable or the leases are over; refuse what still waits."""
        self._is_closed = True
        self._reload.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._trust.left_s):
                await self._end_orderly("stopping")

    async def _end_orderly(self, how: str) -> None:
        self._trouble = ErrorCode.NOT_COORDINATOR
        # Or the queue would never settle, while clients go on committing.
        self._forget()
        try:
            if self._queue is not None:
                await self._queue.settle()
        finally:
            self._end_life(ErrorCode.NOT_COORDINATOR)
            self._tenure.end(how)

    def _end_life(self, trouble: ErrorCode) -> None:
        """End the core and its queue, and refuse all requests that wait."""
        self._trouble = trouble
        self._forget()
        if self._queue is not None:
            self._queue.end()
        for request in (*self._take_open(), *self._take_held()):
            self._refuse(request)

    def _forget(self) -> None:
        """Let go of the core."""
        self.core = None

    # -- trouble -------------------------------------------------------------------------------

    def _store_failed(self, error: Exception) -> None:
        """Forget what is in memory, for some of it may never be stored, and read the shard again.

        To its clients this is what a crash of the node would be: what they were promised holds,
        what they were not told did not happen.
        """
        if isinstance(error, FencedError):
            _log.error("a shard is lost to another node", shard=self.shard, error=str(error))
            self.fence()
            self._on_fenced(self.shard)
            return
        failure = self._note_failure(error)
        if self.core is not None:
            bug = None if isinstance(error, CoterieError) else error
            _log.error("a shard can't be served", shard=self.shard, error=failure, exc_info=bug)
        self._end_life(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._tenure.end("store_failed")
        self._has_failed = True
        self._reload.soon()

    def core_failed(self) -> None:
        """A bug, which may have left half a change in memory: read the shard again.

        Call it where the exception is handled.  The steps before were sound, so what they stored
        becomes durable and is told; then the requests that still wait are refused.
        """
        _log.exception("a bug: a shard's core failed, and is read again", shard=self.shard)
        self._trouble = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._forget()
        self._reload.soon()

    def _note_unread(self, error: Exception) -> str:
        if self._meter is not None:
            self._meter.store_failed()
        return self._note_failure(error)

    def _note_failure(self, error: Exception) -> str:
        self.failure = str(error) or repr(error)
        return self.failure
