"""A node of the cluster, as its clients know it."""

from __future__ import annotations

import asyncio

from coterie_client.backoff import Backoff
from coterie_client.wire.addresses import Lane, NodeAddress
from coterie_client.wire.connection import Connection

__all__ = ["Node", "Slot"]


class Slot:
    """A node's connection for one lane, or the attempt to make it."""

    __slots__ = ("attempt", "connection", "reached")

    def __init__(self) -> None:
        #: Whether there has been a connection before.
        self.reached = False
        self.connection: Connection | None = None
        self.attempt: asyncio.Task[Connection] | None = None


class Node:
    """A node, its back-off and its connections."""

    __slots__ = ("address", "backoff", "failed_attempts", "is_slow", "slots")

    def __init__(self, address: NodeAddress, backoff: Backoff) -> None:
        self.address = address
        self.backoff = backoff
        #: How many attempts to connect have failed since one succeeded.
        self.failed_attempts = 0
        #: Whether it kept a question waiting that others could answer, and has answered none since.
        self.is_slow = False
        self.slots = {lane: Slot() for lane in Lane}

    @property
    def reached(self) -> bool:
        """Whether there has been a connection to it."""
        return any(slot.reached for slot in self.slots.values())

    @property
    def is_in_use(self) -> bool:
        """Whether there is a connection to it, or an attempt to make one."""
        return any(self.connected(lane) or self.slots[lane].attempt for lane in self.slots)

    def connected(self, lane: Lane) -> bool:
        """Whether there is a connection for a lane now."""
        connection = self.slots[lane].connection
        return connection is not None and not connection.closed
