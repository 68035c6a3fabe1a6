"""What a node is called, where it is reached, and how it divides its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coterie_server.serving.access import Access
from coterie_server.serving.discovery import HttpAddresses
from coterie_server.serving.lease_terms import LeaseTerms

if TYPE_CHECKING:
    from coterie_server.address import Address
    from coterie_server.tls import ServerTls

__all__ = ["NodeOptions", "owner_name"]


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
    #: Where it answers other nodes over HTTP, if it does.
    peer_http: Address | None = None
    #: The certificate that it has there; None without TLS.
    http_tls: ServerTls | None = None
    #: The ids of the nodes that are started together with it.
    companions: tuple[int, ...] = ()
    #: Who may do what on it, and who is who.
    access: Access = field(default_factory=Access)
    #: What the listener for other nodes wants of them: TLS, and a proof that they are nodes.
    has_tls: bool = False
    wants_proof: bool = False

    @property
    def http_addresses(self) -> HttpAddresses:
        """Where clients find HTTP."""
        return HttpAddresses(self.http, self.advertised_http, self.http_tls is not None)

    @property
    def lease_terms(self) -> LeaseTerms:
        """How it shares shards with other nodes."""
        companions = frozenset(map(owner_name, self.companions))
        return LeaseTerms(self.owner, self.lease_ms, self.look_every_ms, companions)

    @property
    def owner(self) -> str:
        """The name under which it holds its shards."""
        return owner_name(self.node_id)


def owner_name(node_id: int) -> str:
    """The name under which a node holds its shards."""
    return f"node-{node_id}"
