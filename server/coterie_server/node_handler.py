"""What stands between connections and a node that may not be ready yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coterie_server.net.exchange import STOPPING

if TYPE_CHECKING:
    from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
    from coterie_server.net import Exchange
    from coterie_server.net.fast_path import Sender
    from coterie_server.serving.node import Node

__all__ = ["Gate", "NodeHandler"]

#: Sees a request before the node does; returns True if it has taken the request from it.
Gate = Callable[["Exchange"], bool]


class NodeHandler:
    """Hands requests to the node; those that come before it is ready wait, in their order."""

    def __init__(self, gate: Gate | None) -> None:
        self._gate = gate
        self._node: Node | None = None
        self._waiting: dict[Exchange, None] = {}
        self._is_closed = False

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        if self._gate is not None and self._gate(exchange):
            return
        if self._node is not None:
            self._node.handle(exchange)
        elif self._is_closed:
            exchange.close(STOPPING)
        else:
            self._waiting[exchange] = None
            exchange.when_gone(self._waiting.pop)

    def try_heartbeat(self, message: HeartbeatRequest, sender: Sender) -> HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once."""
        if self._node is None or self._gate is not None:
            return None
        return self._node.try_heartbeat(message, sender)

    def open(self, node: Node) -> None:
        """Hand over to a node, which is ready, all that waits and all that comes."""
        self._node = node
        waiting, self._waiting = self._waiting, {}
        for exchange in waiting:
            exchange.when_gone(None)
            exchange.resume(partial(node.handle, exchange))

    def close(self) -> None:
        """Hang up on those who wait for a node that is stopped before it was ready."""
        self._is_closed = True
        for exchange in list(self._waiting):
            exchange.close(STOPPING)
