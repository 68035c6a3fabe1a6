"""Hosts and ports: where the server listens, and where it tells clients to connect."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Address", "is_loopback"]

_PORT_MAX: Final = 65_535
# int() would also take other scripts' digits, and refuses thousands of them in its own words.
_PORT: Final = re.compile(r"[0-9]{1,9}")
_IPV6: Final = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]")
#: No host is longer; what is in none would make a URL or a list of it.
_NAME: Final = re.compile(r"[^\s\[\]@/,*]{0,255}")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT, with an IPv6 host in brackets."""
        host, colon, port = text.rpartition(":")
        in_brackets = _IPV6.fullmatch(host)
        if in_brackets is None and (not _NAME.fullmatch(host) or not host.isprintable()):
            hint = ", and 0.0.0.0 for every address of this machine" if host == "*" else ""
            raise ValueError(f"expected HOST:PORT{hint}, got {text!r}")
        if not colon or not _PORT.fullmatch(port):
            raise ValueError(f"expected HOST:PORT, got {text!r}")
        if in_brackets is None and ":" in host:
            raise ValueError(f"expected IPv6 addresses in brackets, as [::1]:9092, got {text!r}")
        if int(port) > _PORT_MAX:
            raise ValueError(f"expected a port from 0 to {_PORT_MAX}, got {text!r}")
        return cls(host if in_brackets is None else in_brackets[1], int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
