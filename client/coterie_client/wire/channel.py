"""One stream of requests and answers: requests go out in order, and answers come in that order.

Timeouts run here and not in the tasks that wait: otherwise, if a task stopped waiting, its request
would have no timeout any more, and a silent server would never be noticed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast, final

from coterie_client import checks
from coterie_client.errors import AnswerTimedOutError, ConnectionLostError
from coterie_client.log import Log
from coterie_client.wire.addresses import NodeAddress
from coterie_client.wire.deadlines import SECOND_LOOK_S, time_limit
from coterie_protocol import FRAME_SIZE_LIMIT, FrameReader, ProtocolError, correlation_id_of
from coterie_protocol.strangers import HEAD_BYTES, Speech, spoken_in

__all__ = ["Channel", "ConnectionLimits", "Counters"]

_log = Log(__name__)

_CORRELATION_ID_MAX: Final = 2**31 - 1


@dataclass(slots=True)
class Counters:
    """What has happened on a client's connections; all counts only grow."""

    #: Requests sent.
    requests: int = 0
    #: Answers received, including those that carry an error.
    answers: int = 0
    #: Requests without an answer, because of a timeout or a lost connection.
    errors: int = 0
    #: Requests among them that timed out.
    timeouts: int = 0
    #: Connections that became ready for use.
    connections_opened: int = 0
    #: Attempts to connect that failed.
    connections_failed: int = 0
    #: Connections that ended otherwise than by this client's `close`.
    connections_lost: int = 0
    #: Attempts to connect to a node that had been connected before.
    reconnects: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a connection."""

    #: Until requests can be sent, TLS and SASL included. Kafka's clients allow as much for TCP
    #: alone (`socket.connection.setup.timeout.ms`).
    connect_timeout_ms: int = 10_000
    #: How long `close` waits for the last bytes to be sent before it drops them.
    close_timeout_ms: int = 1_000
    #: The largest answer that is accepted.
    frame_max_bytes: int = FRAME_SIZE_LIMIT
    #: While more than this is unsent, further requests wait.
    write_buffer_high_bytes: int = 262_144

    def __post_init__(self) -> None:
        for each in fields(self):
            checks.whole(each.name, getattr(self, each.name))


@dataclass(slots=True, eq=False)
class _Pending:
    """A request whose answer is pending."""

    correlation_id: int
    #: The name of the request, for messages.
    title: str
    decode: Callable[[bytes], Any]
    #: Cancelled once no task waits for it; the answer is then dropped when it comes.
    answer: asyncio.Future[Any]
    timer: asyncio.TimerHandle = field(init=False)


@final
class Channel(asyncio.Protocol):
    """The client's side of one connection, TLS or not, regardless of the messages it carries.

    It is new, then open, then closing as soon as either side decides so, then gone.  Once it is
    closing it accepts no requests, and all pending ones have failed.
    """

    def __init__(self, address: NodeAddress, limits: ConnectionLimits, counters: Counters) -> None:
        self.address = address
        self._limits = limits
        self._counters = counters
        self._frames = FrameReader(limits.frame_max_bytes)
        self._pending: deque[_Pending] = deque()
        self._last_id = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        # Held by the first of the requests that wait until they can be written.
        self._write_turn = asyncio.Lock()
        self._waiting_to_write = 0
        self._gone = asyncio.Event()
        # Why it is closing, and the error if this side did not ask for it.
        self._closing: str | None = None
        self._cause: Exception | None = None
        # Whether it closes after the last pending answer.
        self._finishing = False
        # The first bytes from the server.
        self._head = b""
        #: What the server speaks, if its first bytes were not Kafka's protocol but a known one.
        self.speech: Speech | None = None
        #: Whether it carries requests of users, so that its end counts as a lost connection.
        self.in_use = False

    @property
    def closing(self) -> bool:
        """Whether it accepts no more requests."""
        return self._closing is not None

    @property
    def in_flight(self) -> int:
        """The number of pending requests."""
        return len(self._pending)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the transport: the channel is open."""
        self._transport = cast(asyncio.Transport, transport)
        if self._closing is not None:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_high_bytes)
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Deliver the answers that these bytes complete; anything but answers ends the channel."""
        self._counters.bytes_in += len(data)
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        try:
            for payload in self._frames.feed(data):
                if self._closing is None:
                    self._take(payload)
            # An invalid size after good frames shows in the next call only, and there may be none.
            self._frames.feed(b"")
        except ProtocolError as error:
            if self._closing is None:
                self._refuse(error)

    def _refuse(self, error: ProtocolError) -> None:
        self.speech = None if self.in_use else spoken_in(self._head)
        if self.speech is None:
            _log.error("server breaks the protocol", node=str(self.address), error=str(error))
            self._break(f"the server sent something other than an answer ({error})", error)
        else:
            self._break(f"the server speaks {self.speech}", error)

    @property
    def was_silent(self) -> bool:
        """Whether the server has sent nothing at all."""
        return not self._head

    def eof_received(self) -> None:
        """Treat a half-close as a close; the transport then closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all pending requests."""
        self._gone.set()
        self._break("the server closed it" if exc is None else f"it broke ({exc})", exc)

    def pause_writing(self) -> None:
        """Make requests wait until the server has read what was sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let waiting requests go out."""
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
        """Send the frame that `encode` makes for a correlation id; return the decoded answer.

        Cancelling the calling task does not disturb other requests.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        if self._closing is None and (self._waiting_to_write or not self._writable.is_set()):
            await self._wait_to_write(title, timeout_s)
        if self._closing is not None:
            raise self._lost(title)
        correlation_id = self._next_id()
        frame = encode(correlation_id)
        pending = _Pending(correlation_id, title, decode, loop.create_future())
        pending.timer = loop.call_at(deadline_s, self._on_timeout, pending, timeout_s)
        self._pending.append(pending)
        self._counters.requests += 1
        self._counters.bytes_out += len(frame)
        assert self._transport is not None, "a request before the connection was made"
        self._transport.write(frame)
        return await pending.answer

    async def _wait_to_write(self, title: str, timeout_s: float) -> None:
        """Wait for this request's turn; none overtakes another, as the order of commits matters."""
        self._waiting_to_write += 1
        try:
            async with time_limit(timeout_s), self._write_turn:
                while self._closing is None and not self._writable.is_set():
                    await self._writable.wait()
        except TimeoutError:
            error = self._too_late(title, timeout_s, "could not be sent")
            self._break(f"{title} could not be sent within {timeout_s:g} s", error)
            raise error from None
        finally:
            self._waiting_to_write -= 1

    def _take(self, payload: bytes) -> None:
        correlation_id = correlation_id_of(payload)
        if not self._pending:
            reason = f"an answer to request {correlation_id}, but none is pending"
            raise ProtocolError(reason, subject="response header", field="correlation_id")
        pending = self._pending[0]
        if correlation_id != pending.correlation_id:
            reason = (
                f"an answer to request {correlation_id}, but {pending.correlation_id} comes next"
            )
            raise ProtocolError(reason, subject="response header", field="correlation_id")
        # An answer that no task waits for need not be decoded. One that can't be decoded leaves its
        # request pending, so that it fails along with the others.
        answer = None if pending.answer.done() else pending.decode(payload)
        self._pending.popleft()
        pending.timer.cancel()
        self._counters.answers += 1
        if not pending.answer.done():
            pending.answer.set_result(answer)
        if self._finishing and not self._pending:
            self._close_transport("it was replaced")

    def _next_id(self) -> int:
        self._last_id = self._last_id + 1 if self._last_id < _CORRELATION_ID_MAX else 0
        return self._last_id

    # The end

    def _on_timeout(self, pending: _Pending, timeout_s: float) -> None:
        """Let the loop read what has arrived before the request is given up."""
        loop = asyncio.get_running_loop()
        pending.timer = loop.call_later(SECOND_LOOK_S, self._give_up, pending, timeout_s)

    def _give_up(self, pending: _Pending, timeout_s: float) -> None:
        """Give up the whole channel: the answers after this one can't come either."""
        error = self._too_late(pending.title, timeout_s, "was not answered")
        if not pending.answer.done():
            pending.answer.set_exception(error)
        self._break(f"{pending.title} was not answered within {timeout_s:g} s", error)

    def _too_late(self, title: str, timeout_s: float, what: str) -> AnswerTimedOutError:
        self._counters.timeouts += 1
        _log.warning("server does not answer", node=str(self.address), request=title)
        return AnswerTimedOutError(
            f"{title} {what} within {timeout_s:g} s by {self.address}; the server may hang or be"
            " overloaded. Try again."
        )

    def _break(self, why: str, cause: Exception | None) -> None:
        """End the channel for a reason other than this side's wish."""
        if self._closing is None and self.in_use:
            self._counters.connections_lost += 1
            _log.info("connection lost", node=str(self.address), reason=why)
        self._end(why, cause)
        self.abort()

    def _end(self, why: str, cause: Exception | None) -> None:
        """Start closing, and fail all pending requests; only the first reason counts."""
        if self._closing is not None:
            return
        self._closing, self._cause = why, cause
        self._writable.set()
        failed, self._pending = self._pending, deque()
        self._counters.errors += len(failed)
        for pending in failed:
            pending.timer.cancel()
            if not pending.answer.done():
                pending.answer.set_exception(self._lost(pending.title))

    def _lost(self, title: str) -> ConnectionLostError:
        error = ConnectionLostError(
            f"The connection to {self.address} ended before {title} was answered:"
            f" {self._closing}. Try again."
        )
        error.__cause__ = self._cause
        return error

    def _close_transport(self, why: str) -> None:
        self._end(why, None)
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Close after the last pending answer."""
        self._finishing = True
        if not self._pending:
            self._close_transport("it was replaced")

    def abort(self) -> None:
        """Close at once, dropping what is unsent."""
        self._end("the client dropped it", None)
        if self._transport is None:
            self._gone.set()
        elif not self._gone.is_set():
            self._transport.abort()

    async def gone(self) -> None:
        """Wait until the socket of a closing channel is gone."""
        await self._gone.wait()

    async def close(self) -> None:
        """Close, and wait until the socket is gone."""
        self._close_transport("the client closed it")
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(self._limits.close_timeout_ms / 1000):
                await self._gone.wait()
        except TimeoutError:
            pass
        finally:
            # The server may have stopped reading, and TLS may wait for its close_notify.
            if not self._gone.is_set():
                self._transport.abort()
        await self._gone.wait()
