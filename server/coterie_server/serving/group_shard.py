"""A shard of groups: its coordinator is run, and told of topics that change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Final, final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupRecovered
from coterie_protocol.messages import (
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from coterie_server.group import END_OF_TIME_MS, GroupCoordinator, Record
from coterie_server.group.records import from_stored, to_stored
from coterie_server.serving.context import NodeContext, PendingRequest
from coterie_server.serving.shard import ServedShard
from coterie_server.serving.together import Together
from coterie_server.step import Outcome, Refusal
from coterie_server.storage import Record as StoreRecord
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from coterie_protocol.journal import Event
    from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
    from coterie_server.group.step import Step
    from coterie_server.storage import Fence, KeptRecord, Lease
    from coterie_server.turns import Making, Turns

__all__ = ["GroupShard", "fire_due", "load_all", "tell_of_topics"]

#: How many groups are looked at in one turn of the event loop, in whole shards.
_GROUPS_AT_ONCE: Final = 2000
#: How many shards a node that starts reads at the same time, as each waits for the store, which may
#: be far away.  What is stored is in memory twice meanwhile.
_SHARDS_AT_ONCE: Final = 10

#: By these, partitions change hands.
_MOVING: Final = frozenset({JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest})

_NOT_NOW: Final = "The group can't be served just now; try again."


async def _know_already() -> None:
    """Have nothing to find out."""


def _do_nothing(*_: object) -> None:
    """Tell nothing to any group, or accept all."""


@dataclass(eq=False, slots=True)
class _TopicChanges:
    """What groups have to be told of topics, until all that comes of it is durable."""

    #: What became of each topic.
    changes: Mapping[str, str]
    at_ms: int
    #: Whether the present coordinator was told.
    is_told: bool = False
    is_taken_in: asyncio.Event = field(default_factory=asyncio.Event)


@final
class GroupShard(ServedShard[GroupCoordinator, Record, PendingRequest]):
    """Runs the coordinator of one shard."""

    def __init__(
        self,
        shard: int,
        context: NodeContext,
        make: Callable[[], GroupCoordinator],
        *,
        is_lossy: bool = False,
        check: Callable[[GroupCoordinator], None] = _do_nothing,
        know_topics: Callable[[], Awaitable[None]] = _know_already,
    ) -> None:
        super().__init__(shard, context)
        self._make = make
        self._check = check
        self._listeners = context.listeners
        self._forget_groups = context.forget
        #: The groups that it had when it let go of its core.
        self._former_groups: tuple[str, ...] = ()
        #: Whether rows may be missing in the store.
        self._is_lossy = is_lossy
        #: Whether topics may be, which lasts: they are made anew only after the groups are read.
        self._lacks_topics = is_lossy
        self._know_topics = know_topics
        #: Whether another node may have had the shard last.
        self._is_taken_over = False
        #: Whether its first reading under the lease has not begun yet.
        self._is_unread = True
        self._changes: list[_TopicChanges] = []
        self._together = Together(self._take_together)
        #: When the shard came back from another node, in the time of the event loop; 0 if it
        #: never was away.
        self._back_since_ms = 0
        self._was_away = False
        #: Whether all that came of reading the shard is durable.
        self.has_recovered = False

    # -- life ----------------------------------------------------------------------------------

    def take_over(self, lease: Lease, how: str = "free", former_owner: str = "") -> None:
        """The shard is this node's now, and was another's."""
        self._is_taken_over = True
        super().take_over(lease, how, former_owner)

    async def load(self) -> None:
        """Read the shard and serve it from then on.

        The node that had it may have known topics that this one has not heard of, and accepted
        offsets in them, which would be taken for those of deleted topics.
        """
        if self._is_taken_over:
            await self._know_topics()
            self._is_taken_over = False
        self._is_unread = False
        await super().load()

    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        coordinator, now_ms = self._make(), self._clock.now_ms()
        timeline = 0 if self._lease is None else self._lease.fence.timeline
        rows = starmap(from_stored, stored)
        outcome = coordinator.recover(
            rows,
            now_ms,
            is_lossy=self._is_lossy,
            lacks_topics=self._lacks_topics,
            timeline=timeline,
        )
        self._check(coordinator)
        outcome.events[:] = map(self._with_fence, outcome.events)
        for group in coordinator.groups.values():
            sizes = None if self._lacks_topics else coordinator.table.topics
            self._ends.recover(group.offsets.rows(), sizes)
        self.core = coordinator
        self._release(outcome, now_ms)
        if self._queue is not None:
            self._queue.when_durable(self._recovered)
        if (due_ms := coordinator.next_deadline()) is not None:
            self._arm(due_ms)
        # What they may have missed, or forgotten with the shard's memory.
        for change in list(self._changes):
            if self.core is coordinator:
                change.is_told = False
                self._tell(change, change.at_ms)

    @property
    def recovered_under(self) -> Fence | None:
        """The fence of the lease under which all that came of reading the shard is durable."""
        return self._lease.fence if self._lease is not None and self.has_recovered else None

    def _with_fence(self, event: Event) -> Event:
        """Say under which lease a group was read, which orders the journals of several nodes."""
        if isinstance(event, GroupRecovered):
            return replace(event, fence=self.fence_number)
        return event

    def _recovered(self) -> None:
        self._is_lossy = False
        self.has_recovered = True

    def _forget(self) -> None:
        if self.core is not None:
            self._former_groups = tuple(self.core.groups)
        super()._forget()
        self._together.forget()  # They are refused with all others that await their answers.
        self.has_recovered = False

    def own(self, lease: Lease, how: str = "start", former_owner: str = "") -> None:
        """The shard is this node's; it is to be loaded.  `how` is what the journal says."""
        super().own(lease, how, former_owner)
        self._is_unread = True
        if self._was_away:
            self._back_since_ms = int(asyncio.get_running_loop().time() * 1000)

    def _end_life(self, trouble: ErrorCode) -> None:
        super()._end_life(trouble)
        if self._lease is None:  # the node that has the shard tells its groups
            self._was_away = True
            self._forget_groups(self._former_groups)
            self._former_groups = ()
            changes, self._changes = self._changes, []
            for change in changes:
                change.is_taken_in.set()

    # -- requests and time ---------------------------------------------------------------------

    def _take(self, request: PendingRequest) -> None:
        if self.core is not None and self._opens(request):
            self.run(self.core.handle, request)
            self._have_listeners_told((request,))

    def _opens(self, request: PendingRequest) -> bool:
        """Note that a request awaits its answer, unless it is not to be taken any more."""
        if self._back_since_ms and self._may_be_overtaken(request):
            request.close("a commit may have been overtaken on its way, while another node had it")
            return False
        self._open[request] = request
        return True

    def handle_soon(self, request: PendingRequest) -> None:
        """Take a request together with others that come in this turn of the event loop.

        Each has a step of its own, but what comes of them is stored, told and answered at once:
        most of what follows a step costs as much for many as for one.
        """
        if self.core is None or not self._trust.holds:
            self.handle(request)
        elif self._opens(request):
            self._together.add(request)

    def _hold(self, request: PendingRequest) -> None:
        self._together.take()  # or it would be held before them
        super()._hold(request)

    def _take_together(self, together: list[PendingRequest]) -> None:
        core = self.core
        if core is None or not self._trust.holds:  # since they came
            for request in together:
                del self._open[request]
                self.handle(request)
            return
        self._run_all(core.handle, zip(together, strict=True))
        self._have_listeners_told(together)

    def run(self, step: Callable[..., Outcome[Record]], *arguments: object) -> None:
        """Take a step, behind the requests that came before; nothing is done if these fail."""
        if self._together.waiting:
            self._together.take()
            if self.core is None:
                return
        super().run(step, *arguments)

    def _may_be_overtaken(self, request: PendingRequest) -> bool:
        """Whether a commit may be older than one that another node has taken.

        The order of commits is known for as long as one process has the shard.  What is on its way
        on a connection from before may have been given up, and sent anew to that node.
        """
        message = request.message
        is_numbered = type(message) is OffsetCommitRequest and message.sequence >= 0
        return is_numbered and request.connected_ms <= self._back_since_ms

    def _have_listeners_told(self, requests: Iterable[PendingRequest]) -> None:
        """A member that joins may let go of what it had, and is answered only later."""
        if self._listeners.are_any and self._queue is not None:
            for each in requests:
                if type(each.message) in _MOVING:
                    self._queue.when_durable(self._listeners.tell, each.message.group_id)

    def _tell_events(self, events: Sequence[Event], date_ms: int) -> None:
        super()._tell_events(events, date_ms)
        if self._listeners.are_any:
            for event in events:
                if (group := getattr(event, "group", None)) is not None:
                    self._listeners.tell(group)

    def _pack(self, records: list[Record]) -> list[StoreRecord]:
        return list(map(to_stored, records))

    def _send_all(self, outcomes: Sequence[Outcome[Record]], accepted_at: int) -> None:
        for outcome in outcomes:
            if outcome.records:
                self._ends.note(outcome.records, accepted_at)
        super()._send_all(outcomes, accepted_at)

    def try_heartbeat(self, message: HeartbeatRequest) -> HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled.

        There are more heartbeats than all other requests together.  Nothing comes of most of them
        that is stored or told, and while nothing has to be durable first, they are spared the way
        of the others, which costs more than what is done at its end.
        """
        coordinator, queue = self.core, self._queue
        if coordinator is None or queue is None or not queue.is_settled or not self._trust.holds:
            return None
        return coordinator.try_heartbeat(message, self._clock.now_ms())

    def fire_due(self, now_ms: int) -> bool:
        """Do what is due by now, unless another node may be doing it; whether anything was done."""
        due_ms = self.next_deadline()
        if self.core is None or due_ms is None or due_ms > now_ms:
            return False
        if not self._trust.holds:
            self._trust.doubt()
            return False
        self.run(self.core.fire)
        return True

    @property
    def is_forming(self) -> bool:
        """Whether a group waits for further members before it begins; its members aren't stored."""
        groups = () if self.core is None else self.core.groups.values()
        return any(group.initial_delay is not None for group in groups)

    @property
    def group_count(self) -> int:
        """How many groups it has."""
        return 0 if self.core is None else len(self.core.groups)

    def groups_of(self, owner: str) -> int:
        """How many of its groups a principal has made."""
        return 0 if self.core is None else self.core.table.owned[owner]

    def next_deadline(self) -> int | None:
        """When something is due next."""
        return None if self.core is None else self.core.table.deadlines.next()

    async def operate(self, operation: Callable[[Step], None]) -> None:
        """Do what an operator asks for, and wait until it is durable; may raise `Refusal`.

        It may be about a topic that another node has told of, and this one has yet to hear of.
        """
        await self._know_topics()
        if self.core is None or not self._trust.holds:
            raise Refusal("not_available", _NOT_NOW)
        self.run(self.core.operate, operation)
        if not await self.until_durable():
            raise Refusal("not_available", _NOT_NOW)

    # -- topics --------------------------------------------------------------------------------

    def topics_changed(self, changes: Mapping[str, str]) -> Callable[[], None]:
        """Take note of what became of topics; the result tells the shard's groups about it.

        `until_told` waits until they know for good.
        """
        if self._lease is None:
            return _do_nothing  # the node that has the shard sees to it
        if self._is_unread:
            # Its groups are compared with all topics when it is read.  What this node has only now
            # heard of may be long past for them: what is stored may belong to what came after.
            return _do_nothing
        entry = _TopicChanges(changes, self._clock.date_ms())
        self._changes.append(entry)
        return partial(self._tell, entry, END_OF_TIME_MS)

    def _tell(self, change: _TopicChanges, until_ms: int) -> None:
        coordinator = self.core
        if coordinator is None or change.is_told or change not in self._changes:
            return
        change.is_told = True
        self.run(coordinator.topics_changed, change.changes, until_ms)
        if self._queue is not None and self.core is coordinator:
            self._queue.when_durable(self._taken_in, change)

    def _taken_in(self, change: _TopicChanges) -> None:
        self._changes.remove(change)
        change.is_taken_in.set()

    async def until_told(self) -> None:
        """Wait until all that groups were told of topics is durable, whatever the store does."""
        for change in list(self._changes):
            await change.is_taken_in.wait()


