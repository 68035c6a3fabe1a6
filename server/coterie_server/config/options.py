"""What a server is started with: its settings, its addresses, and where it keeps its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie_server.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Address", "ServerOptions"]

_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT, with an IPv6 host in brackets."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal():
            raise ValueError(f"expected HOST:PORT, got {text!r}")
        if int(port) > _PORT_MAX:
            raise ValueError(f"expected a port from 0 to {_PORT_MAX}, got {text!r}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The settings of a server, its addresses, and where it keeps its data."""

    settings: Settings = field(default_factory=Settings)
    listen: Address = Address("127.0.0.1", 9092)  # frozen
    #: Where clients are told to connect; None for where it listens.
    advertise: Address | None = None
    #: Where it answers HTTP; None for nowhere.
    http: Address | None = None
    #: `memory:` or `sqlite:PATH`; None for the data directory, or memory without one.
    store: str | None = None
    #: Where the journal is kept, and the store unless it is named; without one, no journal.
    data_dir: Path | None = None
    #: Topics that have to exist, with so many partitions, before clients are served.
    topics: Mapping[str, int] = field(default_factory=dict)
    #: Go on with a store that has lost something that was acknowledged.
    accept_data_loss: bool = False
