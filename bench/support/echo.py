"""The floor of all servers in Python: answers bytes with bytes and looks at none of them.

`python bench/support/echo.py REQUEST_BYTES ANSWER_BYTES` prints its port and serves until it is
stopped: for so many bytes that come in it sends so many back, as one frame of zeros.
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
    """One connection: no frames are cut, no requests are read."""

    def __init__(self, request_bytes: int, answer: bytes) -> None:
        self._request_bytes = request_bytes
        self._answer = answer
        self._missing_bytes = request_bytes
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._missing_bytes -= len(data)
        while self._missing_bytes <= 0:
            self._missing_bytes += self._request_bytes
            self._transport.write(self._answer)


async def serve(request_bytes: int, answer_bytes: int) -> None:
    """Serve until the process is ended."""
    answer = struct.pack(">i", answer_bytes - 4) + bytes(answer_bytes - 4)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Echo(request_bytes, answer), HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve requests and answers of the sizes on the command line."""
    request_bytes, answer_bytes = map(int, sys.argv[1:])
    uvloop.run(serve(request_bytes, answer_bytes))


if __name__ == "__main__":
    main()
