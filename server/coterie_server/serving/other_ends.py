"""Where partitions end, as far as the groups of other nodes have committed.

Consumers and whoever watches lags ask for that often, and each question takes a connection to each
other node.  So all who ask while the nodes are being asked share the next answer: whatever clients
do, a node asks each of the others one thing at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, final

from coterie_server.serving.other_nodes import LATEST
from coterie_server.serving.turnstile import Turnstile

if TYPE_CHECKING:
    from coterie_protocol import messages as m

__all__ = ["OtherEnds"]

#: About how much is asked at once, unless one client asks for more: no client's question may be
#: too large for another node only because others ask as well.
_QUESTION_BYTES: Final = 65_536
_INDEX_BYTES: Final = 4

Ask = Callable[[Mapping[str, Iterable[int]]], Awaitable[Iterable[tuple[str, int, int]]]]
"""Asks all other nodes for the ends of partitions, by topic; may raise `PeerError`."""
RaiseTo = Callable[[str, int, int], object]
"""Takes note of an end."""


@final
class OtherEnds:
    """Asks the other nodes, for all clients at once."""

    def __init__(self, ask: Ask, raise_to: RaiseTo) -> None:
        self._ask, self._raise_to = ask, raise_to
        #: What is still to be asked.
        self._waiting: deque[_Question] = deque()
        self._asking: asyncio.Task[None] | None = None
        self._turnstile = Turnstile()

    async def learn(self, message: m.ListOffsetsRequest) -> None:
        """Know all ends that a request asks for, as far as was committed when this was called.

        Raises `PeerError` if a node can't be asked.
        """
        if not self._waiting or self._waiting[-1].is_full:
            self._waiting.append(_Question())
        question = self._waiting[-1]
        question.add(message)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask_in_turn())
        await asyncio.shield(question.answered)
        await self._turnstile.go_through()

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask_in_turn(self) -> None:
        while self._waiting:
            question = self._waiting.popleft()
            try:
                ends = await self._ask(question.indexes)
            except Exception as error:  # noqa: BLE001  # those who wait are told, whatever it is
                question.answered.set_exception(error)
                question.answered.exception()  # they may be gone
                continue
            for topic, partition, offset in ends:
                self._raise_to(topic, partition, offset)
            question.answered.set_result(None)


@final
class _Question:
    """What several clients want to know."""

    def __init__(self) -> None:
        self.indexes: dict[str, set[int]] = {}
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether whoever comes next asks another one."""
        return self._bytes >= _QUESTION_BYTES

    def add(self, message: m.ListOffsetsRequest) -> None:
        """Ask for what one more client asks for."""
        for topic in message.topics:
            latest = {each.partition_index for each in topic.partitions if each.timestamp == LATEST}
            if not latest:
                continue
            if topic.name not in self.indexes:
                self.indexes[topic.name] = set()
                self._bytes += len(topic.name)
            known = self.indexes[topic.name]
            self._bytes += len(latest - known) * _INDEX_BYTES
            known |= latest
