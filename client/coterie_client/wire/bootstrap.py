"""Addresses as people write them."""

from __future__ import annotations

from collections.abc import Iterable

from coterie_client.errors import ConfigurationError
from coterie_client.membership.actions import NodeAddress

__all__ = ["Bootstrap", "parse_bootstrap"]

#: "host:port", several of them separated by commas, or any iterable of such and `NodeAddress`es.
Bootstrap = str | NodeAddress | Iterable["str | NodeAddress"]

_PORT_MAX = 65_535


def parse_bootstrap(bootstrap: Bootstrap) -> tuple[NodeAddress, ...]:
    """Read the addresses to begin with, each once and in order; IPv6 hosts stand in brackets."""
    given = (bootstrap,) if isinstance(bootstrap, str | NodeAddress) else tuple(bootstrap)
    addresses: dict[NodeAddress, None] = {}
    for item in given:
        parts = (item,) if isinstance(item, NodeAddress) else _split(item)
        addresses |= dict.fromkeys(parts)
    if not addresses:
        raise ConfigurationError("No bootstrap address is given; name one as HOST:PORT.")
    return tuple(addresses)


def _split(text: str) -> tuple[NodeAddress, ...]:
    return tuple(_address(part) for part in map(str.strip, text.split(",")) if part)


def _address(text: str) -> NodeAddress:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigurationError(
            f"{text!r} is ambiguous: write an IPv6 address in brackets, as in [::1]:9092."
        )
    if not (colon and host and port.isascii() and port.isdecimal()):
        raise ConfigurationError(f"{text!r} is no bootstrap address; write HOST:PORT.")
    if not 0 < int(port) <= _PORT_MAX:
        raise ConfigurationError(f"{text!r} has no port from 1 to {_PORT_MAX}.")
    return NodeAddress(host, int(port))
