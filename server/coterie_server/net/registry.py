"""All connections of a listener: who may come in, who overstays, and what was counted."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from coterie_protocol import ApiKey
from coterie_server.log.logger import get_logger, shortened
from coterie_server.log.repeats import Repeats
from coterie_server.net.addresses import Peer
from coterie_server.net.admission import Admission
from coterie_server.net.endpoint import Endpoint
from coterie_server.net.exchange import Exchange, Handler, OnReply
from coterie_server.net.fast_path import FastAnswer, by_api
from coterie_server.net.incoming import Incoming
from coterie_server.net.limits import Limits
from coterie_server.net.members import Membership
from coterie_server.net.outbox import Outbox
from coterie_server.net.slices import Slices
from coterie_server.net.stats import CloseReason, NetStats, RefuseReason
from coterie_server.net.strangers import Strangers
from coterie_server.net.time_limits import TimeLimits
from coterie_server.turns import Turns

__all__ = ["LOG_LINES_PER_SWEEP", "OpenConnection", "Registry", "has_hung_up"]

_log = get_logger(__name__)

#: What hostile clients can write into our log between two sweeps; the rest is counted and summed
#: up in one line. Without it, a client that connects in a loop fills the disk.
LOG_LINES_PER_SWEEP: Final = 100
#: How long a text in these lines may be, as it may quote the client.
_TEXT_MAX: Final = 500

#: Linux tells of a close also when there are bytes before it; zero elsewhere.
_CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the client has closed its side, or the connection is broken.

    Where the system does not tell, bytes that were not read yet hide it.
    """
    connected = transport.get_extra_info("socket")
    number = -1 if connected is None else connected.fileno()
    if number < 0:
        return False
    return _is_closed(number) if _CLOSED else _is_at_the_end(number)


def _is_closed(number: int) -> bool:
    poll = select.poll()
    poll.register(number, _CLOSED)
    return bool(poll.poll(0))


def _is_at_the_end(number: int) -> bool:
    with socket.socket(fileno=os.dup(number)) as peeking:
        try:
            return not peeking.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class OpenConnection(Protocol):
    """What the registry needs of a connection."""

    peer: Peer
    endpoint: Endpoint
    exchanges: deque[Exchange]
    incoming: Incoming
    times: TimeLimits
    membership: Membership

    @property
    def guard(self) -> object:
        """What stands before it, as when it was made if its client has to log in; or None."""

    def check(self, now: float) -> None:
        """Close if a limit of time is over, else set `times.due` to when to look again."""

    def close_for(self, reason: CloseReason, *, found: int) -> None:
        """Close because a limit was passed."""

    def stop(self) -> None:
        """Read nothing more and close when the requests at hand are answered."""

    def abort(self, reason: CloseReason = CloseReason.STOPPING) -> None:
        """Drop the connection and whatever it still had to send."""


