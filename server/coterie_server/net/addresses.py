"""Clients' addresses, as Kafka prints them and as our log does."""

from __future__ import annotations

import ipaddress
from typing import final

from coterie_server.address import Address

__all__ = ["Peer", "kafka_host"]


def kafka_host(address: str) -> str:
    """An address in the form of Kafka's `client_host`: a slash, and IPv6 without short cuts."""
    if ":" not in address:
        return f"/{address}"
    numbers, percent, zone = address.partition("%")
    try:
        parsed = ipaddress.IPv6Address(numbers)
    except ValueError:
        return f"/{address}"
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    groups = (f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
    return f"/{':'.join(groups)}{percent}{zone}"


@final
class Peer:
    """A client's address; its text is for the log."""

    __slots__ = ("address", "host", "port")

    def __init__(self, address: str = "unknown", port: int = 0) -> None:
        self.address = address
        self.port = port
        #: The address as Kafka prints it: `/127.0.0.1`.
        self.host = kafka_host(address)

    def __str__(self) -> str:
        return str(Address(self.address, self.port))
