"""Listening for HTTP."""

from __future__ import annotations

from typing import Final

from aiohttp import web

__all__ = ["MAX_LINE_BYTES", "HttpServer"]

#: The longest request line: a group's name may have 32,767 bytes, and each takes three of them.
MAX_LINE_BYTES: Final = 131_072

#: How long a stopping server waits for answers that are being sent.
_SHUTDOWN_S = 1.0


class HttpServer:
    """Serves an application on one address, within the running event loop."""

    def __init__(self, app: web.Application) -> None:
        # No access log: a scraper would fill it.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_S,
            max_line_size=MAX_LINE_BYTES,
        )
        self._port = 0

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; raises `OSError` if the address can't be had."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._runner.addresses[0][1]

    @property
    def port(self) -> int:
        """The port that it listens on, also if it was asked for any."""
        return self._port

    async def close(self) -> None:
        """Stop listening and close all connections."""
        await self._runner.cleanup()
