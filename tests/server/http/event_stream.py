"""Reads the streams of server-sent events that the HTTP pages have."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse

__all__ = ["Event", "Stream"]


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    kind: str
    id: str
    data: dict[str, Any]

    @property
    def owners(self) -> dict[int, str]:
        """The states of partitions."""
        return {row["partition"]: row["state"] for row in self.data["owners"]}


class Stream:
    """Reads events, or comments."""

    def __init__(self, answer: ClientResponse) -> None:
        self.answer = answer

    async def block(self) -> dict[str, str]:
        """The lines of the next event by field; of a comment, what it says."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while line := (await self.answer.content.readline()).decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                fields[name or ":"] = value
        return fields

    async def next(self) -> Event:
        """The next event, whatever comments come before it."""
        while ":" in (fields := await self.block()):
            pass
        return Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"]))
