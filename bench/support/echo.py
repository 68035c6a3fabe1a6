"""A bare echo, the floor of all servers in Python: it answers without looking at the request.

`python bench/support/echo.py REQUEST_BYTES ANSWER_BYTES` prints its port and serves until it is
stopped: for every REQUEST_BYTES received it sends ANSWER_BYTES, as one frame of zeros.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Final, cast

import uvloop

__all__ = ["HOST", "Echo", "main"]

HOST: Final = "127.0.0.1"


class Echo(asyncio.Protocol):
    """One connection; it counts bytes and reads no frames."""

    def __init__(self, request_bytes: int, answer: bytes) -> None:
        self._request_bytes = request_bytes
        self._answer = answer
        self._missing_bytes = request_bytes
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._missing_bytes -= len(data)
        while self._missing_bytes <= 0:
            self._missing_bytes += self._request_bytes
            self._transport.write(self._answer)


async def serve(request_bytes: int, answer_bytes: int) -> None:
    """Serve until the process ends."""
    answer = struct.pack(">i", answer_bytes - 4) + bytes(answer_bytes - 4)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Echo(request_bytes, answer), HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve with the sizes given on the command line."""
    request_bytes, answer_bytes = map(int, sys.argv[1:])
    uvloop.run(serve(request_bytes, answer_bytes))


if __name__ == "__main__":
    main()
