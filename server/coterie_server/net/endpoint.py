"""A listener, as its connections know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coterie_server.address import Address
from coterie_server.net.guard import Authenticator
from coterie_server.security import SecurityProtocol

__all__ = ["DEFAULT_TERMS", "Endpoint", "Terms"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for those who come in at one named listener."""

    name: str = "default"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    #: How they log in; None if nothing can be logged in to.
    authenticator: Authenticator | None = None


DEFAULT_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients come in, and what holds for those who came in there."""

    #: Where they are told to connect.
    advertised: Address
    terms: Terms = DEFAULT_TERMS
