"""A listener, as its connections know it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie_server.address import Address
from coterie_server.security import SecurityProtocol

__all__ = ["Endpoint"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients come in, and what holds for those who came in there."""

    #: Where they are told to connect.
    advertised: Address
    name: str = "default"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
