"""The catalogue of topics being served: stored like a shard of its own, told to all the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import structlog

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import FetchResponse
from coterie_server.failures import failure
from coterie_server.limit_log import LimitLog
from coterie_server.pump import Pump
from coterie_server.store import StoreError
from coterie_server.topics import from_stored, outdated, to_stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_server.clock import Clock
    from coterie_server.net import Exchange
    from coterie_server.pump import Meter
    from coterie_server.store import Lease, Store
    from coterie_server.topics import Answer, Catalogue, Change

__all__ = ["CATALOGUE_SHARD", "TopicCounts", "TopicRunner"]

_log = structlog.get_logger(__name__)

#: Where the store keeps the topics, apart from all groups.
CATALOGUE_SHARD: Final = -1

_RETRY_S = 0.5


@final
class TopicCounts(Mapping[str, int]):
    """How many partitions each topic has, for the coordinators; always the present catalogue's."""

    def __init__(self) -> None:
        self.counts: Mapping[str, int] = {}

    def __getitem__(self, topic: str) -> int:
        return self.counts[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def get(self, topic: str, default: Any = None) -> Any:  # noqa: ANN401  # as Mapping has it
        """As a dictionary has it; the mixin's would raise and catch for every unknown topic."""
        return self.counts.get(topic, default)


class TopicRunner:
    """Runs the catalogue."""

    def __init__(
        self,
        lease: Lease,
        store: Store,
        make: Callable[[], Catalogue],
        clock: Clock,
        *,
        counts: TopicCounts,
        on_change: Callable[[Change], None],
        meter: Meter | None = None,
        limit_log: LimitLog | None = None,
    ) -> None:
        self._lease = lease
        self._store = store
        self._make = make
        self._clock = clock
        self._counts = counts
        self._on_change = on_change
        self._meter = meter
        self._limit_log = limit_log or LimitLog()
        self._catalogue: Catalogue | None = None
        self._pump: Pump | None = None
        self._open: set[Exchange] = set()
        #: Of these, who waits for records, and what they are told when they have waited enough.
        self._parked: dict[Exchange, Answer] = {}
        self._reload: asyncio.Task[None] | None = None
        self._why_not = "the catalogue of topics can't be read just now"

    @property
    def catalogue(self) -> Catalogue | None:
        """The catalogue, while there is one."""
        return self._catalogue

    @property
    def parked(self) -> int:
        """How many requests await their answers: those for records, above all."""
        return len(self._open)

    async def load(self) -> None:
        """Read the topics and serve them from then on."""
        stored = await self._store.load(CATALOGUE_SHARD)
        catalogue = self._make()
        catalogue.recover(from_stored(key, value) for key, value in stored)
        self._pump = Pump(self._store, self._lease, self._fail, self._meter)
        self._catalogue = catalogue
        self._counts.counts = catalogue.counts

    async def ensure(self, name: str, partitions: int) -> None:
        """See to it that a topic has so many partitions; that is durable then.

        Raises `TopicRefusal` if it can't be, and `StoreError` if the store fails.
        """
        catalogue, pump = self._catalogue, self._pump
        if catalogue is not None and pump is not None:
            answer = catalogue.ensure(name, partitions, self._clock.now_ms())
            self._store_and_tell(answer)
            await pump.settle()
        if catalogue is None or self._catalogue is not catalogue:
            raise StoreError(f"Topic '{name}' could not be stored; the log says why.")

    async def close(self) -> None:
        """Wait until what was begun is durable, and let nobody wait for records any longer."""
        if self._reload is not None:
            self._reload.cancel()
        if self._pump is not None:
            await self._pump.settle()
        self._catalogue = None
        self._why_not = "the node is stopping"
        for exchange, answer in list(self._parked.items()):
            self._send(exchange, answer)

    def submit(self, exchange: Exchange) -> None:
        """Take a request about topics."""
        request = exchange.request
        if self._catalogue is None or self._pump is None:
            self._refuse(exchange)
            return
        now_ms = self._clock.now_ms()
        try:
            answer = self._catalogue.handle(request.message, request.api_version, now_ms)
        except Exception as error:  # noqa: BLE001  # a bug, whatever it is
            _log.exception("the catalogue failed; it is read again")
            self._open.add(exchange)
            self._fail(error)
            return
        if answer.hits:
            self._limit_log.note(answer.hits, now_ms)
        self._store_and_tell(answer)
        self._open.add(exchange)
        self._pump.when_durable(partial(self._answer, exchange, answer))

    def wake(self, topic: str) -> None:
        """Let everybody who waits for records of a topic know that it is not what it was.

        Whoever leads a group would otherwise assign the partitions that it knows of, and look for
        others minutes later.
        """
        for exchange, answer in list(self._parked.items()):
            message = answer.message
            if isinstance(message, FetchResponse) and _is_about(message, topic):
                self._send(exchange, replace(answer, message=outdated(message, topic)))

    def _store_and_tell(self, answer: Answer) -> None:
        pump = self._pump
        if pump is None:
            raise AssertionError("an answer of a catalogue without a pump")
        if answer.records:
            pump.put([to_stored(record) for record in answer.records])
        for change in answer.changes:
            pump.when_durable(self._on_change, change)

    def _answer(self, exchange: Exchange, answer: Answer) -> None:
        if answer.wait_ms:
            self._parked[exchange] = answer
            loop = asyncio.get_running_loop()
            loop.call_later(answer.wait_ms / 1000, self._send, exchange, answer)
        else:
            self._send(exchange, answer)

    def _send(self, exchange: Exchange, answer: Answer) -> None:
        if exchange not in self._open:
            return
        self._open.discard(exchange)
        self._parked.pop(exchange, None)
        if answer.close:
            exchange.close(answer.close)
        else:
            exchange.reply(answer.message)

    def _refuse(self, exchange: Exchange) -> None:
        """Answer with an error, or hang up where there is none that does no harm.

        Clients take Metadata at its word: told of no brokers or of a topic without partitions,
        they rejoin their group or give up what they have.  Of a lost connection they think
        nothing.
        """
        request = exchange.request
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            exchange.reply(failure(request.message, request.api_version, error))
        except KeyError:
            exchange.close(self._why_not)

    def _fail(self, error: Exception) -> None:
        _log.error("topics can't be served", error=str(error))
        self._catalogue = None
        self._parked.clear()
        waiting, self._open = self._open, set()
        for exchange in waiting:
            self._refuse(exchange)
        if self._reload is None:
            self._reload = asyncio.get_running_loop().create_task(self._load_again())

    async def _load_again(self) -> None:
        try:
            while self._catalogue is None:
                await asyncio.sleep(_RETRY_S)
                try:
                    await self.load()
                except Exception as error:  # noqa: BLE001  # whatever it is, try again
                    _log.error("topics can't be read", error=str(error))
        finally:
            self._reload = None
        _log.warning("topics are served again")


def _is_about(message: FetchResponse, topic: str) -> bool:
    return any(each.topic == topic for each in message.responses)
