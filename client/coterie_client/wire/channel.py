"""One stream of requests and answers: bytes out in order, answers matched in that same order.

A request's time runs here and not with whoever waits: someone who stops waiting must not leave
behind a question that nobody minds, or a silent server would never be noticed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast, final

from coterie_client.errors import AnswerTimedOutError, ConnectionLostError
from coterie_client.log import Log
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.counters import ConnectionLimits, Counters
from coterie_client.wire.deadlines import SECOND_LOOK_S, time_limit
from coterie_protocol import FrameReader, ProtocolError, correlation_id_of

__all__ = ["Channel"]

_log = Log(__name__)

_CORRELATION_ID_MAX: Final = 2**31 - 1


@dataclass(slots=True, eq=False)
class _Due:
    """An answer that is due."""

    correlation_id: int
    #: What was asked, for messages.
    title: str
    decode: Callable[[bytes], Any]
    #: Cancelled if nobody waits any more; the answer is then dropped when it comes.
    answer: asyncio.Future[Any]
    timer: asyncio.TimerHandle = field(init=False)


@final
class Channel(asyncio.Protocol):
    """The client's side of one connection, TLS or not, without knowledge of what is said.

    It is new, then open, then closing, from the moment when either side decides so, then gone.
    From closing on no request is taken, and all whose answers are due have failed.
    """

    def __init__(self, address: NodeAddress, limits: ConnectionLimits, counters: Counters) -> None:
        self.address = address
        self._limits = limits
        self._counters = counters
        self._frames = FrameReader(limits.frame_max_bytes)
        self._due: deque[_Due] = deque()
        self._last_id = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        # Requests that wait for the server to read, in their order.
        self._queue = asyncio.Lock()
        self._held_back = 0
        self._gone = asyncio.Event()
        # Why it is closing, and what was found if it was not us who wanted it.
        self._closing: str | None = None
        self._cause: Exception | None = None
        # Whether it is to close with the last answer.
        self._finishing = False
        #: Whether requests of users travel on it, so that its loss counts as one.
        self.in_use = False

    @property
    def closing(self) -> bool:
        """Whether it takes no more requests."""
        return self._closing is not None

    @property
    def in_flight(self) -> int:
        """How many answers are due."""
        return len(self._due)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open."""
        self._transport = cast(asyncio.Transport, transport)
        if self._closing is not None:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_high_bytes)
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Hand out the answers that these bytes complete; anything else than answers ends it."""
        self._counters.bytes_in += len(data)
        try:
            for payload in self._frames.feed(data):
                if self._closing is None:
                    self._take(payload)
            # A bad size behind good frames shows in the next call only, and no more may come.
            self._frames.feed(b"")
        except ProtocolError as error:
            if self._closing is None:
                _log.error("server breaks the protocol", node=str(self.address), error=str(error))
                self._break(f"the server sent what is no answer ({error})", error)

    def eof_received(self) -> None:
        """Take half a close for a whole one; the transport then closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Let nobody wait any longer."""
        self._gone.set()
        self._break("the server closed it" if exc is None else f"it broke ({exc})", exc)

    def pause_writing(self) -> None:
        """Let requests wait until the server has read what was sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let requests go out again."""
        self._writable.set()

    # Requests

    async def exchange(
        self,
        encode: Callable[[int], bytes],
        decode: Callable[[bytes], Any],
        *,
        title: str,
        timeout_s: float,
    ) -> Any:
        """Send the frame that `encode` makes for a correlation id; answer its decoded answer.

        Whoever is cancelled here leaves the order of the others as it is.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        if self._closing is None and (self._held_back or not self._writable.is_set()):
            await self._wait_for_room(title, timeout_s)
        if self._closing is not None:
            raise self._lost(title)
        correlation_id = self._next_id()
        frame = encode(correlation_id)
        due = _Due(correlation_id, title, decode, loop.create_future())
        due.timer = loop.call_at(deadline_s, self._time_is_up, due, timeout_s)
        self._due.append(due)
        self._counters.requests += 1
        self._counters.bytes_out += len(frame)
        assert self._transport is not None, "a request before the connection was made"
        self._transport.write(frame)
        return await due.answer

    async def _wait_for_room(self, title: str, timeout_s: float) -> None:
        """Wait for one's turn to write; nobody is overtaken, for the order of commits counts."""
        self._held_back += 1
        try:
            async with time_limit(timeout_s), self._queue:
                while self._closing is None and not self._writable.is_set():
                    await self._writable.wait()
        except TimeoutError:
            error = self._too_late(title, timeout_s, "could not be sent")
            self._break(str(error), error)
            raise error from None
        finally:
            self._held_back -= 1

    def _take(self, payload: bytes) -> None:
        correlation_id = correlation_id_of(payload)
        if not self._due:
            reason = f"an answer to request {correlation_id}, and none is due"
            raise ProtocolError(reason, subject="response header", field="correlation_id")
        due = self._due[0]
        if correlation_id != due.correlation_id:
            reason = f"an answer to request {correlation_id}, and {due.correlation_id} comes next"
            raise ProtocolError(reason, subject="response header", field="correlation_id")
        # What nobody waits for need not be read. What can't be read leaves its request due, so
        # that it fails along with the others.
        answer = None if due.answer.done() else due.decode(payload)
        self._due.popleft()
        due.timer.cancel()
        self._counters.answers += 1
        if not due.answer.done():
            due.answer.set_result(answer)
        if self._finishing and not self._due:
            self._close_transport("it was replaced")

    def _next_id(self) -> int:
        self._last_id = self._last_id + 1 if self._last_id < _CORRELATION_ID_MAX else 0
        return self._last_id

    # The end

    def _time_is_up(self, due: _Due, timeout_s: float) -> None:
        """Read what has arrived, then see whether the answer is among it."""
        loop = asyncio.get_running_loop()
        due.timer = loop.call_later(SECOND_LOOK_S, self._overdue, due, timeout_s)

    def _overdue(self, due: _Due, timeout_s: float) -> None:
        """Give up: without this answer, the ones behind it can't come either."""
        error = self._too_late(due.title, timeout_s, "was not answered")
        if not due.answer.done():
            due.answer.set_exception(error)
        self._break(str(error), error)

    def _too_late(self, title: str, timeout_s: float, what: str) -> AnswerTimedOutError:
        self._counters.timeouts += 1
        _log.warning("server does not answer", node=str(self.address), request=title)
        return AnswerTimedOutError(
            f"{title} {what} within {timeout_s:g} s by {self.address}; the server may hang or be"
            " overloaded: try again."
        )

    def _break(self, why: str, cause: Exception | None) -> None:
        """End it otherwise than by our own wish."""
        if self._closing is None and self.in_use:
            self._counters.connections_lost += 1
            _log.info("connection lost", node=str(self.address), reason=why)
        self._end(why, cause)
        self.abort()

    def _end(self, why: str, cause: Exception | None) -> None:
        """Begin to close, and fail whatever is due; only the first reason counts."""
        if self._closing is not None:
            return
        self._closing, self._cause = why, cause
        self._writable.set()
        late, self._due = self._due, deque()
        self._counters.errors += len(late)
        for due in late:
            due.timer.cancel()
            if not due.answer.done():
                due.answer.set_exception(self._lost(due.title))

    def _lost(self, title: str) -> ConnectionLostError:
        error = ConnectionLostError(
            f"The connection to {self.address} ended before {title} was answered:"
            f" {self._closing}; try again."
        )
        error.__cause__ = self._cause
        return error

    def _close_transport(self, why: str) -> None:
        self._end(why, None)
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Close as soon as no answer is due."""
        self._finishing = True
        if not self._due:
            self._close_transport("it was replaced")

    def abort(self) -> None:
        """Drop the connection with whatever is unsent."""
        self._end("it was dropped from this side", None)
        if self._transport is None:
            self._gone.set()
        elif not self._gone.is_set():
            self._transport.abort()

    async def gone(self) -> None:
        """Return when the socket is gone; for one that is closing."""
        await self._gone.wait()

    async def close(self) -> None:
        """Close, and return when the socket is gone."""
        self._close_transport("it was closed from this side")
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(self._limits.close_timeout_ms / 1000):
                await self._gone.wait()
        except TimeoutError:
            pass
        finally:
            # The server may read nothing any more, and TLS may wait for its good-bye.
            if not self._gone.is_set():
                self._transport.abort()
        await self._gone.wait()
