"""One shard being served: its coordinator, its place in the store, and who awaits an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from coterie_protocol.error_codes import ErrorCode
from coterie_server.failures import failure
from coterie_server.group import Call, Coordinator, Refusal
from coterie_server.limit_log import LimitLog
from coterie_server.packing import Packing
from coterie_server.pump import Pump
from coterie_server.store import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_protocol.journal import Event
    from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
    from coterie_server.clock import Clock
    from coterie_server.gathering import Replies
    from coterie_server.group import Outcome
    from coterie_server.pump import Meter
    from coterie_server.store import Lease, Store

__all__ = ["ShardRunner"]

_log = structlog.get_logger(__name__)

#: How long to wait before a shard that could not be read is tried again, at first and at most.
_RETRY_FIRST_S = 0.2
_RETRY_MAX_S = 5.0

#: A change of a topic is told once more if the shard has to be read again so soon after it.
_REMEMBERED_MS = 60_000


class ShardRunner:
    """Runs the coordinator of one shard.

    Without a coordinator, because the shard is being read or the store has failed, it answers
    with an error that clients retry.
    """

    def __init__(
        self,
        lease: Lease,
        store: Store,
        make: Callable[[], Coordinator],
        clock: Clock,
        *,
        observe: Callable[[int, Event], None],
        arm: Callable[[int], None],
        meter: Meter | None = None,
        limit_log: LimitLog | None = None,
    ) -> None:
        self._lease = lease
        self._store = store
        self._make = make
        self._clock = clock
        self._observe = observe
        self._arm = arm
        self._meter = meter
        self._limit_log = limit_log or LimitLog()
        self._coordinator: Coordinator | None = None
        self._packing = Packing()
        self._pump: Pump | None = None
        self._trouble = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        #: Everybody who awaits an answer, parked or held back until something is durable.
        self._open: dict[Replies, Call] = {}
        self._reload: asyncio.Task[None] | None = None
        #: When which topics changed of late, and how.
        self._changes: list[tuple[int, str, str]] = []

    @property
    def shard(self) -> int:
        """The shard's number."""
        return self._lease.shard

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator, while there is one."""
        return self._coordinator

    # -- life ----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the shard and serve it from then on."""
        stored = await self._store.load(self.shard)
        coordinator = self._make()
        now_ms = self._clock.now_ms()
        packing = Packing()
        outcome = coordinator.recover(packing.unpack(stored), now_ms)
        self._packing = packing
        self._pump = Pump(self._store, self._lease, self._fail, self._meter)
        self._coordinator = coordinator
        self._release(outcome, now_ms)
        self._arm_next()
        self._tell_again()

    async def close(self) -> None:
        """Answer everybody who waits, and wait until what was begun is durable."""
        if self._reload is not None:
            self._reload.cancel()
        if self._pump is not None:
            await self._pump.settle()
        self._coordinator = None
        self._trouble = ErrorCode.NOT_COORDINATOR
        self._answer_everybody()

    def _answer_everybody(self) -> None:
        waiting, self._open = self._open, {}
        for ticket, call in waiting.items():
            ticket.reply(failure(call.message, call.version, self._trouble))

    # -- requests and time ---------------------------------------------------------------------

    def submit(self, ticket: Replies, call: Call) -> None:
        """Take a request; the ticket gets its reply now or later, exactly once."""
        coordinator = self._coordinator
        if coordinator is None:
            ticket.reply(failure(call.message, call.version, self._trouble))
            return
        self._open[ticket] = call
        self.run(coordinator.handle, ticket, call)

    def hear(self, message: HeartbeatRequest) -> HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be submitted.

        There are more heartbeats than all other requests together.  Nothing comes of most of them
        that is stored or told, and while nothing has to be durable first, they are spared the way
        of the others, which costs more than what is done at its end.
        """
        coordinator, pump = self._coordinator, self._pump
        if coordinator is None or pump is None or not pump.is_settled:
            return None
        return coordinator.hear(message, self._clock.now_ms())

    def fire_due(self, now_ms: int) -> None:
        """Do what is due by now."""
        due_ms = self.next_deadline()
        if self._coordinator is not None and due_ms is not None and due_ms <= now_ms:
            self.run(self._coordinator.fire)

    def topic_changed(self, topic: str, change: str) -> None:
        """Let the shard's groups know about a topic."""
        now_ms = self._clock.now_ms()
        self._changes = [each for each in self._changes if each[0] > now_ms - _REMEMBERED_MS]
        self._changes.append((now_ms, topic, change))
        if self._coordinator is not None:
            self.run(self._coordinator.topic_changed, topic, change)

    def _tell_again(self) -> None:
        """Let the groups know what they may have missed, or forgotten with the shard's memory."""
        coordinator = self._coordinator
        for _, topic, change in self._changes:
            if coordinator is None or self._coordinator is not coordinator:
                return  # it did not last
            # If there is a new topic of that name, it has offsets that are not the deleted one's.
            is_back = change == "deleted" and topic in coordinator.topics
            self.run(coordinator.topic_changed, topic, "created" if is_back else change)

    async def force_rebalance(self, group_id: str) -> None:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        if self._coordinator is None or self._pump is None:
            raise Refusal("not_available", "The group can't be served just now; try again.")
        now_ms = self._clock.now_ms()
        outcome = self._coordinator.force_rebalance(group_id, now_ms)
        self.run(lambda _now_ms: outcome)
        await self._pump.settle()
        if self._coordinator is None:
            raise Refusal("not_available", "The group can't be served just now; try again.")

    def next_deadline(self) -> int | None:
        """When something is due next."""
        return None if self._coordinator is None else self._coordinator.next_deadline()

    def run(self, step: Callable[..., Outcome], *arguments: object) -> None:
        """Take a step of the coordinator, at the present time, and see to what comes of it.

        A step that raises is a bug, and it may have left a group half changed.  What is stored is
        sound, so the shard is read again.
        """
        now_ms = self._clock.now_ms()
        try:
            outcome = step(*arguments, now_ms)
        except Exception as error:  # noqa: BLE001  # a bug, whatever it is
            _log.exception("the coordinator failed; its shard is read again", shard=self.shard)
            self._fail(error)
            return
        self._release(outcome, now_ms)
        self._arm_next()

    def _arm_next(self) -> None:
        if (due_ms := self.next_deadline()) is not None:
            self._arm(due_ms)

    def _release(self, outcome: Outcome, now_ms: int) -> None:
        pump = self._pump
        if pump is None:
            raise AssertionError("a coordinator without a pump")
        if outcome.hits:
            self._limit_log.note(outcome.hits, now_ms)
        if outcome.records:
            pump.put(self._packing.pack(outcome.records))
        if outcome.replies or outcome.events:
            pump.when_durable(self._send, outcome, self._clock.date_of(now_ms))

    def _send(self, outcome: Outcome, date_ms: int) -> None:
        for ticket, message in outcome.replies:
            if self._open.pop(ticket, None) is not None:
                ticket.reply(message)
        for event in outcome.events:
            self._observe(date_ms, event)

    # -- trouble -------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """Forget what is in memory, for some of it may never be stored, and read the shard again.

        To its clients this is what a crash of the node would be: what they were promised holds,
        what they were not told did not happen.
        """
        self._coordinator = None
        fenced = isinstance(error, FencedError)
        self._trouble = ErrorCode.NOT_COORDINATOR if fenced else ErrorCode.COORDINATOR_NOT_AVAILABLE
        _log.error("a shard can't be served", shard=self.shard, error=str(error), fenced=fenced)
        self._answer_everybody()
        if not fenced and self._reload is None:
            self._reload = asyncio.get_running_loop().create_task(self._load_again())

    async def _load_again(self) -> None:
        delay_s = _RETRY_FIRST_S
        try:
            while self._coordinator is None:
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_MAX_S)
                try:
                    await self.load()
                except Exception as error:  # noqa: BLE001  # whatever it is, try again
                    _log.error("a shard can't be read", shard=self.shard, error=str(error))
        finally:
            self._reload = None
        _log.warning("a shard is served again", shard=self.shard)
