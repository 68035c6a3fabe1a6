"""The catalogue of topics being served: stored like a shard of its own, told to all the others.

A change of a topic is known nowhere before it is durable: neither to a client nor to the groups,
which forget the offsets of a topic that is deleted, nor to the journal.  And a deletion is over
only when all groups have forgotten, durably: so what is made anew under the same name begins
without offsets, whatever crashes in between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import TopicChanged
from coterie_server.net import Exchange
from coterie_server.only_told import to_be_made
from coterie_server.serving.cluster import CATALOGUE_SHARD, TopicsVersion
from coterie_server.serving.context import NodeContext
from coterie_server.serving.failures import ABOUT_RIGHTS, CHANGES, failure
from coterie_server.serving.parked_fetches import ParkedFetches
from coterie_server.serving.shard import ServedShard
from coterie_server.serving.topic_counts import in_turn
from coterie_server.storage import StoreError
from coterie_server.topics import Catalogue, HangUp, Later, Record, from_stored, to_stored

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from coterie_protocol.journal import Event
    from coterie_server.security.records import Credentials
    from coterie_server.serving.topic_counts import TopicCounts
    from coterie_server.step import Outcome
    from coterie_server.storage import KeptRecord
    from coterie_server.storage import Record as StoreRecord
    from coterie_server.topics import PartitionEnds
    from coterie_server.topics.work import Work

__all__ = ["CATALOGUE_SHARD", "CatalogueShard"]

#: How long a deletion waits for the groups to forget, whatever its client allows; and how long the
#: catalogue is not given up for that.
_DELETION_MIN_S: Final = 1.0
_DELETION_MAX_S: Final = 30.0

#: Requests of which one is taken after the other.
_ABOUT_RIGHTS: Final = (
    *ABOUT_RIGHTS,
    m.AlterUserScramCredentialsRequest,
    m.CreateAclsRequest,
    m.DeleteAclsRequest,
)


async def _no_groups() -> None:
    """Wait for nothing."""


def _no_others() -> None:
    """Tell nothing to any node."""


@dataclass(eq=False, slots=True)
class _Deletion:
    """Topics that are being deleted: to be forgotten by all groups before they can be made anew."""

    #: None stands for all that there may have been.
    topics: frozenset[str] | None
    outcome: Outcome[Record] | None
    #: Waits for the groups, once the topics are durably gone.
    task: asyncio.Task[None] | None = None


@final
class CatalogueShard(ServedShard[Catalogue, Record, Exchange]):
    """Runs the catalogue.

    `on_change` is told what became of topics when that is durable, and `on_rights_change` that ACLs
    or users have changed; `until_told` waits until the groups have taken in, durably, what they
    were told.
    """

    def __init__(
        self,
        context: NodeContext,
        make: Callable[[PartitionEnds], Catalogue],
        *,
        counts: TopicCounts,
        on_change: Callable[[Mapping[str, str]], None],
        on_rights_change: Callable[[], None] = _no_others,
        until_told: Callable[[], Awaitable[None]] = _no_groups,
    ) -> None:
        super().__init__(CATALOGUE_SHARD, context)
        self._make = make
        self._counts = counts
        self._on_change = on_change
        self._on_rights_change = on_rights_change
        self._access = context.access
        self._until_told = until_told
        self._changes = 0
        #: How often it was read here, as the one that changes it.
        self.lives = 0
        #: Whether another node had the catalogue when it was last read, and told of its changes.
        self._is_taken_over = False
        self._parked = ParkedFetches(asyncio.get_running_loop().call_later)
        #: In order.
        self._deletions: dict[_Deletion, None] = {}
        #: Requests that were being carried out when the catalogue's life ended.
        self._in_doubt: set[Exchange] = set()
        #: Requests that have to wait, each with the first thing that it waits for.
        self._behind: dict[Exchange, _Deletion | Work] = {}

    @property
    def parked(self) -> int:
        """How many requests for records wait, as there never are any."""
        return len(self._parked)

    # -- life ----------------------------------------------------------------------------------

    @property
    def version(self) -> TopicsVersion:
        """How far this node has brought the topics."""
        if self._lease is None:
            return TopicsVersion()
        return TopicsVersion(*self._lease.fence, self._changes)

    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        catalogue = self._make(self._ends)
        catalogue.recover(from_stored(key, value) for key, value in stored)
        self.core = catalogue
        self.lives += 1
        self._access.read(catalogue.rights)
        # A change may have been stored though the store said that it failed.  What another node
        # has stored is in that node's journal.
        is_told, self._is_taken_over = self._is_taken_over, False
        self._tell_of(self._counts.read(catalogue.topics), is_journalled=is_told)

    def was_another_nodes(self) -> None:
        """Leave to the journal of another node what has changed until now."""
        self._is_taken_over = True

    def hold_back(self, ready: Awaitable[None]) -> None:
        """Make no topic before all groups have forgotten those that a former owner deleted."""
        deletion = _Deletion(None, None)
        self._deletions[deletion] = None
        deletion.task = asyncio.ensure_future(self._end_hold(deletion, ready))

    async def _end_hold(self, deletion: _Deletion, ready: Awaitable[None]) -> None:
        try:
            await ready
        finally:
            self._end(deletion)

    def _forget(self) -> None:
        super()._forget()
        self._deletions = dict.fromkeys(each for each in self._deletions if each.task is not None)

    async def close(self) -> None:
        """Wait until what was begun is durable, and end the wait for records."""
        self._parked.close()
        await super().close()
        for deletion in self._deletions:
            if deletion.task is not None:
                deletion.task.cancel()

    def _take_open(self) -> list[Exchange]:
        begun = super()._take_open()
        self._in_doubt.update(begun)
        return [*begun, *self._take_behind(), *self._parked.take_all()]

    def _refuse(self, request: Exchange, trouble: ErrorCode | None = None) -> None:
        """Let no client take for refused what may have been stored."""
        if request in self._in_doubt:
            self._in_doubt.discard(request)
            if isinstance(request.message, CHANGES):
                error = ErrorCode.REQUEST_TIMED_OUT
                request.reply(failure(request.message, request.version, error))
                return
        super()._refuse(request, trouble)

    async def until_deletions_end(self) -> None:
        """Let those who delete topics have their answers first, unless that takes long."""
        if await self.until_durable():
            begun = [each.task for each in self._deletions if each.task and each.outcome]
            if begun:
                await asyncio.wait(begun, timeout=_DELETION_MIN_S)

    async def give_up(self) -> None:
        """Serve the topics no longer; those who wait for records are told that there are none."""
        self._parked.answer_all()
        await super().give_up()

    # -- requests ------------------------------------------------------------------------------

    async def ensure(self, name: str, partitions: int) -> None:
        """See to it that a topic has so many partitions; that is durable then.

        Raises `TopicRefusal` if it can't be, and `StoreError` if the store fails.
        """
        while (deletion := self._find_deletion({name})) is not None:
            await (asyncio.wait({deletion.task}) if deletion.task else self.until_durable())
        catalogue = self.core
        if catalogue is not None:
            self.run(lambda now_ms: catalogue.ensure(name, partitions, self._clock.date_of(now_ms)))
        if not await self.until_durable():
            raise StoreError(f"Topic '{name}' could not be stored; the log says why.")

    async def ensure_users(self, users: Credentials) -> list[str]:
        """See to it that there are these users; that is durable then, or raises `StoreError`.

        Returns those who were removed once, and stay so.
        """
        catalogue = self.core
        if catalogue is not None:
            self.run(lambda now_ms: catalogue.ensure_users(users, self._clock.date_of(now_ms)))
        if catalogue is None or not await self.until_durable():
            raise StoreError("the first users can't be stored; the log says why")
        return catalogue.removed(users)

    def _take(self, request: Exchange) -> None:
        if (obstacle := self._find_obstacle(request.message)) is not None:
            self._behind[request] = obstacle
            request.when_gone(self._leave)
            return
        self._open[request] = request
        self.run(self._handle, request)
        if isinstance(request.message, _ABOUT_RIGHTS):
            self._finish_in_turns()

    def _finish_in_turns(self) -> None:
        catalogue = self.core
        if catalogue is not None and catalogue.unfinished is not None:
            self._turns.do(self._go_on(catalogue, catalogue.unfinished))

    def _find_obstacle(self, message: Any) -> _Deletion | Work | None:  # noqa: ANN401  # any request
        """What it has to wait for: the deletion of topics that it may make, or work on rights."""
        if self._deletions and (deletion := self._find_deletion(_named(message))) is not None:
            return deletion
        if self.core is not None and isinstance(message, _ABOUT_RIGHTS):
            return self.core.unfinished
        return None

    def _go_on(self, catalogue: Catalogue, work: Work) -> Iterator[None]:
        """Take the further steps of a request, one in each turn."""
        while self.core is catalogue and not work.is_over:
            self.run(lambda now_ms: work.go_on(self._clock.date_of(now_ms)))
            yield
        if self.core is catalogue:
            catalogue.unfinished = None
            self._resume_behind(work)

    def _handle(self, request: Exchange, now_ms: int) -> Outcome[Record]:
        if self.core is None:
            raise AssertionError("a request without a catalogue")
        outcome = self.core.handle(request, self._clock.date_of(now_ms))
        if outcome.events:
            self._begin_deletion(outcome)
        return outcome

    def _pack(self, records: list[Record]) -> list[StoreRecord]:
        return [to_stored(record) for record in records]

    def _send(self, outcome: Outcome[Record]) -> None:
        # A change has the date at which it became durable.
        self._tell(outcome.events)
        if changes := self._access.apply(outcome.records):
            self._changes += changes
            self._on_rights_change()
        deletion = next((each for each in self._deletions if each.outcome is outcome), None)
        if deletion is not None:
            finish = self._finish(deletion, outcome)
            deletion.task = asyncio.get_running_loop().create_task(finish)
        else:
            self._answer(outcome.replies)

    def _tell(self, events: Iterable[Event]) -> None:
        """Let the groups and the journal know what has become of topics; it is durable."""
        topics = {} if self.core is None else self.core.topics
        changes = [each for each in events if isinstance(each, TopicChanged)]
        for change in changes:
            self._counts.apply(change, topics.get(change.topic))
        self._tell_of(changes)

    def _tell_of(self, changes: Sequence[TopicChanged], *, is_journalled: bool = False) -> None:
        for change in changes:
            self._changes += 1
            if change.change == "deleted":
                self._ends.forget(change.topic)
            if not is_journalled:
                self._observe(self._clock.date_ms(), change)
        for told in in_turn(changes):
            self._on_change(told)

    def _answer(self, replies: Iterable[tuple[Any, Any]]) -> None:
        for request, answer in replies:
            exchange = self._open.pop(request, None)
            if exchange is None:
                continue
            match answer:
                case Later(message, wait_ms):
                    self._parked.park(exchange, message, wait_ms)
                case HangUp(why):
                    exchange.close(why)
                case _:
                    exchange.reply(answer)

    # -- deletions -----------------------------------------------------------------------------

    def _find_deletion(self, topics: set[str]) -> _Deletion | None:
        missing = topics - self._counts.keys()
        for deletion in self._deletions:
            if missing if deletion.topics is None else deletion.topics & topics:
                return deletion
        return None

    def _begin_deletion(self, outcome: Outcome[Record]) -> None:
        topics = frozenset(
            each.topic
            for each in outcome.events
            if isinstance(each, TopicChanged) and each.change == "deleted"
        )
        if topics:
            self._deletions[_Deletion(topics, outcome)] = None

    async def _finish(self, deletion: _Deletion, outcome: Outcome[Record]) -> None:
        """Answer when all groups have forgotten the topics, or as late as the client allows."""
        ((request, answer),) = outcome.replies
        forgotten = asyncio.ensure_future(self._until_told())
        try:
            allowed_s = request.message.timeout_ms / 1000
            wait_s = min(max(allowed_s, _DELETION_MIN_S), _DELETION_MAX_S)
            await asyncio.wait({forgotten}, timeout=wait_s)
            if not forgotten.done():
                answer = _timed_out(answer)
            self._answer([(request, answer)])
            await forgotten
        finally:
            forgotten.cancel()
            self._end(deletion)

    def _end(self, deletion: _Deletion) -> None:
        self._deletions.pop(deletion, None)
        self._resume_behind(deletion)

    def _resume_behind(self, obstacle: _Deletion | Work) -> None:
        """Go on with what has waited for this; the rest has to wait for something else still."""
        for exchange in [each for each, it in self._behind.items() if it is obstacle]:
            del self._behind[exchange]
            exchange.when_gone(None)
            exchange.resume(partial(self.handle, exchange))

    def _take_behind(self) -> list[Exchange]:
        taken = list(self._behind)
        self._behind.clear()
        for exchange in taken:
            exchange.when_gone(None)
        return taken

    def _leave(self, exchange: Exchange) -> None:
        del self._behind[exchange]

    # -- clients that wait for records ---------------------------------------------------------

    def wake(self, topics: Collection[str]) -> None:
        """Answer all who wait for records of topics that are not what they were.

        The leader of a group would otherwise assign the partitions that it knows of, and look for
        others minutes later.
        """
        self._parked.wake(topics)


def _named(message: Any) -> set[str]:  # noqa: ANN401  # any request
    """The topics that a request may bring into being."""
    if isinstance(message, m.CreateTopicsRequest):
        return {topic.name for topic in message.topics}
    return set(to_be_made(message)) if isinstance(message, m.MetadataRequest) else set()


def _timed_out(message: Any) -> m.DeleteTopicsResponse:  # noqa: ANN401  # an answer is any
    """A topic is gone, but not all that belongs to it: as with Kafka, the client may ask again."""
    found: m.DeleteTopicsResponse = message
    return replace(
        found,
        responses=tuple(
            replace(each, error_code=ErrorCode.REQUEST_TIMED_OUT) if not each.error_code else each
            for each in found.responses
        ),
    )
