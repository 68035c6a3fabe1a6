"""One client: its bytes become requests, the answers become bytes, in the requests' order.

    data_received -> Incoming -> Request -> Exchange -> handler
    transport     <- answers that no earlier request holds up <- Exchange.reply

No request or connection has a task, future or timer: the registry's sweep sees to `TimeLimits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from coterie_protocol import Request
from coterie_server.log.logger import get_logger
from coterie_server.net.addresses import Peer
from coterie_server.net.endpoint import Endpoint
from coterie_server.net.exchange import Exchange, answered
from coterie_server.net.fast_path import API, FastPath
from coterie_server.net.faults import log_unencodable, reason_of
from coterie_server.net.guard import Guard, guard_for, take_login
from coterie_server.net.incoming import Incoming
from coterie_server.net.last_answer import LastAnswer
from coterie_server.net.members import NOBODY
from coterie_server.net.outgoing import Outgoing
from coterie_server.net.registry import Registry
from coterie_server.net.resumption import Resumption
from coterie_server.net.slices import ENDLESS, READ_MAX_BYTES
from coterie_server.net.stats import CloseReason
from coterie_server.net.time_limits import TimeLimits
from coterie_server.security import ANONYMOUS, Principal

__all__ = ["Connection"]

_log = get_logger(__name__)

_LOOK_MS: Final = 1000  # How often to look for a client from which nothing is read.


@final
class Connection(asyncio.Protocol):
    """The server's side of one TCP connection.

    It is refused at once or open; then closing, from the moment when either side decides so; then
    lost. From closing on `gone` holds, nothing more is handled, and replies are dropped.
    """

    __slots__ = (
        "_backlog",
        "_close_reason",
        "_corked",
        "_fast_path",
        "_outgoing",
        "_reading",
        "_registry",
        "_rests",
        "_resumption",
        "_scheduled",
        "_transport",
        "advertised",
        "answer_max_bytes",
        "endpoint",
        "exchanges",
        "gone",
        "guard",
        "hurry",
        "in_turns",
        "incoming",
        "last_answer",
        "membership",
        "on_reply",
        "opened_ms",
        "peer",
        "principal",
        "strangers",
        "times",
        "turns",
        "window",
    )

    _transport: asyncio.Transport

    def __init__(self, registry: Registry, endpoint: Endpoint, who: Principal = ANONYMOUS) -> None:
        self._registry, self.endpoint, self.principal = registry, endpoint, who
        self.advertised, self.last_answer = endpoint.advertised, LastAnswer()
        self.on_reply, self.turns = registry.on_reply, registry.turns
        self.answer_max_bytes = registry.limits.write_buffer_max_bytes
        self.strangers, self.times = registry.strangers, TimeLimits()
        self.incoming = Incoming(registry.limits, self.times, registry.charge)
        self._fast_path, self._outgoing = FastPath(registry.fast_answers), Outgoing(registry)
        self.exchanges, self.hurry = self._outgoing.exchanges, self._outgoing.hurry
        self._backlog: list[bytes] = []  # Read, but to wait. While there is one nothing is read.
        self._resumption = Resumption(self._outgoing)  # Goes on before the backlog.
        self._scheduled = self._rests = False  # It is looked at, or read on, in the next turn.
        self._corked = False  # Answers are collected, to be sent together.
        self._reading = True  # What this connection last told its transport.
        self.peer, self.gone, self.membership, self.in_turns = Peer(), False, NOBODY, 0
        self._close_reason, self.window = CloseReason.PEER, registry.limits.max_requests_in_flight
        #: Stands before the connection until its client is known; None from then on.
        self.guard: Guard | None = guard_for(self, endpoint.terms.authenticator)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client to the registry, which may refuse it."""
        self._transport = self._outgoing.transport = cast(asyncio.Transport, transport)
        if peername := transport.get_extra_info("peername"):  # none if it is gone already
            self.peer = Peer(*peername[:2])
        if not (registry := self._registry).admit(self):
            self._let_go()
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=registry.limits.write_buffer_high_bytes)
        self.opened_ms = int(registry.now() * 1000)
        self.times.start(registry.now(), registry.limits)

    def data_received(self, data: bytes) -> None:
        """Handle the requests that these bytes complete, or keep them until there is room."""
        registry = self._registry
        if self.gone or registry.stopping:
            return  # What came before may have been dropped, and nothing leaps over it.
        registry.bytes_in += len(data)
        self.times.active_at = now = registry.now()
        self.times.is_silent = False
        payloads = self.incoming.cut(data, now)
        if not self._reading:
            self._backlog += payloads
            self._go_on()
        elif self.exchanges or len(payloads) != 1 or not self._answer_at_once(payloads[0], now):
            self._take(payloads, now)
        if payloads and len(data) >= READ_MAX_BYTES:
            self._rests = True
            self._go_on()

    def eof_received(self) -> None:
        """Take half a close for a whole one; the transport then closes itself."""
        self.end(CloseReason.PEER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the registry."""
        if self not in self._registry:
            return  # it was refused
        self._let_go()
        self._registry.forget(self, self._close_reason)
        _log.debug("connection lost", peer=str(self.peer), reason=self._close_reason, error=exc)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        now, limits = self._registry.now(), self._registry.limits
        self.times.fall_behind(now, limits, self._outgoing.read_bytes)
        self._regulate()

    def resume_writing(self) -> None:
        """Go on with a client that has caught up."""
        self.times.behind_since = None
        if not self.gone:
            self.times.active_at = self._registry.now()
            self._go_on()

    # From requests to handlers

    def _answer_at_once(self, payload: bytes, now: float) -> bool:
        """Answer a single request without making an exchange of it; False if that can't be done."""
        is_slow = payload[API] not in self._registry.fast_answers
        if is_slow or self.incoming.fault is not None or self.guard is not None:
            return False
        try:
            found = self._fast_path.answer(payload, self, now)
        except Exception:  # noqa: BLE001  # whatever it is, it must not take the loop with it
            self._close_for_bug()
            return True
        if found is not None:
            self._registry.requests += 1
            self._outgoing.write(found)
        return found is not None

    def _take(self, payloads: list[bytes], now: float) -> None:
        """Handle requests until as many as may be are in flight, or others have waited long enough.

        What is left is the backlog. Answers that come at once are sent together at the end, and
        count as in flight until then.
        """
        taken, is_single = 0, len(payloads) == 1
        if not is_single:
            self._registry.outbox.post()  # what is ready for others is not to wait for many
        self._corked = True
        try:
            taken = self._handle(payloads, int(now * 1000))
            if self._outgoing.has_patient:
                self.hurry()
        except Exception:  # noqa: BLE001  # whatever it is, it must not take the loop with it
            self._close_for_bug()
        self._corked = False
        self._registry.requests += taken
        if self.exchanges and self.exchanges[0].frame is not None:
            self._send(soon=is_single)
        if self.gone:
            return
        if taken < len(payloads):
            self._backlog = payloads[taken:]
        elif self.incoming.fault is not None and not self._resumption.waiting:
            reason, told = reason_of(self.incoming.fault)
            self._tell(reason, **told)
            self.end(reason)
            return
        has_more = self._backlog or self._resumption.waiting
        if has_more or not self._reading or (self.exchanges and self._full):
            self._go_on()  # Also if nothing was sent: the first may be parked, with room behind.

    def _handle(self, payloads: list[bytes], received_ms: int) -> int:
        """Handle requests while there is room and time; answer how many were taken."""
        registry, taken = self._registry, 0
        are_many = len(payloads) > 1 or bool(self._resumption.waiting or self.incoming.fault)
        time = registry.slices.begin(registry.stopwatch) if are_many else ENDLESS
        if are_many:
            self._resumption.go_on(self, time)
        for payload in payloads:
            if self.gone or (self.exchanges and not self._has_room):
                break
            if are_many and (self._resumption.waiting or time.is_over):
                break
            taken, time.is_used = taken + 1, True
            if self.guard is not None and self.guard.takes(payload, received_ms):
                continue
            request = self.incoming.decode(payload)
            if isinstance(request, bytes):
                self.exchanges.append(answered(self, request))
                self._outgoing.finish(len(request))
            elif request is not None:
                exchange = Exchange(self, request, received_ms, comes_alone=not are_many)
                self.exchanges.append(exchange)
                registry.handle(exchange)
            else:
                del payloads[taken:]
        if are_many:
            registry.slices.end(time)
        return taken

    def authenticate(self, exchange: Exchange) -> None:
        """Take a request to authenticate that no guard has taken."""
        take_login(self, self.endpoint.terms.authenticator, exchange)

    def resume(self, exchange: Exchange, action: Callable[[], None]) -> None:
        """Have done what goes on with a request that had to wait, in this connection's turn."""
        if not self.gone:
            self._resumption.add(exchange, action)
            self._go_on()

    def _work_off(self) -> None:
        """Go on, from the loop: a handler is never called from within a reply."""
        self._scheduled = self._rests = False
        if not self.times.is_behind:
            payloads, self._backlog = self._backlog, []
            self._take(payloads, self._registry.now())

    # From answers to bytes

    def flush(self, finished_bytes: int) -> None:
        """Send the answers that no earlier request holds up; one more is ready."""
        if (ready_bytes := self._outgoing.finish(finished_bytes)) and not self.gone:
            self.close_for(CloseReason.UNREAD_REPLIES, found=ready_bytes)
        elif not self._corked and not self.gone:
            self.times.active_at = self._registry.now()
            self._send(soon=True)

    def _send(self, *, soon: bool) -> None:
        if self.times.behind_since is not None and (unsent_bytes := self._outgoing.excess()):
            self.close_for(CloseReason.UNREAD_REPLIES, found=unsent_bytes)
        else:
            self._outgoing.write_ready(soon=soon)
            if not self._reading:
                self._go_on()  # Also if nothing was sent: a long answer may be finished.

    # Reading or not

    def _go_on(self) -> None:
        """Do what fewer requests in flight, or a client that caught up, make possible."""
        if self._registry.stopping and not self.exchanges:
            self.end(CloseReason.STOPPING)
            return
        has_room = self._resumption.is_ready(self) if self._resumption.waiting else self._has_room
        if self._left_over and has_room and not (self.times.is_behind or self._scheduled):
            self._scheduled = True
            self._registry.call_soon(self._work_off)
        self._regulate()

    @property
    def _left_over(self) -> bool:
        return bool(self._resumption.waiting or self._backlog or self._rests or self.incoming.fault)

    @property
    def _full(self) -> bool:
        return len(self.exchanges) >= self.window

    @property
    def _has_room(self) -> bool:
        """Whether another request may begin; so it is whenever none is in flight."""
        return not (self._full or self.in_turns or self._outgoing.is_clogged)

    def _regulate(self) -> None:
        """Read if and only if there is room for what may come."""
        busy = self._left_over or self._full or self.times.behind_since is not None
        reading = not (busy or self._registry.stopping)
        if self.gone or reading == self._reading:
            return
        self._reading = reading
        if reading:
            self.times.read_again(self._registry.now(), self._registry.limits)
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            self.times.watch(self._registry.now(), _LOOK_MS)

    # Time

    def check(self, now: float) -> None:
        """Close if a limit of time is over, else set `times.due` to when to look again."""
        limits, waits = self._registry.limits, bool(self.exchanges)
        self.times.note_read(now, limits, self._outgoing.read_bytes)
        broken = self.times.find_broken(now, limits, is_reading=self._reading, is_waiting=waits)
        if self.gone:
            self._transport.abort()  # it had its time to send the rest
        elif broken is not None:
            self.close_for(broken[0], found=broken[1])
        elif not self._reading:
            # That the client has closed does not show by itself while nothing is read.  A backlog
            # that is about to be worked off goes first.
            if not self._scheduled and self._registry.has_hung_up(self._transport):
                self.end(CloseReason.PEER)
            else:
                self.times.watch(now, _LOOK_MS)

    # The end

    def _close_for_bug(self) -> None:
        self.log("a bug: handler failed, connection closed", level="exception")
        self.end(CloseReason.BUG)

    def stop(self) -> None:
        """Read nothing more and close when the requests at hand are answered."""
        self._backlog, self.incoming.fault = [], None
        self._go_on()

    def abort(self, reason: CloseReason = CloseReason.STOPPING) -> None:
        """Drop the connection and whatever it still had to send."""
        self.end(reason)
        self._transport.abort()

    def close_for(self, reason: CloseReason, *, found: int) -> None:
        """Close because a limit was passed; `found` is what was measured."""
        limit: int = getattr(self._registry.limits, reason)
        # Clients that have nothing to say are no reason to worry.
        level = "info" if reason is CloseReason.IDLE else "warning"
        self._tell(reason, level, limit=limit, found=found, in_flight=len(self.exchanges))
        self.end(reason)
        if self.times.is_behind:
            self._transport.abort()  # not to wait any more until this client reads

    def close_for_handler(self, why: str) -> None:
        """Close because the handler says so."""
        if not self.gone:
            self._registry.note_hang_up(self.peer, why)
            self.end(CloseReason.HANDLER)

    def close_for_unencodable(self, request: Request, error: Exception) -> None:
        """Close because an answer does not fit its request, which is a bug of ours."""
        log_unencodable(self.log, request, error)
        self.end(CloseReason.BUG)

    def _tell(self, reason: CloseReason, level: str = "warning", **values: object) -> None:
        self.log("connection closed", level=level, reason=str(reason), **values)

    def log(self, event: str, *, level: str = "warning", **values: object) -> None:
        """Log something that the client caused."""
        self._registry.log(event, level=level, peer=str(self.peer), **values)

    def end(self, reason: CloseReason) -> None:
        """Close, for a reason that was logged."""
        if self.gone:
            return
        self.gone, self._close_reason = True, reason
        # What was answered before the request that we close for is still sent.
        if not self.times.is_behind:
            self._outgoing.write_ready()
        self._outgoing.post()
        self.times.due = self._registry.now() + self._registry.limits.close_timeout_ms / 1000
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        """Free what the client made us hold, though a parked exchange may hold on to this."""
        self.gone = True
        exchanges = self._outgoing.take_all()
        self.incoming.let_go()
        self._fast_path.forget()
        self._resumption.waiting.clear()
        self._backlog, self.guard = [], None  # The guard leads back here.
        for exchange in exchanges:
            exchange.abandon()
