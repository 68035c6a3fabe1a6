"""One client: its bytes become requests, the answers become bytes, in the requests' order.

    data_received -> FrameReader -> decode_request -> Exchange -> handler
    transport     <- the answers whose turn has come           <- Exchange.reply

There is no task, future or timer for a request or a connection. Limits of time are looked after
by the registry's sweep, which asks those connections whose `due` has come: `due` is never later
than the first moment at which a limit of time can be broken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, cast, final

from coterie_protocol import (
    ApiKey,
    FrameReader,
    ProtocolError,
    Request,
    UnsupportedRequest,
    decode_request,
)
from coterie_server.log.logger import get_logger
from coterie_server.net.addresses import kafka_host, printable
from coterie_server.net.closing import log_unencodable, reason_of
from coterie_server.net.exchange import Exchange, take_ready
from coterie_server.net.quick import QuickRequests
from coterie_server.net.registry import Registry
from coterie_server.net.stats import CloseReason
from coterie_server.net.unsupported import answer_to_unsupported

__all__ = ["Connection"]

_log = get_logger(__name__)

_SIZE_BYTES: Final = 4
#: How long one client's pipeline may keep the others waiting before it is their turn. A single
#: request can't be interrupted; most take microseconds, but some hundreds that ask for much,
#: sent in one piece, would take seconds.
_TURN_S: Final = 0.01
#: How often to look whether a client is still there while nothing is read from it.
_LOOK_MS: Final = 1000


@final
class Connection(asyncio.Protocol):
    """The server's side of one TCP connection.

    It is refused at once or open; then closing, from the moment when either side decides so; then
    lost. From closing on `gone` holds, nothing more is handled, and replies are dropped.
    """

    __slots__ = (
        "_active_at",
        "_backlog",
        "_behind_since",
        "_close_reason",
        "_corked",
        "_fault",
        "_frame_since",
        "_frames",
        "_port",
        "_quick",
        "_reading",
        "_registry",
        "_scheduled",
        "_silent",
        "_transport",
        "_turns",
        "_unfinished_bytes",
        "address",
        "due",
        "gone",
        "host",
        "on_reply",
    )

    _transport: asyncio.Transport

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.on_reply = registry.on_reply
        self._frames = FrameReader(registry.limits.socket_request_max_bytes)
        self._quick = QuickRequests(registry.quick)
        # The answers that are still to be sent, in the order of their requests.
        self._turns: deque[Exchange] = deque()
        # Requests that were read but must wait until fewer are in flight, and what is wrong with
        # the bytes behind them. While there is a backlog nothing is read.
        self._backlog: list[bytes] = []
        self._fault: ProtocolError | None = None
        # The backlog is looked at in the loop's next turn.
        self._scheduled = False
        # Answers are collected in their turns, to be sent together.
        self._corked = False
        # What this connection last told its transport.
        self._reading = True
        # When something last came or went, and whether anything came at all.
        self._active_at = 0.0
        self._silent = True
        # When the frame began that is not whole yet, and how much of it the registry knows of.
        self._frame_since: float | None = None
        self._unfinished_bytes = 0
        # Since when the client reads more slowly than it is answered.
        self._behind_since: float | None = None
        self._close_reason = CloseReason.PEER
        self._port = 0
        self.address = "unknown"
        #: The client's address as Kafka prints it: `/127.0.0.1`.
        self.host = kafka_host(self.address)
        self.due = 0.0
        self.gone = False

    @property
    def peer(self) -> str:
        """The client's address and port, for the log."""
        return printable(self.address, self._port)

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._turns)

    @property
    def unfinished_bytes(self) -> int:
        """How much has arrived of a frame that is not whole yet."""
        return self._unfinished_bytes

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client to the registry, which may refuse it."""
        self._transport = cast(asyncio.Transport, transport)
        registry, limits = self._registry, self._registry.limits
        # A client that is gone already has no name.
        peername = transport.get_extra_info("peername")
        if peername:
            self.address, self._port = peername[:2]
            self.host = kafka_host(self.address)
        if not registry.admit(self, self.peer):
            self.gone = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=limits.write_buffer_high_bytes)
        self._active_at = registry.now()
        first_ms = min(limits.first_byte_timeout_ms, limits.connections_max_idle_ms)
        self.due = self._active_at + first_ms / 1000

    def data_received(self, data: bytes) -> None:
        """Handle the requests that these bytes complete, or keep them until there is room."""
        registry = self._registry
        if self.gone or registry.stopping:
            return  # What came before may have been dropped, and nothing leaps over it.
        registry.bytes_in += len(data)
        self._active_at = now = registry.now()
        self._silent = False
        payloads = self._cut(data, now)
        if not self._reading:
            self._backlog += payloads
            self._go_on()
        elif self._turns or len(payloads) != 1 or not self._answer_at_once(payloads[0], now):
            self._take(payloads, now)

    def eof_received(self) -> None:
        """Take half a close for a whole one, as Kafka does; the transport then closes itself."""
        self._close(CloseReason.PEER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the registry."""
        if self not in self._registry:
            return  # it was refused
        self._let_go()
        self._registry.forget(self, self._close_reason)
        _log.debug("connection lost", peer=self.peer, reason=str(self._close_reason), error=exc)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        self._behind_since = self._registry.now()
        self._watch(self._registry.limits.drain_timeout_ms)
        self._regulate()

    def resume_writing(self) -> None:
        """Go on with a client that has caught up."""
        self._behind_since = None
        if not self.gone:
            self._active_at = self._registry.now()
            self._go_on()

    # From bytes to requests

    def _cut(self, data: bytes, now: float) -> list[bytes]:
        payloads: list[bytes] = []
        try:
            payloads = self._frames.feed(data)
            if (
                len(payloads) == 1
                and len(payloads[0]) + _SIZE_BYTES == len(data)
                and self._frame_since is None
            ):
                return payloads  # one whole request in one piece, as nearly always
            if payloads:
                # A bad size behind good frames shows in the next call only, and nothing more
                # may ever come.
                self._frames.feed(b"")
        except ProtocolError as error:
            self._fault = error
        self._note_unfinished(now, new=bool(payloads))
        return payloads

    def _note_unfinished(self, now: float, *, new: bool) -> None:
        """Keep the clock and the account of the frame that is not whole yet."""
        unfinished_bytes = self._frames.buffered
        if not unfinished_bytes:
            self._frame_since = None
        elif new or self._frame_since is None:
            self._frame_since = now
            self._watch(self._registry.limits.frame_timeout_ms)
        change_bytes = unfinished_bytes - self._unfinished_bytes
        self._unfinished_bytes = unfinished_bytes
        if change_bytes:
            self._registry.charge(change_bytes)

    def _answer_at_once(self, payload: bytes, now: float) -> bool:
        """Answer a single request without giving it a turn; False if that can't be done.

        There are more heartbeats than all other requests together, and nothing has to be waited
        for with most of them.
        """
        if self._fault is not None:
            return False
        try:
            answered = self._quick.answer(payload)
        except Exception:  # noqa: BLE001  # whatever it is, it must not take the loop with it
            self._close_for_bug()
            return True
        if answered is None:
            return False
        frame, api, message = answered
        registry = self._registry
        registry.requests += 1
        registry.bytes_out += len(frame)
        if self.on_reply is not None:
            self.on_reply(api, message, int(now * 1000))
        self._transport.write(frame)
        return True

    def _take(self, payloads: list[bytes], now: float) -> None:
        """Handle requests until as many as may be are in flight, or until it is others' turn.

        What is left is the backlog. Answers that come at once are sent together at the end, and
        count as in flight until then.
        """
        taken = 0
        self._corked = True
        try:
            taken = self._handle(payloads, int(now * 1000))
        except Exception:  # noqa: BLE001  # whatever it is, it must not take the loop with it
            self._close_for_bug()
        self._corked = False
        self._registry.requests += taken
        self._send()
        if self.gone:
            return
        if taken < len(payloads):
            self._backlog = payloads[taken:]
        elif self._fault is not None:
            self._close_for_fault(self._fault)
            return
        if self._backlog or not self._reading or (self._turns and self._full):
            # Also if nothing was sent: the first request may be parked, with room behind it.
            self._go_on()

    def _handle(self, payloads: list[bytes], received_ms: int) -> int:
        """Handle requests while there is room and time; answer how many were taken."""
        turns, handle, stopwatch = self._turns, self._registry.handle, self._registry.stopwatch
        limit = self._registry.limits.max_requests_in_flight
        taken = 0
        turn_ends = stopwatch() + _TURN_S if len(payloads) > 1 else 0.0
        for payload in payloads:
            if self.gone or len(turns) >= limit or (taken and stopwatch() >= turn_ends):
                break
            taken += 1
            try:
                request = decode_request(payload)
            except ProtocolError as error:
                if self._answered_unsupported(error):
                    continue
                self._fault = error
                del payloads[taken:]
                break
            exchange = Exchange(self, request, received_ms)
            turns.append(exchange)
            handle(exchange)
        return taken

    def _answered_unsupported(self, error: ProtocolError) -> bool:
        frame = answer_to_unsupported(error) if isinstance(error, UnsupportedRequest) else None
        if frame is not None:
            request = Request(ApiKey.API_VERSIONS, 0, 0, None, None)
            answered = Exchange(self, request, 0)
            answered.frame = frame
            self._turns.append(answered)
        return frame is not None

    def _work_off(self) -> None:
        """Take the backlog, from the loop: a handler is never called from within a reply."""
        self._scheduled = False
        if self._behind_since is None:
            payloads, self._backlog = self._backlog, []
            self._take(payloads, self._registry.now())

    # From answers to bytes

    def flush(self) -> None:
        """Send the answers whose turn has come."""
        if not self._corked and not self.gone:
            self._active_at = self._registry.now()
            self._send()

    def _send(self) -> None:
        if self.gone or (self._behind_since is not None and self._cut_off_slow_reader()):
            return
        if self._write_ready() and not self._reading:
            self._go_on()

    def _write_ready(self) -> bool:
        """Send, as one piece, all answers up to the first that is still awaited."""
        data = take_ready(self._turns)
        if data is None:
            return False
        self._registry.bytes_out += len(data)
        self._transport.write(data)
        return True

    def _cut_off_slow_reader(self) -> bool:
        """Close if too much is unsent to add to it; answer whether that was so."""
        turns = self._turns
        if not turns or turns[0].frame is None:
            return False
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes <= self._registry.limits.write_buffer_max_bytes:
            return False
        self.close_for(CloseReason.UNREAD_REPLIES, found=unsent_bytes)
        return True

    # Reading or not

    def _go_on(self) -> None:
        """Do what fewer requests in flight, or a client that caught up, make possible."""
        if self._registry.stopping:
            if not self._turns:
                self._close(CloseReason.STOPPING)
            return
        has_room = not self._full and self._behind_since is None
        if self._left_over and has_room and not self._scheduled:
            self._scheduled = True
            self._registry.call_soon(self._work_off)
        self._regulate()

    @property
    def _left_over(self) -> bool:
        """Whether something came that is still to be dealt with."""
        return bool(self._backlog) or self._fault is not None

    @property
    def _full(self) -> bool:
        return len(self._turns) >= self._registry.limits.max_requests_in_flight

    def _regulate(self) -> None:
        """Read if and only if there is room for what may come."""
        if self.gone:
            return
        busy = self._left_over or self._full or self._behind_since is not None
        reading = not (busy or self._registry.stopping)
        if reading == self._reading:
            return
        self._reading = reading
        if not reading:
            self._transport.pause_reading()
            self._watch(_LOOK_MS)
            return
        if self._frame_since is not None:
            # It was us who did not read the rest.
            self._frame_since = self._registry.now()
            self._watch(self._registry.limits.frame_timeout_ms)
        self._transport.resume_reading()

    # Time

    def _watch(self, limit_ms: int) -> None:
        self.due = min(self.due, self._registry.now() + limit_ms / 1000)

    def check(self, now: float) -> None:
        """Close if a limit of time is over, else set `due` to when to look again."""
        limits = self._registry.limits
        self.due = now + limits.connections_max_idle_ms / 1000
        if self.gone:
            # It had its time to send the rest.
            self._transport.abort()
            return
        for since, reason in self._clocks():
            limit_ms: int = getattr(limits, reason)
            deadline = since + limit_ms / 1000
            if deadline <= now:
                self.close_for(reason, found=round((now - since) * 1000))
                return
            self.due = min(self.due, deadline)
        if not self._reading:
            self._look_for_the_client(now)

    def _look_for_the_client(self, now: float) -> None:
        """Close if the client has, which does not show by itself while nothing is read.

        A backlog that waits for nothing but its turn is worked off first.
        """
        if not self._scheduled and self._registry.has_hung_up(self._transport):
            self._close(CloseReason.PEER)
        else:
            self.due = min(self.due, now + _LOOK_MS / 1000)

    def _clocks(self) -> Iterator[tuple[float, CloseReason]]:
        """Which limits of time apply, and since when each has been running."""
        if self._silent:
            yield self._active_at, CloseReason.FIRST_BYTE
        elif not self._turns:
            yield self._active_at, CloseReason.IDLE
        if self._frame_since is not None and self._reading:
            yield self._frame_since, CloseReason.SLOW_FRAME
        if self._behind_since is not None:
            yield self._behind_since, CloseReason.SLOW_READER

    # The end

    def _close_for_bug(self) -> None:
        _log.exception("a bug: handler failed, connection closed", peer=self.peer)
        self._close(CloseReason.BUG)

    def stop(self) -> None:
        """Read nothing more and close when the requests at hand are answered."""
        self._backlog = []
        self._fault = None
        self._regulate()
        self._go_on()

    def abort(self) -> None:
        """Drop the connection and whatever it still had to send."""
        self._close(CloseReason.STOPPING)
        self._transport.abort()

    def close_for(self, reason: CloseReason, *, found: int) -> None:
        """Close because of a limit, of which so much was found."""
        limit: int = getattr(self._registry.limits, reason)
        # Clients that have nothing to say are no reason to worry.
        level = "info" if reason is CloseReason.IDLE else "warning"
        self._tell(reason, level, limit=limit, found=found, in_flight=self.in_flight)
        self._close(reason)
        if self._behind_since is not None:
            # Waiting for this client to read is what we are giving up.
            self._transport.abort()

    def close_for_handler(self, why: str) -> None:
        """Close because the handler says so."""
        if not self.gone:
            self._tell(CloseReason.HANDLER, why=why)
            self._close(CloseReason.HANDLER)

    def close_for_unencodable(self, request: Request, error: Exception) -> None:
        """Close because an answer does not fit its request, which is a bug of ours."""
        log_unencodable(self.peer, request, error)
        self._close(CloseReason.BUG)

    def _close_for_fault(self, fault: ProtocolError) -> None:
        reason, told = reason_of(fault)
        self._tell(reason, **told)
        self._close(reason)

    def _tell(self, reason: CloseReason, level: str = "warning", **values: object) -> None:
        self._registry.log(
            "connection closed", level=level, reason=str(reason), peer=self.peer, **values
        )

    def _close(self, reason: CloseReason) -> None:
        if self.gone:
            return
        self.gone = True
        self._close_reason = reason
        # What was answered before the request that we close for is still sent, as it would have
        # been had the two come in separate pieces.
        if self._behind_since is None:
            self._write_ready()
        self.due = self._registry.now() + self._registry.limits.close_timeout_ms / 1000
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        """Free what the client made us hold, though a parked exchange may hold on to this."""
        self.gone = True
        turns, self._turns = self._turns, deque()
        self._backlog = []
        self._frames = FrameReader()
        self._quick.forget()
        self._registry.charge(-self._unfinished_bytes)
        self._unfinished_bytes = 0
        for turn in turns:
            turn.abandon()