class Registry:
    """What the connections of a listener share.

    The counts that every request touches are plain attributes, which connections add to.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        *,
        now: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], object],
        on_reply: OnReply | None = None,
        at_once: Mapping[ApiKey, FastAnswer] | None = None,
        stopwatch: Callable[[], float] = time.perf_counter,
        has_hung_up: Callable[[asyncio.BaseTransport], bool] = has_hung_up,
    ) -> None:
        self.handle = handler.handle
        self.on_reply = on_reply
        self.fast_answers = by_api(at_once or {})
        self.limits = limits
        self.now = now
        self.call_soon = call_soon
        #: Finishes long answers.
        self.turns = Turns(call_soon)
        self.outbox = Outbox(call_soon)
        self.slices = Slices(call_soon)
        #: What `now` does not tell: a loop's time may stand still while it is busy.
        self.stopwatch = stopwatch
        self.has_hung_up = has_hung_up
        self.on_empty: Callable[[], None] | None = None
        self.stopping = False
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._refusing = False
        self._connections: set[OpenConnection] = set()
        self.admission = Admission(limits)
        self.strangers = Strangers()
        self._unfinished_bytes = 0
        self._accepted = 0
        self._refused = dict.fromkeys(RefuseReason, 0)
        self._closed = dict.fromkeys(CloseReason, 0)
        self._log_lines_left = LOG_LINES_PER_SWEEP
        self._hang_ups = Repeats()

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: object) -> bool:
        return connection in self._connections

    def members(self, joined_within_s: float) -> int:
        """How many connections have members that take this node for their coordinator.

        One on which they have joined, without a word since then for so long, is not the one on
        which they send heartbeats.
        """
        since = self.now() - joined_within_s
        return sum(
            each.membership is Membership.ALIVE
            or (each.membership is Membership.JOINED and each.times.active_at > since)
            for each in self._connections
        )

    @property
    def unfinished_bytes(self) -> int:
        """How much has arrived, over all connections, of frames that are not whole yet."""
        return self._unfinished_bytes

    def admit(self, connection: OpenConnection) -> bool:
        """Take a new connection in, or refuse it with a log line."""
        if not self.enter(connection.peer, connection.endpoint):
            return False
        self._connections.add(connection)
        self._accepted += 1
        if connection.guard is not None:
            drop = partial(self._drop_stranger, connection)
            listener = connection.endpoint.terms.name
            self.strangers.add(connection, connection.peer.address, listener, drop)
        return True

    def _drop_stranger(self, connection: OpenConnection) -> None:
        reason, peer = CloseReason.MADE_ROOM, str(connection.peer)
        self.log("connection closed", reason=str(reason), peer=peer, strangers=len(self.strangers))
        connection.abort(reason)
        self.forget(connection, reason)  # It would leave only in the loop's next turn.

    def enter(self, peer: Peer, endpoint: Endpoint) -> bool:
        """Count a connection in that may not be served yet, or refuse it with a log line."""
        if self._refusing:
            self.note_refusal(RefuseReason.STOPPING, peer, endpoint, limit=0, found=len(self))
            return False
        refusal = self.admission.enter(peer.address, endpoint)
        # Room at the listener may be short as well as that for all.
        while refusal is not None and self.strangers.make_room(refusal.can_be_cured_by):
            refusal = self.admission.enter(peer.address, endpoint)
        if refusal is None:
            return True
        self.note_refusal(refusal.reason, peer, endpoint, limit=refusal.limit, found=refusal.found)
        return False

    def note_refusal(
        self, reason: RefuseReason, peer: Peer, endpoint: Endpoint, **told: object
    ) -> None:
        """Count a connection that is turned away, and log why."""
        self._refused[reason] += 1
        self.log(
            "connection refused",
            level="warning",
            reason=str(reason),
            **told,
            peer=str(peer),
            listener=endpoint.terms.name,
        )

    def note_hang_up(self, peer: Peer, why: str) -> None:
        """Log why the handler hangs up, but not each time: many may meet that and retry."""
        if times := self._hang_ups.count(why, round(self.now() * 1000)):
            reason = str(CloseReason.HANDLER)
            self.log("connection closed", reason=reason, peer=str(peer), why=why, times=times)

    def forget(self, connection: OpenConnection, reason: CloseReason) -> None:
        """Count a connection out."""
        self._connections.discard(connection)
        self.strangers.discard(connection)
        self._closed[reason] += 1
        self.admission.leave(connection.peer.address, connection.endpoint)
        if not self._connections and self.on_empty is not None:
            self.on_empty()

    def charge(self, change_bytes: int) -> None:
        """Note that unfinished frames grew or shrank; cut off the largest if all are too large.

        The largest, not the one that grew: a small request in two pieces must not pay for those
        that fill the memory.
        """
        self._unfinished_bytes += change_bytes
        if self._unfinished_bytes > self.limits.unfinished_frames_max_bytes:
            largest = max(self._to_pay(), key=lambda each: each.incoming.unfinished_bytes)
            largest.close_for(CloseReason.UNFINISHED_FRAMES, found=self._unfinished_bytes)

    def _to_pay(self) -> Collection[OpenConnection]:
        """Of which connections the largest is to be cut off.

        Many strangers' small frames must not cost a client that is known its large one.
        """
        strangers = [each for each in self._connections if each in self.strangers]
        strangers_bytes = sum(each.incoming.unfinished_bytes for each in strangers)
        return strangers if strangers_bytes * 2 > self._unfinished_bytes else self._connections

    def sweep(self) -> None:
        """Look after all limits of time. A connection that is in time costs one comparison."""
        now = self.now()
        for connection in [each for each in self._connections if each.times.due <= now]:
            connection.check(now)
        self._renew_log_budget()

    def refuse_all(self) -> None:
        """Let no more connections in."""
        self._refusing = True

    def stop(self) -> None:
        """Close the connections at hand as soon as they have their answers; read nothing more."""
        self.refuse_all()
        self.stopping = True
        for connection in list(self._connections):
            connection.stop()

    def abort(self) -> None:
        """Drop all connections."""
        for connection in list(self._connections):
            connection.abort()

    def log(self, event: str, *, level: str = "warning", **values: object) -> None:
        """Log something that a client caused, unless clients have caused too much of late."""
        self._log_lines_left -= 1
        if self._log_lines_left >= 0:
            told = {
                name: shortened(value, _TEXT_MAX) if isinstance(value, str) else value
                for name, value in values.items()
            }
            getattr(_log, level)(event, **told)

    def _renew_log_budget(self) -> None:
        if self._log_lines_left < 0:
            _log.warning("more connections refused or closed", lines=-self._log_lines_left)
        self._log_lines_left = LOG_LINES_PER_SWEEP

    def stats(self) -> NetStats:
        """The counts as they are now."""
        return NetStats(
            open=len(self),
            in_flight=sum(len(each.exchanges) for each in self._connections),
            accepted=self._accepted,
            requests=self.requests,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            refused=MappingProxyType(dict(self._refused)),
            closed=MappingProxyType(dict(self._closed)),
        )
