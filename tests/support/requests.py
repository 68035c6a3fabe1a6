"""Requests for the server's cores and shards, in place of those that come over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coterie_server.address import Address
from coterie_server.security import ANONYMOUS, Principal

__all__ = ["ADVERTISED", "Asked", "Pending"]

#: Where clients are told to connect.
ADVERTISED = Address("coterie.example", 9092)


@dataclass(eq=False, slots=True)
class Asked:
    """A request as the cores see it."""

    message: Any
    version: int
    client_id: str = "client"
    host: str = "/127.0.0.1"
    principal: Principal = ANONYMOUS
    advertised: Address = ADVERTISED


@dataclass(eq=False, slots=True)
class Pending(Asked):
    """A request as a shard sees it; its reply can be awaited."""

    abandoned: bool = False
    comes_alone: bool = False
    connected_ms: int = 0
    closed: list[str] = field(default_factory=list)
    answer: asyncio.Future[Any] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resume(self, action: Callable[[], None]) -> None:
        """Go on in the event loop's next turn."""
        asyncio.get_running_loop().call_soon(action)

    def when_gone(self, forget: Callable[[Any], object] | None) -> None:
        """Stay."""

    def reply(self, message: Any) -> None:
        """Take the reply; a second one would raise."""
        self.answer.set_result(message)

    def close(self, why: str) -> None:
        """Note why the connection is closed."""
        self.closed.append(why)
