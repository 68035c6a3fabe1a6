"""The nodes of a cluster: those that the user named, those that answers name, and whom to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from coterie_client.errors import ConnectionFailedError
from coterie_client.wire.addresses import AnyNode, Lane, NodeAddress, named_nodes
from coterie_client.wire.node import Node, Slot
from coterie_protocol.messages import FindCoordinatorResponse, MetadataResponse

__all__ = ["Nodes"]

#: So many are remembered.  Nodes within workers have other addresses after each restart.
_REMEMBERED_MAX: Final = 1_000


class Nodes:
    """What a client knows of the nodes of one cluster."""

    def __init__(
        self,
        bootstrap: tuple[NodeAddress, ...],
        make: Callable[[NodeAddress], Node],
        random: Callable[[], float],
    ) -> None:
        self._bootstrap = bootstrap
        self._make = make
        self._random = random
        #: All that there was anything to remember of, the oldest first.
        self._nodes: dict[NodeAddress, Node] = {}
        #: The ids under which addresses were named.
        self._ids: dict[NodeAddress, int] = {}
        #: Those of the cluster by id, as far as known.
        self.known: dict[int, NodeAddress] = {}
        #: The controller according to the last Metadata answer; None if it named none.
        self.controller: NodeAddress | None = None

    def __getitem__(self, address: NodeAddress) -> Node:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = self._make(address)
        return node

    def slots(self) -> list[Slot]:
        """The slots of all nodes."""
        return [slot for node in self._nodes.values() for slot in node.slots.values()]

    def id_of(self, address: NodeAddress) -> int | None:
        """The id of the node that servers have named by an address; None if none has."""
        return self._ids.get(address)

    def use(self, node: Node) -> Node:
        """Remember a node that is about to be connected to, though it may have been forgotten."""
        return self._nodes.setdefault(node.address, node)

    # Learning

    def learn(self, answer: Any) -> None:
        """Remember the nodes that an answer names."""
        if isinstance(answer, MetadataResponse) and answer.brokers:
            named = named_nodes(answer)
            self.known = named
            self.controller = named.get(answer.controller_id)
        elif isinstance(answer, FindCoordinatorResponse):
            named = dict(_coordinators(answer))
            self.known |= named
            for address in named.values():
                # Who asked has waited long enough, and it may just have started again.
                self[address].backoff.wait_no_longer()
        else:
            return
        self._ids |= {address: node_id for node_id, address in named.items()}
        if max(len(self._nodes), len(self._ids)) > _REMEMBERED_MAX:
            self._forget_former()

    def _forget_former(self) -> None:
        """Forget those of which nobody speaks any more, and to which there is no connection."""
        used = {node.address for node in self._nodes.values() if node.is_in_use}
        kept = used.union(self.known.values(), self._bootstrap)
        self._nodes = {address: node for address, node in self._nodes.items() if address in kept}
        self._ids = {address: number for address, number in self._ids.items() if address in kept}

    # Choosing

    def candidates(self, to: AnyNode, lane: Lane) -> list[Node]:
        """Whom to ask what any can answer, those first that are most likely to do so soon."""
        if to.but is None:
            return self._ordered(to, lane)
        # A bootstrap address may be another name of just the one that is not to be asked.
        others = set(self.known.values()) - {to.but}
        if not others:
            raise ConnectionFailedError(f"No node is known but {to.but}.")
        return [node for node in self._ordered(to, lane) if node.address in others]

    def _ordered(self, to: AnyNode, lane: Lane) -> list[Node]:
        now_s = asyncio.get_running_loop().time()
        known = tuple(dict.fromkeys(self.known.values()))
        # Each client starts at a random node, so that not all of them choose the same.
        start = int(self._random() * len(known))
        addresses = dict.fromkeys((*known[start:], *known[:start], *self._bootstrap))
        nodes = [self[address] for address in addresses]
        if to.anew and len(nodes) > 1:
            start = int(self._random() * len(nodes))
            nodes = nodes[start:] + nodes[:start]
            # The one that knows may be one that has failed before.
            return sorted(nodes, key=lambda node: node.backoff.wait_s(now_s) > 0)
        return sorted(
            nodes,
            key=lambda node: (
                node.is_slow,
                not node.connected(lane),
                node.backoff.failures > 0,
                node.backoff.wait_s(now_s),
            ),
        )


def _coordinators(answer: FindCoordinatorResponse) -> Iterator[tuple[int, NodeAddress]]:
    """The coordinators that an answer names, in either of its shapes."""
    if answer.host and not answer.error_code:
        yield answer.node_id, NodeAddress(answer.host, answer.port)
    for found in answer.coordinators:
        if not found.error_code:
            yield found.node_id, NodeAddress(found.host, found.port)
