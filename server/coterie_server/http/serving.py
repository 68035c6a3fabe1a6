"""Listening for HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from coterie_server.http.guests import Guest, Guests

__all__ = ["MAX_LINE_BYTES", "HttpServer"]

#: The longest request line: a group's name may have 32,767 bytes, and each takes three of them.
MAX_LINE_BYTES: Final = 131_072

#: How long a stopping server waits for answers that are being sent.
_SHUTDOWN_S = 1.0

#: How long a connection may be open without asking anything, before its first request or after
#: another: longer than a scraper waits between two.
_IDLE_S: Final = 120.0


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line tells of more than that a client sent no HTTP, for which it is told so.

    Without this, whoever sends garbage in a loop fills the disk, a traceback each time.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_log: Final = logging.getLogger(__name__)
_log.addFilter(_is_ours)


class HttpServer:
    """Serves an application on one address, within the running event loop."""

    def __init__(self, app: web.Application, guests: Guests | None = None) -> None:
        self._guests = guests or Guests()
        # No access log: a scraper would fill it.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_log,
            # What a client asked for that has gone is not made.
            handler_cancellation=True,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_SHUTDOWN_S,
            max_line_size=MAX_LINE_BYTES,
        )
        self._listening: asyncio.Server | None = None
        self._port = 0

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; raises `OSError` if the address can't be had."""
        await self._runner.setup()
        make = self._runner.server
        if make is None:
            raise AssertionError("a runner without a server was set up")
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                lambda: Guest(self._guests, make()), host, port
            )
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._listening.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        """The port that it listens on, also if it was asked for any."""
        return self._port

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
