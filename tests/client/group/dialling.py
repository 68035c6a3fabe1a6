"""A way to connect that tests can cut."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from coterie_client.wire import dial_tcp
from coterie_client.wire.addresses import NodeAddress

__all__ = ["CuttableDial"]


class CuttableDial:
    """Connects, until it is cut: then all connections break, and no new ones come about."""

    def __init__(self) -> None:
        self.is_cut = False
        #: Bytes vanish on their way out, and none come in.
        self._transports: list[asyncio.Transport] = []

    async def __call__(
        self,
        make: Callable[[], asyncio.Protocol],
        address: NodeAddress,
        tls: ssl.SSLContext | None,
    ) -> object:
        """Connect, if that is possible."""
        if self.is_cut:
            raise ConnectionRefusedError("cut")
        made = cast(tuple[asyncio.Transport, asyncio.Protocol], await dial_tcp(make, address, tls))
        self._transports.append(made[0])
        return made

    @property
    def open(self) -> int:
        """How many connections there are."""
        return sum(1 for transport in self._transports if not transport.is_closing())

    def cut(self) -> None:
        """Break all connections, and let no new ones come about."""
        self.is_cut = True
        for transport in self._transports:
            transport.abort()

    def freeze(self) -> None:
        """Hear nothing more from the other side, as if it had died without a word."""
        for transport in self._transports:
            if not transport.is_closing():
                transport.pause_reading()

    def mend(self) -> None:
        """Let new connections come about."""
        self.is_cut = False
