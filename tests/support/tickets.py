"""Somebody who awaits the answer to one request, in place of a connection."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["Ticket"]


class Ticket:
    """Awaits one reply."""

    abandoned = False

    def __init__(self) -> None:
        self.reply_future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(self, message: Any) -> None:
        """Take the reply; a second one would raise."""
        self.reply_future.set_result(message)

    @property
    def answered(self) -> bool:
        """Whether the reply has come."""
        return self.reply_future.done()
