"""What a keeper of leases is told, and whom it tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coterie_server.storage import Lease

__all__ = ["LeaseHolder", "LeaseTerms"]


class LeaseHolder(Protocol):
    """Serves the shards whose leases a keeper keeps."""

    def note(self, *, is_settled: bool, is_leaving: bool) -> bytes:
        """What the node tells the others."""

    def lost(self, shard: int) -> None:
        """Another node has a shard."""

    def gained(self, lease: Lease, how: str, former_owner: str) -> None:
        """A shard can be served; `former_owner` had it last, if that is known.

        `how` it came is told as in the journal: it was `free`, its lease had `expired`, or it was
        `handed_over`.
        """

    def is_forming(self, shard: int) -> bool:
        """Whether members wait for a group to begin, which would wait anew on another node."""

    async def give_up(self, shard: int) -> None:
        """Serve a shard no longer, and return when nothing more is written to it."""

    async def wake_others(self) -> None:
        """Have the other nodes look at once, as there is something for them to claim."""

    def looked(self) -> None:
        """The other nodes may not be what they were."""

    def confirmed(self) -> None:
        """The leases hold."""

    def doubted(self) -> None:
        """It can't be found out just now whether the leases hold."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """In whose name shards are leased, and how."""

    owner: str
    ttl_ms: int
    #: How often to look what other nodes do; None if there are none.
    look_every_ms: int | None = None
    #: Nodes that are started together with this one, so that it leaves them their shares at first.
    companions: frozenset[str] = frozenset()
