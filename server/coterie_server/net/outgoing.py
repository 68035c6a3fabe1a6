"""The answers that go out on a connection, in the order of their requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, final

from coterie_protocol import ApiKey
from coterie_server.net.exchange import Exchange
from coterie_server.net.registry import Registry

__all__ = ["Outgoing"]

#: More than this for one client does not wait for what others get: what it does not read has to
#: show at once.
_POSTED_TOGETHER_MAX_BYTES: Final = 4096
#: To copy more than this costs more than to write it by itself.
_WRITTEN_TOGETHER_MAX_BYTES: Final = 65_536


@final
class Outgoing:
    """Writes answers to the transport, which is known once the connection is made."""

    __slots__ = (
        "_registry",
        "_unposted",
        "_written_bytes",
        "exchanges",
        "finished_bytes",
        "has_patient",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        #: The requests in flight, in their order: their answers are still to be sent.
        self.exchanges: deque[Exchange] = deque()
        #: Whether some of them may be answered early, for the sake of those behind them.
        self.has_patient = False
        #: How much is ready and not sent, as of answers behind one that is still awaited.
        self.finished_bytes = 0
        #: What the outbox is to post; everything else has to go behind it.
        self._unposted = b""
        self._written_bytes = 0

    @property
    def _unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size() + len(self._unposted)

    @property
    def read_bytes(self) -> int:
        """How much of its answers the client has read, or its system for it."""
        return self._written_bytes - self._unsent_bytes

    @property
    def is_clogged(self) -> bool:
        """Whether so much is ready and not sent that no more is to be begun before that is.

        Behind a JoinGroup that waits for minutes, thousands of long answers would pile up.
        """
        return self.finished_bytes > self._registry.limits.write_buffer_high_bytes

    def finish(self, frame_bytes: int) -> int:
        """Note that an answer is ready; how many bytes were before, if too many waited, else 0.

        What was begun together may be finished together, and then it is too late to let it wait.
        """
        ready_bytes = self.finished_bytes
        self.finished_bytes += frame_bytes
        is_held_up = bool(self.exchanges) and self.exchanges[0].frame is None
        is_too_much = is_held_up and ready_bytes > self._registry.limits.write_buffer_max_bytes
        return ready_bytes if is_too_much else 0

    def write_ready(self, *, soon: bool = False) -> None:
        """Send all answers up to the first that is still awaited, short ones as one piece.

        With `soon`, they leave in the loop's next turn, together with those to other clients.
        """
        exchanges = self.exchanges
        while exchanges and (data := exchanges[0].frame) is not None:
            exchanges.popleft()
            self.finished_bytes -= len(data)
            if exchanges and exchanges[0].frame is not None:
                data += b"".join(self._also_ready(len(data)))
            self.write(data, soon=soon)
        if self.has_patient and self.is_clogged:
            self.hurry()

    def write(self, data: bytes, *, soon: bool = False) -> None:
        """Send answers behind all others; `soon` is as above."""
        self._registry.bytes_out += len(data)
        self._written_bytes += len(data)
        before = self._unposted
        if not (before or soon):
            self.transport.write(data)
        elif len(before) + len(data) > _POSTED_TOGETHER_MAX_BYTES:
            self.post()
            self.transport.write(data)
        else:
            self._unposted = before + data
            if not before:
                self._registry.outbox.add(self)

    def post(self) -> None:
        """Hand over what the outbox was to post."""
        data, self._unposted = self._unposted, b""
        if data:
            self.transport.write(data)

    def _also_ready(self, taken_bytes: int) -> Iterator[bytes]:
        """Take what is ready behind an answer, for as long as all of it is short."""
        while self.exchanges and (frame := self.exchanges[0].frame) is not None:
            taken_bytes += len(frame)
            if taken_bytes > _WRITTEN_TOGETHER_MAX_BYTES:
                break
            self.exchanges.popleft()
            self.finished_bytes -= len(frame)
            yield frame

    def hurry(self) -> None:
        """Have answered what can be answered early and has a request of another kind behind it.

        Of the same kind there may be more, which are ready to wait as well.  But what a client
        sends waits unseen while too much is ready behind one that is awaited.
        """
        self.has_patient = False
        holds_up = self.is_clogged and self.exchanges[0].frame is None
        kinds_behind: set[ApiKey] = set()
        for exchange in reversed(tuple(self.exchanges)):
            kind = exchange.request.api_key
            if holds_up or kinds_behind - {kind}:
                exchange.be_followed()
            elif exchange.is_patient:
                self.has_patient = True
            kinds_behind.add(kind)

    def excess(self) -> int:
        """How many bytes are unsent, if that is too much to add an answer that is ready; else 0."""
        if not self.exchanges or self.exchanges[0].frame is None:
            return 0
        unsent_bytes = self._unsent_bytes
        return unsent_bytes if unsent_bytes > self._registry.limits.write_buffer_max_bytes else 0

    def take_all(self) -> deque[Exchange]:
        """Have none in flight any more, and nothing to post; returns those that were in flight."""
        taken = self.exchanges.copy()
        self.exchanges.clear()
        self._unposted, self.finished_bytes = b"", 0
        return taken
