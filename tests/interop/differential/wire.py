"""One TCP connection to a broker, below any client library: messages out, answers in."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Self

from coterie_protocol import (
    ApiKey,
    FrameReader,
    decode_response,
    encode_request,
    response_class,
)
from coterie_protocol.schema import declaration_of

__all__ = ["CLOSED", "Connection", "api_of", "raw_request"]

_READ_SIZE: Final = 65_536
_FRAME: Final = struct.Struct(">ihhih")


class _Closed:
    """Stands for an answer that never came, because the broker closed the connection."""

    def __repr__(self) -> str:
        return "CLOSED"


CLOSED: Final = _Closed()


@dataclass(slots=True)
class _Awaited:
    cls: type[Any]
    version: int
    future: asyncio.Future[Any]


class Connection:
    """A client's connection; requests may be sent before earlier ones are answered."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client_id: str | None,
    ) -> None:
        """Take over an open stream; `open` is the way to get one."""
        self.client_id = client_id
        self._reader = reader
        self._writer = writer
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._task = asyncio.get_running_loop().create_task(self._receive())

    @classmethod
    async def open(cls, host: str, port: int, client_id: str | None) -> Self:
        """Connect."""
        return cls(*await asyncio.open_connection(host, port), client_id)

    def send(self, message: Any, version: int) -> asyncio.Future[Any]:
        """Send a request; the future gets its answer, or `CLOSED`."""
        self._correlation_id += 1
        frame = encode_request(message, version, self._correlation_id, self.client_id)
        return self.send_bytes(frame, response_class(api_of(message)), version)

    def send_bytes(self, frame: bytes, cls: type[Any], version: int) -> asyncio.Future[Any]:
        """Send a frame as it is; its answer will be read as `cls` in `version`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._task.done():
            future.set_result(CLOSED)
            return future
        self._awaited.append(_Awaited(cls, version, future))
        self._writer.write(frame)
        return future

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _receive(self) -> None:
        frames = FrameReader()
        try:
            while data := await self._reader.read(_READ_SIZE):
                for payload in frames.feed(data):
                    self._take(payload)
        except ConnectionError:
            pass
        finally:
            for awaited in self._awaited:
                if not awaited.future.done():
                    awaited.future.set_result(CLOSED)
            self._awaited.clear()

    def _take(self, payload: bytes) -> None:
        awaited = self._awaited.popleft()
        try:
            _, message = decode_response(awaited.cls, awaited.version, payload)
        except Exception as error:  # noqa: BLE001 - the caller that awaits the answer raises it
            awaited.future.set_exception(error)
        else:
            if not awaited.future.done():
                awaited.future.set_result(message)


def api_of(message: Any) -> ApiKey:
    """The API that a request belongs to."""
    api = declaration_of(type(message)).api
    assert api is not None
    return api


def raw_request(api_key: int, version: int, body: bytes = b"", client_id: str = "raw") -> bytes:
    """A frame with any API and version, known or not, and a header without tagged fields."""
    name = client_id.encode()
    size = _FRAME.size - 4 + len(name) + len(body)
    return _FRAME.pack(size, api_key, version, 1, len(name)) + name + body