# -- all shards, of which each may have to look at all of its groups -------------------------------


async def load_all(shards: Iterable[GroupShard]) -> None:
    """Read shards when a node starts, some at a time, and serve them from then on."""
    rest = list(shards)
    while rest:
        now, rest = rest[:_SHARDS_AT_ONCE], rest[_SHARDS_AT_ONCE:]
        await asyncio.gather(*(shard.load() for shard in now))


def fire_due(shards: Sequence[GroupShard], now_ms: int) -> None:
    """Do what is due by now, or the first of it if that is much: the rest stays due."""
    piece = Piece(_GROUPS_AT_ONCE)
    for shard in shards:
        if shard.fire_due(now_ms) and piece.is_whole(shard.group_count):
            break


def tell_of_topics(shards: Sequence[GroupShard], changes: Mapping[str, str], turns: Turns) -> None:
    """Tell the groups of all shards what became of topics, in turns if there are many groups."""
    tellings = [shard.topics_changed(changes) for shard in shards]

    def tell() -> Making[None]:
        piece = Piece(_GROUPS_AT_ONCE)
        for shard, tell_groups in zip(shards, tellings, strict=True):
            tell_groups()
            if piece.is_whole(shard.group_count):
                yield

    rest = begin(tell())
    if rest is not None:
        turns.do(rest.making)
