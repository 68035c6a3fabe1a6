"""By which names a node may be asked.

A page in somebody's browser may have a name that its owner points to 127.0.0.1 once it is loaded
(DNS rebinding). To the browser that is the page's own site, so it lets the page read the answers,
and Origin and Host agree. Only the name itself tells: it is none of ours. An address is always
right, since a page that comes from an address was not rebound.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, final

__all__ = ["ANY_HOST", "Hosts"]

#: Stands for all names.
ANY_HOST: Final = "*"

_LOOPBACK: Final = "localhost"


@final
class Hosts:
    """The names under which a node knows itself."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {_plain(name) for name in names} - {""} | {_LOOPBACK}

    def knows(self, host: str | None) -> bool:
        """Whether the value of a Host header names this node, with or without a port.

        No browser leaves the header out.
        """
        if host is None or ANY_HOST in self._names:
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
