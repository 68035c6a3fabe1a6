"""The events about a node and its shards, for import from `coterie_protocol.journal`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from coterie_protocol._journal_base import Event

__all__ = [
    "ClockStepped",
    "NodePaused",
    "NodeStarted",
    "NodeStopped",
    "ShardGiven",
    "ShardTaken",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """A node is ready to serve; the numbers of groups and offsets that it has loaded."""

    kind: ClassVar[str] = "node_started"

    version: str
    groups: int
    offsets: int
    load_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it was told to accept that its store had lost acknowledged data.
    accepted_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """A node stopped in good order; a start without this line before it follows a crash."""

    kind: ClassVar[str] = "node_stopped"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaused(Event):
    """A node did not run for a while: its process or machine was suspended, or its loop blocked.

    That time does not count for sessions, rebalances and other deadlines.
    """

    kind: ClassVar[str] = "node_paused"

    paused_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStepped(Event):
    """The system clock of a node was set; the journal's times follow, but never go back."""

    kind: ClassVar[str] = "clock_stepped"

    #: Negative if it was set back.
    stepped_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTaken(Event):
    """A node has a shard from here on, under this epoch, and reads its groups.

    `how` is one of start (it took the shard as it started), free (the shard had no owner), expired
    (the former owner's lease had run out), handed_over (the former owner gave the shard up),
    reclaimed (the node had it, and has it under a new epoch).
    """

    kind: ClassVar[str] = "shard_taken"

    shard: int
    #: Such as "7", or "2.7" where the timeline of the database counts as well.
    epoch: str
    #: Empty if the shard had none.
    former_owner: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardGiven(Event):
    """A node does not have a shard any more; no event of the shard's groups follows.

    `how` is one of lost (another node may have it), handed_over, stopping, store_failed.
    """

    kind: ClassVar[str] = "shard_given"

    shard: int
    #: Under which it had the shard.
    epoch: str
    how: str
    #: How many shards the groups are spread over.
    shards: int = 50
