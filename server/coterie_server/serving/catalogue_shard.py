"""The catalogue of topics being served: stored like a shard of its own, told to all the others.

A change of a topic is known to nobody before it is durable: neither to a client nor to the groups,
which forget the offsets of a topic that is deleted, nor to the journal.  And a deletion is over
only when all groups have forgotten, durably: so what is made anew under the same name begins
without offsets, whatever crashes in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving.failures import failure
from coterie_server.serving.parked_fetches import ParkedFetches
from coterie_server.serving.shard import ServedShard, Surroundings
from coterie_server.storage import StoreError
from coterie_server.topics import Answer, Change, from_stored, to_stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from coterie_server.net import Exchange
    from coterie_server.storage import KeptRecord, Lease
    from coterie_server.topics import Catalogue, PartitionEnds, TopicRow

__all__ = ["CATALOGUE_SHARD", "CatalogueShard", "TopicCounts"]

#: Where the store keeps the topics, apart from all groups.
CATALOGUE_SHARD: Final = -1

#: How long a deletion waits at most for the groups to forget, whatever its client allows.
_DELETION_MIN_S: Final = 1.0
_DELETION_MAX_S: Final = 30.0


@final
class TopicCounts(Mapping[str, int]):
    """How many partitions each topic has, for the coordinators: what is durable, and no more."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._changed_ms: dict[str, int] = {}

    def read(self, topics: Mapping[str, TopicRow]) -> None:
        """Take over what is stored."""
        self.counts = {name: row.partitions for name, row in topics.items()}
        self._changed_ms = {name: row.changed_at_ms for name, row in topics.items()}

    def apply(self, change: Change, date_ms: int) -> None:
        """Take over a change that is durable."""
        if change.after:
            self.counts[change.topic] = change.after
            self._changed_ms[change.topic] = date_ms
        else:
            self.counts.pop(change.topic, None)
            self._changed_ms.pop(change.topic, None)

    def changed_at(self, topic: str) -> int:
        """When a topic was made or grew last."""
        return self._changed_ms.get(topic, 0)

    def __getitem__(self, topic: str) -> int:
        return self.counts[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def get(self, topic: str, default: Any = None) -> Any:  # noqa: ANN401  # as Mapping has it
        """As a dictionary has it; the mixin's would raise and catch for every unknown topic."""
        return self.counts.get(topic, default)


async def _nobody_to_tell() -> None:
    """There are no groups."""


@dataclass(eq=False, slots=True)
class _Deletion:
    """Topics that are being deleted: to be forgotten by all groups before they can be made anew."""

    topics: frozenset[str]
    #: Waits for the groups, once the topics are durably gone.
    task: asyncio.Task[None] | None = None


@final
class CatalogueShard(ServedShard["Exchange"]):
    """Runs the catalogue.

    `on_change` is told of each change when it is durable; `until_told` waits until the groups have
    taken in, durably, what they were told.
    """

    def __init__(
        self,
        lease: Lease,
        around: Surroundings,
        make: Callable[[PartitionEnds], Catalogue],
        *,
        counts: TopicCounts,
        on_change: Callable[[Change], None],
        until_told: Callable[[], Awaitable[None]] = _nobody_to_tell,
    ) -> None:
        super().__init__(lease, around)
        self._make = make
        self._counts = counts
        self._on_change = on_change
        self._until_told = until_told
        self._catalogue: Catalogue | None = None
        self._has_served = False
        self._open: set[Exchange] = set()
        self._parked = ParkedFetches(asyncio.get_running_loop().call_later)
        self._deletions: set[_Deletion] = set()
        #: Requests that may make topics anew that are being deleted.
        self._behind: dict[Exchange, None] = {}

    @property
    def catalogue(self) -> Catalogue | None:
        """The catalogue, while there is one."""
        return self._catalogue

    @property
    def parked(self) -> int:
        """How many requests for records wait, as there never are any."""
        return len(self._parked)

    # -- life ----------------------------------------------------------------------------------

    @property
    def is_served(self) -> bool:
        """Whether there is a catalogue."""
        return self._catalogue is not None

    def _recover(self, stored: Sequence[KeptRecord]) -> None:
        catalogue = self._make(self._ends)
        catalogue.recover(from_stored(key, value) for key, value in stored)
        self._catalogue = catalogue
        if self._has_served:
            # A change may have been stored though the store said that it failed.
            self._tell(list(_differences(self._counts.counts, catalogue.counts)))
        self._counts.read(catalogue.topics)
        self._has_served = True

    def _forget(self) -> None:
        self._catalogue = None
        self._deletions = {each for each in self._deletions if each.task is not None}

    async def close(self) -> None:
        """Wait until what was begun is durable, and let nobody wait for records any longer."""
        self._parked.answer_all()
        await super().close()
        for deletion in self._deletions:
            if deletion.task is not None:
                deletion.task.cancel()

    def _refuse(self, request: Exchange) -> None:
        """Answer with an error, or hang up where there is none that does no harm.

        Clients take Metadata at its word: told of no brokers or of a topic without partitions,
        they rejoin their group or give up what they have.  Of a lost connection they think
        nothing.
        """
        message, version = request.request.message, request.request.api_version
        try:
            answer = failure(message, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except KeyError:
            why = "the node is stopping" if self._is_closed else "topics can't be read just now"
            request.close(why)
        else:
            request.reply(answer)

    def _is_abandoned(self, request: Exchange) -> bool:
        return request.abandoned

    def _refuse_open(self) -> None:
        waiting = [*self._open, *self._take_behind(), *self._parked.take_all()]
        self._open = set()
        for exchange in waiting:
            self._refuse(exchange)

    # -- requests ------------------------------------------------------------------------------

    async def ensure(self, name: str, partitions: int) -> None:
        """See to it that a topic has so many partitions; that is durable then.

        Raises `TopicRefusal` if it can't be, and `StoreError` if the store fails.
        """
        catalogue, queue = self._catalogue, self._queue
        if catalogue is not None and queue is not None:
            self._note(catalogue.ensure(name, partitions, self._clock.date_ms()))
            await queue.settle()
        if catalogue is None or self._catalogue is not catalogue:
            raise StoreError(f"Topic '{name}' could not be stored; the log says why.")

    def submit(self, exchange: Exchange) -> None:
        """Take a request about topics."""
        self.handle(exchange)

    def _take(self, request: Exchange) -> None:
        message, version = request.request.message, request.request.api_version
        if self._deletions and self._is_being_deleted(_named(message)):
            self._behind[request] = None
            request.when_gone(self._leave)
            return
        self._open.add(request)
        now_ms = self._clock.now_ms()
        try:
            if self._catalogue is None or self._queue is None:
                raise AssertionError("a request without a catalogue")  # noqa: TRY301
            answer = self._catalogue.handle(message, version, self._clock.date_of(now_ms))
            if answer.hits:
                self._limit_log.note(answer.hits, now_ms)
            deletion = self._begin_deletion(answer)
            self._note(answer)
            self._queue.when_durable(self._answer, request, answer, deletion)
        except Exception:  # noqa: BLE001  # a bug, whatever it is
            self.core_failed()

    def _note(self, answer: Answer) -> None:
        if self._queue is None:
            raise AssertionError("a catalogue without a queue")
        if answer.records:
            self._queue.put([to_stored(record) for record in answer.records])
        if answer.changes:
            self._queue.when_durable(self._tell, answer.changes)

    def _tell(self, changes: Sequence[Change]) -> None:
        """Let the groups and the journal know what has become of topics; it is durable."""
        for change in changes:
            self._counts.apply(change, self._clock.date_ms())
            if change.change == "deleted":
                self._ends.forget(change.topic)
            self._on_change(change)

    def _answer(
        self, exchange: Exchange, answer: Answer, deletion: _Deletion | None = None
    ) -> None:
        if deletion is not None:
            deletion.task = asyncio.get_running_loop().create_task(
                self._finish(deletion, exchange, answer)
            )
        elif answer.wait_ms and isinstance(answer.message, m.FetchResponse):
            self._open.discard(exchange)
            self._parked.park(exchange, answer.message, answer.wait_ms)
        else:
            self._send(exchange, answer)

    def _send(self, exchange: Exchange, answer: Answer) -> None:
        if exchange not in self._open:
            return
        self._open.discard(exchange)
        if answer.close:
            exchange.close(answer.close)
        else:
            exchange.reply(answer.message)

    # -- deletions -----------------------------------------------------------------------------

    def _is_being_deleted(self, topics: set[str]) -> bool:
        return any(deletion.topics & topics for deletion in self._deletions)

    def _begin_deletion(self, answer: Answer) -> _Deletion | None:
        topics = frozenset(each.topic for each in answer.changes if each.change == "deleted")
        if not topics:
            return None
        deletion = _Deletion(topics)
        self._deletions.add(deletion)
        return deletion

    async def _finish(self, deletion: _Deletion, exchange: Exchange, answer: Answer) -> None:
        """Answer when all groups have forgotten the topics, or as late as the client allows."""
        forgotten = asyncio.ensure_future(self._until_told())
        try:
            allowed_s = exchange.request.message.timeout_ms / 1000
            wait_s = min(max(allowed_s, _DELETION_MIN_S), _DELETION_MAX_S)
            await asyncio.wait({forgotten}, timeout=wait_s)
            if not forgotten.done():
                answer = replace(answer, message=_timed_out(answer.message))
            self._send(exchange, answer)
            await forgotten
        finally:
            forgotten.cancel()
            self._deletions.discard(deletion)
        for waiting in self._take_behind():
            self.handle(waiting)

    def _take_behind(self) -> list[Exchange]:
        taken = list(self._behind)
        self._behind.clear()
        for exchange in taken:
            exchange.when_gone(None)
        return taken

    def _leave(self, exchange: Exchange) -> None:
        del self._behind[exchange]

    # -- those who wait for records ------------------------------------------------------------

    def wake(self, topic: str) -> None:
        """Let everybody who waits for records of a topic know that it is not what it was.

        Whoever leads a group would otherwise assign the partitions that it knows of, and look for
        others minutes later.
        """
        self._parked.wake(topic)


def _differences(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Change]:
    for topic in sorted(before.keys() | after.keys()):
        old, new = before.get(topic, 0), after.get(topic, 0)
        if not new:
            yield Change(topic, "deleted", old, 0)
        elif new != old:
            yield Change(topic, "grown" if old else "created", old, new)


def _named(message: Any) -> set[str]:  # noqa: ANN401  # any request
    """The topics that a request may bring into being."""
    if isinstance(message, m.CreateTopicsRequest | m.MetadataRequest):
        return {topic.name for topic in message.topics or () if topic.name is not None}
    return set()


def _timed_out(message: Any) -> m.DeleteTopicsResponse:  # noqa: ANN401  # an answer is any
    """It is gone, but not all that belongs to it: as Kafka has it, the client may ask again."""
    found: m.DeleteTopicsResponse = message
    return replace(
        found,
        responses=tuple(
            replace(each, error_code=ErrorCode.REQUEST_TIMED_OUT) if not each.error_code else each
            for each in found.responses
        ),
    )
