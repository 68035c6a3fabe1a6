"""Leaving shards to those who had them until their leases are over by this node's clock, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie_server.storage import Fence, Lease

__all__ = ["Patience"]

#: After answers that are further apart than this part of a lease, its whole length begins anew.
_ANSWERS_APART: Final = 2
#: After so many answers without a look the node does not see what it might take.
_ANSWERS_BLIND: Final = 2
#: This part of a lease need not have passed: its owner trusts it for less, and it was renewed a
#: moment before that was seen.
_SEEN_LATE: Final = 20


class _Renewal(NamedTuple):
    """What was seen last of a lease that another node has."""

    fence: Fence
    until: str
    #: When it was seen first.
    since_s: float
    owner: str
    is_valid: bool


@final
class Patience:
    """Which shards a node leaves alone though the store says that their leases have expired.

    Leases expire by the clock of the store, and nodes trust them for as long by their own.  If that
    clock is set forward, or a database with another one takes over, all leases expire early, and
    their owners go on.  So a node also waits until it has seen, for the length of a lease, that an
    owner has not renewed its own.

    It begins to wait anew if it has not heard of the store for a while, as when that was away from
    all nodes, and all leases have run out.  The first node to come back would take all shards, only
    to share them out again a moment later, and every group would move twice.
    """

    __slots__ = ("_answers", "_heard_s", "_me", "_seen", "_ttl_s")

    def __init__(self, me: str, ttl_s: float) -> None:
        self._me = me
        self._ttl_s = ttl_s
        self._heard_s = 0.0
        self._seen: dict[int, _Renewal] = {}
        #: How often the store has answered since it was looked at.
        self._answers = 0

    @property
    def is_blind(self) -> bool:
        """Whether the store answers again and again, but not when it is looked at.

        That takes more round trips, so it may fail where the store is far away.
        """
        return self._answers >= _ANSWERS_BLIND

    @property
    def expired(self) -> frozenset[int]:
        """The shards whose leases had expired when the store was looked at."""
        return frozenset(shard for shard, seen in self._seen.items() if not seen.is_valid)

    def hear(self, now_s: float) -> None:
        """The store has answered something; one that is slow does so often enough."""
        if now_s - self._heard_s > self._ttl_s / _ANSWERS_APART:
            self._seen = {}
        self._heard_s = now_s
        self._answers += 1

    def look(self, leases: Iterable[Lease], answered_s: float) -> None:
        """Take in what the store said."""
        self.hear(answered_s)
        self._answers = 0
        before, self._seen = self._seen, {}
        for lease in leases:
            seen = before.get(lease.shard)
            is_news = seen is None or (seen.fence, seen.until) != (lease.fence, lease.until)
            since_s = answered_s if seen is None or is_news else seen.since_s
            self._seen[lease.shard] = _Renewal(
                lease.fence, lease.until, since_s, lease.owner, lease.is_valid
            )

    def left_alone(self, now_s: float, lease_s_of: Callable[[str], float]) -> dict[int, str]:
        """The shards whose leases have expired and are respected, with their owners.

        `lease_s_of` says how long the leases of an owner are, which may be longer than this node's.
        """
        if not self._ttl_s:
            return {}
        return {
            shard: seen.owner
            for shard, seen in self._seen.items()
            if not seen.is_valid
            and seen.owner != self._me
            and now_s - seen.since_s < self._wait_s(lease_s_of(seen.owner))
        }

    def _wait_s(self, lease_s: float) -> float:
        longer_s = max(self._ttl_s, lease_s)
        return longer_s - longer_s / _SEEN_LATE
