"""What a node is told of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_server.address import Address

__all__ = ["NodeOptions"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is called, where it is reached, and how it divides its groups."""

    node_id: int
    #: Where it is reached by clients and by other nodes.
    address: Address
    shards: int
    lease_ms: int
    #: Go on with a store that has lost something that was acknowledged.
    accept_loss: bool = False
    #: The host and the port on which the node answers HTTP, if it does.
    http: tuple[str, int] | None = None
    #: Where clients find HTTP instead, by the address at which their listener is reached.
    advertised_http: Mapping[Address, Address] = field(default_factory=dict)
    #: Where it is reached by each of its listeners, if it has several.
    addresses: Mapping[str, Address] = field(default_factory=dict)
    #: How often to look what other nodes do; None if there are no others.
    look_every_ms: int | None = None

    @property
    def owner(self) -> str:
        """The name under which it holds its shards."""
        return f"node-{self.node_id}"
