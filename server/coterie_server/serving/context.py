"""What all shards of a node have in common, and how they see requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from coterie_server.log.limits import LimitLog
from coterie_server.serving.access import Access
from coterie_server.serving.group_listeners import GroupListeners
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.step import Request
from coterie_server.topics import PartitionEnds
from coterie_server.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from coterie_protocol.journal import Event
    from coterie_server.serving.clock import Clock
    from coterie_server.serving.durable_queue import Meter
    from coterie_server.storage import Lease, Store

__all__ = ["NodeContext", "PendingRequest", "call_soon"]


class PendingRequest(Request, Protocol):
    """A request as a shard sees it: an `Exchange`, or a part of one that asks several shards."""

    @property
    def connected_ms(self) -> int:
        """When its connection was made, in the time of the event loop."""

    @property
    def abandoned(self) -> bool:
        """Whether no client waits for the reply any more."""

    def resume(self, action: Callable[[], None]) -> None:
        """Have done what goes on with it, if it had to wait, when its connection has its turn."""

    def reply(self, message: Any) -> None:  # noqa: ANN401  # any response
        """Answer it, exactly once."""

    def close(self, why: str) -> None:
        """Close its connection instead of answering."""


def _ignore(*_: object) -> None:
    """Do nothing."""


def _as_usual() -> int:
    """The number of shards unless the settings say otherwise."""
    return 50


def call_soon(action: Callable[[], None]) -> None:
    """Do something in the event loop's next turn."""
    asyncio.get_running_loop().call_soon(action)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What all shards of a node have in common."""

    store: Store
    clock: Clock
    #: Until when the node may act as the owner of its shards; without end if nothing limits it.
    trust: LeaseTrust = field(default_factory=LeaseTrust)
    #: Told of a shard that another node has, as the store says.
    on_fenced: Callable[[int], None] = _ignore
    #: Claims a shard anew after an append has failed; None if it is this node's no longer.
    claim_again: Callable[[int], Awaitable[Lease | None]] | None = None
    meter: Meter | None = None
    limit_log: LimitLog = field(default_factory=LimitLog)
    #: Who may do what, and who is who.
    access: Access = field(default_factory=Access)
    #: Where partitions end: at the highest offset that the groups of any shard have committed.
    ends: PartitionEnds = field(default_factory=PartitionEnds)
    #: Whether other nodes use the store, so that the journal has to tell which shards went where.
    is_shared: bool = False
    #: How many shards the groups are spread over.
    count_shards: Callable[[], int] = _as_usual
    #: Told of events, with their dates.
    observe: Callable[[int, Event], None] = _ignore
    #: Told which groups went to another node.
    forget: Callable[[Collection[str]], None] = _ignore
    #: Told that something may have become of a group, once that is durable.
    listeners: GroupListeners = field(default_factory=GroupListeners)
    #: Told when a shard has something to do next, if that may be earlier than it was.
    arm: Callable[[int], None] = _ignore
    #: Does what concerns very many groups or members.
    turns: Turns = field(default_factory=lambda: Turns(call_soon))
