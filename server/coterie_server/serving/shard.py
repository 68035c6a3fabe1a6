"""The life of a shard: read, served, in trouble, read again, given up.

A shard's core and its queue of appends belong together: they are one life of the shard.  When the
store fails, or the core does, that life is over, and the next one begins by reading what is stored.
It does so only when the last append of the former life has ended, one way or the other: an append
that came behind the reading would be stored, and not be known.

The groups of a shard live such a life, and so does the catalogue of topics.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import CoterieError
from coterie_server.log.limits import LimitLog
from coterie_server.log.logger import get_logger
from coterie_server.serving.durable_queue import DurableQueue
from coterie_server.serving.leases import Trust
from coterie_server.storage import FencedError
from coterie_server.topics import PartitionEnds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie_server.serving.clock import Clock
    from coterie_server.serving.durable_queue import Meter
    from coterie_server.storage import KeptRecord, Lease, Store

__all__ = ["ServedShard", "Surroundings"]

_log = get_logger(__name__)

#: How long to wait before a shard that could not be read is tried again, at first and at most.
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 5.0
#: That a shard can't be read is said at first and then once in so many attempts: a minute, mostly.
_COMPLAIN_EVERY: Final = 12

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all shards of a node have in common."""

    store: Store
    clock: Clock
    #: Until when the node may act as the owner of its shards; without end if nobody says so.
    trust: Trust = field(default_factory=Trust)
    #: Told of a shard that the store says is somebody else's.
    on_fenced: Callable[[int], None] = lambda _shard: None
    meter: Meter | None = None
    limit_log: LimitLog = field(default_factory=LimitLog)
    #: Where partitions end: where the groups of any shard have got to.
    ends: PartitionEnds = field(default_factory=PartitionEnds)


class ServedShard(ABC, Generic[R]):
    """One shard of a node; `R` is what a request is to it.

    Without a core, because the shard is being read, another node has it, or its store has failed,
    it answers with an error that clients retry.  While the node can't be sure that its leases
    still hold, requests are held until it can.
    """

    def __init__(self, lease: Lease, around: Surroundings) -> None:
        self.shard: Final = lease.shard
        self._lease: Lease | None = lease
        self._store = around.store
        self._clock = around.clock
        self._trust = around.trust
        self._on_fenced = around.on_fenced
        self._meter = around.meter
        self._limit_log = around.limit_log
        self._ends = around.ends
        self._queue: DurableQueue | None = None
        self._held: list[R] = []
        self._reload: asyncio.Task[None] | None = None
        self._is_closed = False
        #: What those are told who ask while there is no core.
        self._trouble = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        #: Why its store failed last, for whoever asks why it is not served; empty if nobody knows.
        self.failure = ""

    # -- what kinds of shards differ in --------------------------------------------------------

    @property
    @abstractmethod
    def is_served(self) -> bool:
        """Whether there is a core."""

    @abstractmethod
    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        """Make a core of what is stored."""

    @abstractmethod
    def _forget(self) -> None:
        """Let go of the core."""

    @abstractmethod
    def _take(self, request: R) -> None:
        """Have the core take a request."""

    @abstractmethod
    def _refuse(self, request: R) -> None:
        """Tell a client that its request can't be served."""

    @abstractmethod
    def _is_abandoned(self, request: R) -> bool:
        """Whether its client has gone, so that nobody waits for the answer."""

    @abstractmethod
    def _refuse_open(self) -> None:
        """Tell everybody who awaits an answer that it can't be had."""

    # -- requests ------------------------------------------------------------------------------

    def handle(self, request: R) -> None:
        """Take a request; it is answered now or later, exactly once."""
        if not self.is_served:
            self._refuse(request)
        elif self._trust.holds:
            self._take(request)
        else:
            self._held.append(request)
            self._trust.doubt()

    def trusted(self) -> None:
        """The node's leases hold: go on with what was held."""
        for request in self._take_held():
            self.handle(request)

    def doubted(self) -> None:
        """It can't be found out whether the node's leases hold: let nobody wait for that."""
        if self._trust.holds:
            return
        before, self._trouble = self._trouble, ErrorCode.COORDINATOR_NOT_AVAILABLE
        for request in self._take_held():
            self._refuse(request)
        self._trouble = before

    def _take_held(self) -> list[R]:
        """The requests that were held, but for those that nobody has an interest in any more."""
        held, self._held = self._held, []
        return [request for request in held if not self._is_abandoned(request)]

    # -- life ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the shard and serve it from then on, unless it is given up meanwhile."""
        lease = self._lease
        await self._end_former_life()
        stored = await self._store.load(self.shard)
        if lease is None or self._is_closed or self._lease is not lease:
            return
        self._queue = DurableQueue(self._store, lease, self._store_failed, self._meter)
        self._recover(stored)
        self.failure = ""

    async def _end_former_life(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            await queue.settle()
        self._refuse_open()

    def take_over(self, lease: Lease) -> None:
        """The shard is this node's again: read it."""
        self._lease, self._trouble = lease, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._load_soon()

    def fence(self) -> None:
        """Another node has the shard: answer nothing and write nothing in its name any more."""
        if self._lease is None:
            return
        _log.error("a shard is lost to another node", shard=self.shard)
        self._lease = None
        self._end_life(ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Answer everybody who waits, and wait until what was begun is durable."""
        self._is_closed = True
        if self._reload is not None:
            self._reload.cancel()
        if self._queue is not None:
            await self._queue.settle()
        self._end_life(ErrorCode.NOT_COORDINATOR)

    def _end_life(self, trouble: ErrorCode) -> None:
        """The core and its queue are over, and whoever waits is told."""
        self._trouble = trouble
        self._forget()
        if self._queue is not None:
            self._queue.end()
        self._refuse_open()
        for request in self._take_held():
            self._refuse(request)

    # -- trouble -------------------------------------------------------------------------------

    def _store_failed(self, error: Exception) -> None:
        """Forget what is in memory, for some of it may never be stored, and read the shard again.

        To its clients this is what a crash of the node would be: what they were promised holds,
        what they were not told did not happen.
        """
        if isinstance(error, FencedError):
            self.fence()
            self._on_fenced(self.shard)
            return
        self.failure = str(error) or repr(error)
        if self.is_served:
            bug = None if isinstance(error, CoterieError) else error
            _log.error(
                "a shard can't be served", shard=self.shard, error=self.failure, exc_info=bug
            )
        self._end_life(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._load_soon()

    def core_failed(self) -> None:
        """A bug, which may have left half a change in memory: read the shard again.

        Call it where the exception is handled.  The steps before were sound, so what they stored
        becomes durable and is told; then whoever still waits is refused.
        """
        _log.exception("a bug: a shard's core failed, and is read again", shard=self.shard)
        self._trouble = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._forget()
        self._load_soon()

    def _load_soon(self) -> None:
        if self._reload is None and not self._is_closed:
            self._reload = asyncio.get_running_loop().create_task(self._load_again())

    async def _load_again(self) -> None:
        delay_s, attempts = RETRY_FIRST_S, 0
        try:
            while not self.is_served and self._lease is not None:
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, RETRY_MAX_S)
                try:
                    await self.load()
                except Exception as error:  # noqa: BLE001  # whatever it is, try again
                    self.failure = str(error) or repr(error)
                    if attempts % _COMPLAIN_EVERY == 0:
                        _log.error("a shard can't be read", shard=self.shard, error=self.failure)
                    attempts += 1
        finally:
            self._reload = None
        if self.is_served:
            _log.warning("a shard is served again", shard=self.shard)
