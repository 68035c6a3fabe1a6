"""The answers that go out on one connection, in the order of their requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import final

from coterie_server.net.exchange import Exchange
from coterie_server.net.registry import Registry

__all__ = ["Outgoing"]


@final
class Outgoing:
    """Writes answers to the transport, which is known once the connection is made."""

    __slots__ = ("_registry", "exchanges", "transport")

    transport: asyncio.Transport

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: The requests in flight, in their order: their answers are still to be sent.
        self.exchanges: deque[Exchange] = deque()

    def write_ready(self) -> bool:
        """Send, as one piece, all answers up to the first that is still awaited."""
        exchanges = self.exchanges
        if not exchanges or (data := exchanges[0].frame) is None:
            return False
        exchanges.popleft()
        if exchanges and exchanges[0].frame is not None:
            data += b"".join(self._take_ready())
        self._registry.bytes_out += len(data)
        self.transport.write(data)
        return True

    def _take_ready(self) -> Iterator[bytes]:
        while self.exchanges and (frame := self.exchanges[0].frame) is not None:
            self.exchanges.popleft()
            yield frame

    def excess(self) -> int:
        """How many bytes are unsent, if that is too much to add an answer that is ready; else 0."""
        if not self.exchanges or self.exchanges[0].frame is None:
            return 0
        unsent_bytes = self.transport.get_write_buffer_size()
        return unsent_bytes if unsent_bytes > self._registry.limits.write_buffer_max_bytes else 0

    def take_all(self) -> deque[Exchange]:
        """Have none in flight any more; returns those that were."""
        taken = self.exchanges.copy()
        self.exchanges.clear()
        return taken
