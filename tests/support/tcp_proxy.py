"""A proxy between a program and a server, to lose and delay what they say to each other."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

__all__ = ["TcpProxy"]


class TcpProxy:
    """Forwards connections to a port of this machine; use it as an async context manager."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        #: How many connections were made, or refused.
        self.made = 0
        #: How many bytes came from programs, unless a test has set it back.
        self.requested = 0
        self._request_came = asyncio.Event()
        #: How long each way takes.
        self.delay_s = 0.0
        #: Whether new connections are closed at once.
        self.refuses = False
        self._requests = asyncio.Event()
        self._answers = asyncio.Event()
        self._requests.set()
        self._answers.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._writers)

    def hold_requests(self) -> None:
        """Keep what programs send, as a network that is slow or lost does."""
        self._requests.clear()

    def hold_answers(self) -> None:
        """Keep what the server sends."""
        self._answers.clear()

    def go_on(self) -> None:
        """Forward what was kept."""
        self._requests.set()
        self._answers.set()

    def strand(self) -> None:
        """Lose all that goes over today's connections from now on, without a word."""
        self._requests.clear()
        self._answers.clear()
        # Those to come have gates of their own.
        self._requests, self._answers = asyncio.Event(), asyncio.Event()
        self.go_on()

    def cut(self) -> None:
        """Reset the programs' connections.  What was kept for the server can still arrive."""
        for writer in self._writers:
            writer.transport.abort()

    def break_down(self) -> None:
        """Lose all connections, and let none be made."""
        self.refuses = True
        self.cut()

    def mend(self) -> None:
        """Be as good as new."""
        self.refuses = False
        self.go_on()

    async def until_requested(self, size: int) -> None:
        """Wait until programs have sent as many bytes, or more."""
        async with asyncio.timeout(30):
            while self.requested < size:
                self._request_came.clear()
                await self._request_came.wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        if self.refuses:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(
                self._pump(reader, back, self._requests, counts=True),
                self._pump(there, writer, self._answers),
            )
        except asyncio.CancelledError:
            pass  # at the end of the proxy; asyncio would log it
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            back.transport.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        gate: asyncio.Event,
        *,
        counts: bool = False,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if counts:
                    self.requested += len(data)
                    self._request_came.set()
                await asyncio.sleep(self.delay_s)
                await gate.wait()
                sink.write(data)
                await sink.drain()
        # An end is as late as what came before it.
        await gate.wait()
        with contextlib.suppress(OSError):
            sink.write_eof()
