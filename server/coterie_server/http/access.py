"""Which HTTP requests come from a web page that has no business here.

There is no login: programs that can reach the address may ask.  A page that happens to be open in
a browser on the same machine can reach it too, in two ways:

- It sends a request to the node's address.  The browser names the page's site in Origin.
- Its own name is made to resolve to the node's address after it was loaded (DNS rebinding).  To the
  browser the node is then the page's own site: the page may read the answers, and Origin agrees
  with Host.  Only the name in Host gives it away, as it is none of the node's.  An IP address in
  Host is always right, because a page that was loaded from an address can't be rebound.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, final
from urllib.parse import urlsplit

__all__ = ["AllowedHosts", "is_cross_site"]

_ANY: Final = "*"
_LOOPBACK: Final = "localhost"


def is_cross_site(origin: str | None, host: str) -> bool:
    """Whether a browser sent a request on behalf of another site; no other client sends Origin."""
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


@final
class AllowedHosts:
    """The host names by which a node may be asked, besides localhost and IP addresses.

    `*` allows every name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {_plain(name) for name in names} - {""} | {_LOOPBACK}

    def allow(self, host: str | None) -> bool:
        """Whether a Host header, with or without a port, names this node.

        Requests without the header are allowed: no browser leaves it out.
        """
        if host is None or _ANY in self._names:
            return True
        name = _plain(_without_port(host))
        return name in self._names or name.endswith(f".{_LOOPBACK}") or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _plain(name: str) -> str:
    return name.strip().rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
