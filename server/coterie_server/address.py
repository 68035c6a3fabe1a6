"""Hosts and ports: where the server listens, and where it tells clients to connect."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Address"]

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
