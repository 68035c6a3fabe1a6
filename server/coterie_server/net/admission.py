"""Who may come in: how many connections there may be, from where, and how soon after each other."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple, final

from coterie_server.net.endpoint import Endpoint
from coterie_server.net.limits import UNLIMITED, Limits
from coterie_server.net.stats import RefuseReason

__all__ = ["Admission", "Refusal"]

#: The connections of how many seconds may come at once, before those that follow have to wait.
_BURST_S: Final = 1.0


class Refusal(NamedTuple):
    """Why a connection is turned away: a limit, its value, and what was found."""

    reason: RefuseReason
    limit: int
    found: int
    #: The address or the listener that has too many; empty where all have together.
    address: str = ""
    listener: str = ""

    def can_be_cured_by(self, address: str, listener: str) -> bool:
        """Whether one connection less from there, and at that listener, is enough."""
        return self.address in ("", address) and self.listener in ("", listener)


class _Rate:
    """Spaces out connections so that no more than so many come in a second."""

    def __init__(self, per_second: int) -> None:
        self._gap_s = 0.0 if per_second >= UNLIMITED else 1 / per_second
        self._free_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """How long the next connection has to wait."""
        return max(self._free_at - now, 0.0)

    def take(self, now: float) -> None:
        self._free_at = max(self._free_at, now - _BURST_S) + self._gap_s


@final
class Admission:
    """Counts connections from when they are accepted, before they have shaken hands."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._count = 0
        self._by_address: Counter[str] = Counter()
        self._by_endpoint: Counter[str] = Counter()
        self._rate = _Rate(limits.max_connection_creation_rate)
        self._rates: dict[str, _Rate] = {}

    def enter(self, address: str, endpoint: Endpoint) -> Refusal | None:
        """Count a connection in, or say why it can't be."""
        limits, here = self._limits, self._by_address[address]
        if self._count >= limits.max_connections:
            return Refusal(RefuseReason.MAX_CONNECTIONS, limits.max_connections, self._count)
        there = self._by_endpoint[endpoint.terms.name]
        if there >= endpoint.terms.max_connections:
            return Refusal(
                RefuseReason.MAX_CONNECTIONS,
                endpoint.terms.max_connections,
                there,
                listener=endpoint.terms.name,
            )
        most = limits.max_connections_per_ip_overrides.get(address, limits.max_connections_per_ip)
        if here >= most:
            return Refusal(RefuseReason.MAX_CONNECTIONS_PER_IP, most, here, address=address)
        self._count += 1
        self._by_address[address] += 1
        self._by_endpoint[endpoint.terms.name] += 1
        return None

    def leave(self, address: str, endpoint: Endpoint) -> None:
        """Count a connection out."""
        self._count -= 1
        self._by_endpoint[endpoint.terms.name] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            # Or every address that ever connected would be remembered.
            del self._by_address[address]

    def wait_s(self, now: float, endpoint: Endpoint) -> float:
        """How long a connection has to wait so that not too many come in a second.

        Unless it would be too long, its place is taken.
        """
        rates = (self._rate, self._of(endpoint))
        wait_s = max(rate.wait_s(now) for rate in rates)
        if wait_s <= self._limits.first_byte_timeout_ms / 1000:
            for rate in rates:
                rate.take(now)
        return wait_s

    def _of(self, endpoint: Endpoint) -> _Rate:
        found = self._rates.get(endpoint.terms.name)
        if found is None:
            found = self._rates[endpoint.terms.name] = _Rate(endpoint.terms.max_creation_rate)
        return found
