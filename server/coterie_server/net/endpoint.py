"""A listener, as its connections know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coterie_server.address import Address
from coterie_server.net.guard import Authenticator
from coterie_server.net.limits import UNLIMITED
from coterie_server.security import Principal, SecurityProtocol
from coterie_server.tls import ServerTls

__all__ = ["DEFAULT_TERMS", "Endpoint", "Identify", "Terms", "UnknownSubjectError"]


class UnknownSubjectError(Exception):
    """The subject of a client's certificate gives no name for a principal."""


#: Whom a client's certificate in DER stands for; may raise `UnknownSubjectError`.
Identify = Callable[[bytes], Principal]


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for those who come in at one named listener."""

    name: str = "default"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    #: For protocols with TLS.
    tls: ServerTls | None = None
    #: None if certificates do not say who a client is.
    identify: Identify | None = None
    #: How clients log in; None if nothing can be logged in to.
    authenticator: Authenticator | None = None
    #: Besides the limits that hold for all listeners together.
    max_connections: int = UNLIMITED
    max_creation_rate: int = UNLIMITED

    def __post_init__(self) -> None:
        if self.protocol.has_tls != (self.tls is not None):
            raise ValueError(f"{self.protocol} with {self.tls} for TLS")


DEFAULT_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients come in, and what holds for those who came in there."""

    #: Where they are told to connect.
    advertised: Address
    terms: Terms = DEFAULT_TERMS
