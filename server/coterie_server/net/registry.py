"""All connections of a listener: who may come in, who overstays, and what was counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from coterie_protocol import ApiKey
from coterie_server.log.logger import get_logger
from coterie_server.net.exchange import Handler, OnReply
from coterie_server.net.hanging_up import has_hung_up
from coterie_server.net.limits import Limits
from coterie_server.net.quick import QuickAnswer, QuickAnswers
from coterie_server.net.stats import CloseReason, NetStats, RefuseReason

__all__ = ["LOG_LINES_PER_SWEEP", "Guest", "Registry"]

_log = get_logger(__name__)

#: What hostile clients can write into our log between two sweeps; the rest is counted and summed
#: up in one line. Without it, whoever connects in a loop fills the disk.
LOG_LINES_PER_SWEEP: Final = 100


class Guest(Protocol):
    """What the registry needs of a connection."""

    due: float
    address: str

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""

    @property
    def unfinished_bytes(self) -> int:
        """How much of a frame has arrived that is not whole yet."""

    def check(self, now: float) -> None:
        """Close if a limit of time is over, else set `due` to when to look again."""

    def close_for(self, reason: CloseReason, *, found: int) -> None:
        """Close because of a limit, of which so much was found."""

    def stop(self) -> None:
        """Read nothing more and close when the requests at hand are answered."""

    def abort(self) -> None:
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
        at_once: Mapping[ApiKey, QuickAnswer] | None = None,
        stopwatch: Callable[[], float] = time.perf_counter,
        has_hung_up: Callable[[asyncio.BaseTransport], bool] = has_hung_up,
    ) -> None:
        self.handle = handler.handle
        self.on_reply = on_reply
        self.quick = QuickAnswers(at_once or {})
        self.limits = limits
        self.now = now
        self.call_soon = call_soon
        #: What `now` does not tell: a loop's time may stand still while it is busy.
        self.stopwatch = stopwatch
        self.has_hung_up = has_hung_up
        self.on_empty: Callable[[], None] | None = None
        self.stopping = False
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._refusing = False
        self._guests: set[Guest] = set()
        self._per_address: Counter[str] = Counter()
        self._unfinished_bytes = 0
        self._accepted = 0
        self._refused = dict.fromkeys(RefuseReason, 0)
        self._closed = dict.fromkeys(CloseReason, 0)
        self._log_lines_left = LOG_LINES_PER_SWEEP

    def __len__(self) -> int:
        return len(self._guests)

    def __contains__(self, guest: object) -> bool:
        return guest in self._guests

    @property
    def unfinished_bytes(self) -> int:
        """How much has arrived, over all connections, of frames that are not whole yet."""
        return self._unfinished_bytes

    def admit(self, guest: Guest, peer: str) -> bool:
        """Take a new connection in, or refuse it with a log line."""
        refusal = self._refusal(guest.address)
        if refusal is None:
            self._guests.add(guest)
            self._per_address[guest.address] += 1
            self._accepted += 1
            return True
        reason, limit, found = refusal
        self._refused[reason] += 1
        self.log("connection refused", reason=str(reason), limit=limit, found=found, peer=peer)
        return False

    def _refusal(self, address: str) -> tuple[RefuseReason, int, int] | None:
        limits, here = self.limits, self._per_address[address]
        if self._refusing:
            return RefuseReason.STOPPING, 0, len(self)
        if len(self) >= limits.max_connections:
            return RefuseReason.MAX_CONNECTIONS, limits.max_connections, len(self)
        if here >= limits.max_connections_per_ip:
            return RefuseReason.MAX_CONNECTIONS_PER_IP, limits.max_connections_per_ip, here
        return None

    def forget(self, guest: Guest, reason: CloseReason) -> None:
        """Count a connection out."""
        self._guests.discard(guest)
        self._closed[reason] += 1
        self._per_address[guest.address] -= 1
        if not self._per_address[guest.address]:
            # Or everyone who ever came would be remembered.
            del self._per_address[guest.address]
        if not self._guests and self.on_empty is not None:
            self.on_empty()

    def charge(self, change_bytes: int) -> None:
        """Note that unfinished frames grew or shrank; cut off the largest if all are too large.

        The largest, not the one that grew: a small request in two pieces must not pay for those
        who fill the memory.
        """
        self._unfinished_bytes += change_bytes
        if self._unfinished_bytes > self.limits.unfinished_frames_max_bytes:
            largest = max(self._guests, key=lambda guest: guest.unfinished_bytes)
            largest.close_for(CloseReason.UNFINISHED_FRAMES, found=self._unfinished_bytes)

    def sweep(self) -> None:
        """Look after all limits of time. A connection that is in time costs one comparison."""
        now = self.now()
        for guest in [guest for guest in self._guests if guest.due <= now]:
            guest.check(now)
        self._renew_log_budget()

    def refuse_all(self) -> None:
        """Let no more connections in."""
        self._refusing = True

    def stop(self) -> None:
        """Close the connections at hand as soon as they have their answers; read nothing more."""
        self.refuse_all()
        self.stopping = True
        for guest in list(self._guests):
            guest.stop()

    def abort(self) -> None:
        """Drop all connections."""
        for guest in list(self._guests):
            guest.abort()

    def log(self, event: str, *, level: str = "warning", **values: object) -> None:
        """Log something that a client caused, unless clients have caused too much of late."""
        self._log_lines_left -= 1
        if self._log_lines_left >= 0:
            getattr(_log, level)(event, **values)

    def _renew_log_budget(self) -> None:
        if self._log_lines_left < 0:
            _log.warning("more connections refused or closed", lines=-self._log_lines_left)
        self._log_lines_left = LOG_LINES_PER_SWEEP

    def stats(self) -> NetStats:
        """The counts as they are now."""
        return NetStats(
            open=len(self),
            in_flight=sum(guest.in_flight for guest in self._guests),
            accepted=self._accepted,
            requests=self.requests,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            refused=MappingProxyType(dict(self._refused)),
            closed=MappingProxyType(dict(self._closed)),
        )
