"""Addresses as people write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_client.wire.addresses import NodeAddress

__all__ = ["Bootstrap", "parse_bootstrap"]

#: "host:port", several of them separated by commas, or any iterable of such and `NodeAddress`es.
Bootstrap = str | NodeAddress | Iterable["str | NodeAddress"]

_PORT_MAX: Final = 65_535
_PORT_DIGITS: Final = 10


def parse_bootstrap(bootstrap: Bootstrap) -> tuple[NodeAddress, ...]:
    """Read the addresses to begin with, each once and in order; IPv6 hosts stand in brackets."""
    given = _several(bootstrap)
    addresses: dict[NodeAddress, None] = {}
    for item in given:
        addresses |= dict.fromkeys(_split(item) if isinstance(item, str) else _checked(item))
    if not addresses:
        checks.must_be("bootstrap", "one address at least, as HOST:PORT", bootstrap)
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
            "bootstrap must be HOST:PORT, or several of that, and a user belongs into Sasl, got"
            f" ...@{text.rpartition('@')[2]!r}"
        )
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigurationError(
            f"bootstrap must have an IPv6 address in brackets, as in [::1]:9092, got {text!r}"
        )
    if not (colon and host and port.isascii() and port.isdecimal()):
        checks.must_be("bootstrap", "HOST:PORT, or several of that", text)
    # A number of thousands of digits is none that Python reads.
    if not (len(port) <= _PORT_DIGITS and 0 < int(port) <= _PORT_MAX):
        checks.must_be("bootstrap", f"HOST:PORT with a port from 1 to {_PORT_MAX}", text)
    return NodeAddress(host, int(port))
