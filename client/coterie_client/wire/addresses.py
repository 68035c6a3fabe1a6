"""Where a request goes, the partitions it names, and addresses as people write them.  Pure.

The membership machine and the administrator speak of nodes and lanes as well, without knowing how
they are reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_protocol.messages import MetadataResponse

__all__ = [
    "ANY",
    "AnyNode",
    "Bootstrap",
    "Lane",
    "NodeAddress",
    "TopicPartition",
    "named_nodes",
    "parse_bootstrap",
]

#: A topic's name and the number of one of its partitions.
TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The host and port at which a node is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Whichever node can be reached."""

    #: The one that is not to be asked; None if there is none.
    but: NodeAddress | None = None
    #: Whether it need not be one that is connected: what such a one has told was of no help.
    anew: bool = False

    def __str__(self) -> str:
        return "any node" if self.but is None else f"any node but {self.but}"


#: Any node that can be reached.
ANY: Final = AnyNode()


class Lane(StrEnum):
    """Which of the connections to a node a request takes.

    A node answers the requests on a connection in order, and the answer to a JoinGroup may take
    minutes: what keeps the membership alive in the meantime needs a connection of its own.
    """

    GROUP = "group"
    KEEPALIVE = "keepalive"


#: "host:port", several of them separated by commas, or an iterable of these and `NodeAddress`es.
Bootstrap = str | NodeAddress | Iterable["str | NodeAddress"]

_PORT_MAX: Final = 65_535
_PORT_DIGITS: Final = 10


def parse_bootstrap(bootstrap: Bootstrap) -> tuple[NodeAddress, ...]:
    """Parse bootstrap addresses, in order and without duplicates; IPv6 hosts stand in brackets."""
    given = _several(bootstrap)
    addresses: dict[NodeAddress, None] = {}
    for item in given:
        addresses |= dict.fromkeys(_split(item) if isinstance(item, str) else _checked(item))
    if not addresses:
        checks.must_be("bootstrap", "at least one address, as HOST:PORT", bootstrap)
    return tuple(addresses)


def _several(bootstrap: object) -> tuple[object, ...]:
    if isinstance(bootstrap, str | NodeAddress):
        return (bootstrap,)
    if not isinstance(bootstrap, Iterable) or isinstance(bootstrap, bytes | bytearray):
        checks.must_be("bootstrap", "HOST:PORT, or several of that", bootstrap)
    return tuple(bootstrap)


def _checked(address: object) -> tuple[NodeAddress]:
    found = checks.instance_of("each of bootstrap", NodeAddress, "HOST:PORT", address)
    checks.text("the host in bootstrap", found.host)
    checks.whole("the port in bootstrap", found.port, last=_PORT_MAX)
    return (found,)


def _split(text: str) -> tuple[NodeAddress, ...]:
    return tuple(_address(part) for part in map(str.strip, text.split(",")) if part)


def _address(text: str) -> NodeAddress:
    if "@" in text:  # a URL with a password, which is not to be shown
        raise ConfigurationError(
            "bootstrap must be HOST:PORT, or several of that (credentials go into Sasl), got"
            f" ...@{text.rpartition('@')[2]!r}"
        )
    if "://" in text:
        checks.must_be("bootstrap", "HOST:PORT, with no protocol before it", text)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigurationError(
            f"bootstrap must have IPv6 addresses in brackets, as in [::1]:9092, got {text!r}"
        )
    if not (colon and host and port.isascii() and port.isdecimal()):
        checks.must_be("bootstrap", "HOST:PORT, or several of that", text)
    # Python refuses to parse numbers with thousands of digits.
    if not (len(port) <= _PORT_DIGITS and 0 < int(port) <= _PORT_MAX):
        checks.must_be("bootstrap", f"HOST:PORT with a port from 1 to {_PORT_MAX}", text)
    return NodeAddress(host, int(port))


def named_nodes(answer: MetadataResponse) -> dict[int, NodeAddress]:
    """The nodes of the cluster that an answer names, by their ids."""
    return {broker.node_id: NodeAddress(broker.host, broker.port) for broker in answer.brokers}
