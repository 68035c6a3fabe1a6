"""A shard of groups being served: its coordinator, and who awaits an answer of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from coterie_server.group import END_OF_TIME_MS, Call, Coordinator, Refusal
from coterie_server.serving.failures import failure
from coterie_server.serving.shard import ServedShard, Surroundings
from coterie_server.storage import StoreError
from coterie_server.storage.offset_bundles import OffsetBundles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie_protocol.journal import Event
    from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
    from coterie_server.group import Outcome
    from coterie_server.serving.fan_out import Replies
    from coterie_server.storage import KeptRecord, Lease

__all__ = ["GroupShard"]

_NOT_NOW: Final = "The group can't be served just now; try again."


@dataclass(eq=False, slots=True)
class _TopicChange:
    """What groups have to be told of a topic, until all that comes of it is durable."""

    topic: str
    change: str
    at_ms: int
    is_taken_in: asyncio.Event = field(default_factory=asyncio.Event)


@final
class GroupShard(ServedShard[tuple["Replies", Call]]):
    """Runs the coordinator of one shard."""

    def __init__(
        self,
        lease: Lease,
        around: Surroundings,
        make: Callable[[], Coordinator],
        *,
        observe: Callable[[int, Event], None],
        arm: Callable[[int], None],
        generations_lost: int = 0,
    ) -> None:
        super().__init__(lease, around)
        self._generations_lost = generations_lost
        self._make = make
        self._observe = observe
        self._arm = arm
        self._coordinator: Coordinator | None = None
        self._bundles = OffsetBundles()
        #: Everybody who awaits an answer, parked or held back until something is durable.
        self._open: dict[Replies, Call] = {}
        self._changes: list[_TopicChange] = []

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator, while there is one."""
        return self._coordinator

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_served(self) -> bool:
        """Whether there is a coordinator."""
        return self._coordinator is not None

    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        coordinator, bundles, now_ms = self._make(), OffsetBundles(), self._clock.now_ms()
        lost = self._generations_lost
        outcome = coordinator.recover(bundles.unpack(stored), now_ms, generations_lost=lost)
        for group in coordinator.groups.values():
            self._ends.recover(group.offsets.values(), coordinator.topics)
        self._bundles, self._coordinator = bundles, coordinator
        self._release(outcome, now_ms)
        if lost and self._queue is not None:
            self._queue.when_durable(self._skipped)
        self._arm_next()
        # What they may have missed, or forgotten with the shard's memory.
        for change in list(self._changes):
            if self._coordinator is coordinator:
                self._tell(change, change.at_ms)

    def _skipped(self) -> None:
        self._generations_lost = 0

    async def until_durable(self) -> None:
        """Wait until all that has happened so far is durable, or raise `StoreError`."""
        coordinator, queue = self._coordinator, self._queue
        if queue is not None:
            await queue.settle()
        if coordinator is None or self._coordinator is not coordinator:
            raise StoreError(f"shard {self.shard} can't be stored; the log says why")

    def _forget(self) -> None:
        self._coordinator = None

    def fence(self) -> None:
        """Another node has the shard, and tells its groups what they have to know."""
        super().fence()
        changes, self._changes = self._changes, []
        for change in changes:
            change.is_taken_in.set()

    def _refuse(self, request: tuple[Replies, Call]) -> None:
        ticket, call = request
        ticket.reply(failure(call.message, call.version, self._trouble))

    def _is_abandoned(self, request: tuple[Replies, Call]) -> bool:
        return request[0].abandoned

    def _refuse_open(self) -> None:
        waiting, self._open = self._open, {}
        for request in waiting.items():
            self._refuse(request)

    # -- requests and time ---------------------------------------------------------------------

    def submit(self, ticket: Replies, call: Call) -> None:
        """Take a request; the ticket gets its reply now or later, exactly once."""
        self.handle((ticket, call))

    def _take(self, request: tuple[Replies, Call]) -> None:
        ticket, call = request
        if self._coordinator is not None:
            self._open[ticket] = call
            self.run(self._coordinator.handle, ticket, call)

    def hear(self, message: HeartbeatRequest) -> HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be submitted.

        There are more heartbeats than all other requests together.  Nothing comes of most of them
        that is stored or told, and while nothing has to be durable first, they are spared the way
        of the others, which costs more than what is done at its end.
        """
        coordinator, queue = self._coordinator, self._queue
        if coordinator is None or queue is None or not queue.is_settled or not self._trust.holds:
            return None
        return coordinator.hear(message, self._clock.now_ms())

    def fire_due(self, now_ms: int) -> None:
        """Do what is due by now, unless somebody else may be doing it."""
        due_ms = self.next_deadline()
        if self._coordinator is None or due_ms is None or due_ms > now_ms:
            return
        if self._trust.holds:
            self.run(self._coordinator.fire)
        else:
            self._trust.doubt()

    def next_deadline(self) -> int | None:
        """When something is due next."""
        return None if self._coordinator is None else self._coordinator.next_deadline()

    async def force_rebalance(self, group_id: str) -> None:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        coordinator, queue = self._coordinator, self._queue
        if coordinator is None or queue is None or not self._trust.holds:
            raise Refusal("not_available", _NOT_NOW)
        self.run(coordinator.force_rebalance, group_id)
        await queue.settle()
        if self._coordinator is not coordinator:
            raise Refusal("not_available", _NOT_NOW)

    # -- topics --------------------------------------------------------------------------------

    def topic_changed(self, topic: str, change: str) -> None:
        """Let the shard's groups know about a topic; `settled` tells when they do for good."""
        if self._lease is None:
            return  # Whoever has the shard sees to it.
        entry = _TopicChange(topic, change, self._clock.date_ms())
        self._changes.append(entry)
        self._tell(entry, END_OF_TIME_MS)

    def _tell(self, change: _TopicChange, until_ms: int) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            return
        self.run(coordinator.topic_changed, change.topic, change.change, until_ms)
        if self._queue is not None and self._coordinator is coordinator:
            self._queue.when_durable(self._taken_in, change)

    def _taken_in(self, change: _TopicChange) -> None:
        self._changes.remove(change)
        change.is_taken_in.set()

    async def settled(self) -> None:
        """Wait until all that groups were told of topics is durable, whatever the store does."""
        for change in list(self._changes):
            await change.is_taken_in.wait()

    # -- what comes of a step ------------------------------------------------------------------

    def run(self, step: Callable[..., Outcome], *arguments: object) -> None:
        """Take a step of the coordinator, at the present time, and see to what comes of it.

        A step that raises is a bug, and it may have left a group half changed.  What is stored is
        sound, so the shard is read again.
        """
        now_ms = self._clock.now_ms()
        try:
            self._release(step(*arguments, now_ms), now_ms)
            self._arm_next()
        except Refusal:
            raise  # it says no, and has changed nothing
        except Exception:  # noqa: BLE001  # a bug, whatever it is
            self.core_failed()

    def _arm_next(self) -> None:
        if (due_ms := self.next_deadline()) is not None:
            self._arm(due_ms)

    def _release(self, outcome: Outcome, now_ms: int) -> None:
        queue = self._queue
        if queue is None:
            raise AssertionError("a coordinator without a queue")
        if outcome.hits:
            self._limit_log.note(outcome.hits, now_ms)
        if outcome.records:
            queue.put(self._bundles.pack(outcome.records))
            queue.when_durable(self._ends.note, outcome.records, self._ends.deletions)
        if outcome.replies or outcome.events:
            queue.when_durable(self._send, outcome, self._clock.date_of(now_ms))

    def _send(self, outcome: Outcome, date_ms: int) -> None:
        for ticket, message in outcome.replies:
            if self._open.pop(ticket, None) is not None:
                ticket.reply(message)
        for event in outcome.events:
            self._observe(date_ms, event)
