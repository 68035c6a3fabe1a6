"""A connection below any client library: one request at a time, and its answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, Final, Self, TypeVar

from coterie_protocol import FrameReader, decode_response, encode_request, response_class
from coterie_protocol.schema import declaration_of
from tests.live.daemon import HOST

__all__ = ["Wire", "run"]

_READ_BYTES: Final = 65_536


T = TypeVar("T")


def run(play: Coroutine[Any, Any, T]) -> T:
    """Run to the end, without asyncio's debugging: that is for the daemon's own code.

    With it, thousands of connections take many times as long.
    """
    return asyncio.run(play, debug=False)


class Wire:
    """A connection; whatever ends it is a `ConnectionError` for whoever asks next."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        """Take over an open stream; `open` is the way to get one."""
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._frames = FrameReader()
        self._numbers = itertools.count(1)

    @classmethod
    async def open(cls, port: int, client_id: str = "wire") -> Self:
        """Connect to a daemon."""
        return cls(*await asyncio.open_connection(HOST, port), client_id)

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and wait for its answer."""
        number = self.send(message, version)
        return await self.receive(message, version, number)

    def send(self, message: Any, version: int) -> int:
        """Send a request; return its number."""
        number = next(self._numbers)
        self.send_bytes(encode_request(message, version, number, self._client_id))
        return number

    def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        self._writer.write(data)

    async def receive(self, message: Any, version: int, number: int) -> Any:
        """Wait for the answer to a request."""
        api = declaration_of(type(message)).api
        assert api is not None
        payload = await self._payload()
        answered, answer = decode_response(response_class(api), version, payload)
        assert answered == number
        return answer

    async def _payload(self) -> bytes:
        while True:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the daemon hung up")
            payloads = self._frames.feed(data)
            if payloads:
                (payload,) = payloads
                return payload

    async def until_closed(self) -> None:
        """Wait until the daemon hangs up, and throw away what it says until then."""
        try:
            while await self._reader.read(_READ_BYTES):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
