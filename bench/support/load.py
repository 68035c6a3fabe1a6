"""A client that is fast enough not to be the bottleneck: ready frames, callbacks, no futures.

Each connection has one request in flight and sends the next one from within the callback that
received the answer.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.support.servers import PROC
from coterie_protocol import FrameReader

__all__ = [
    "LoadResult",
    "_Progress",
    "connect",
    "cpu_s",
    "disconnect",
    "exchange",
    "keep_busy",
    "memory_bytes",
]

_HOST: Final = "127.0.0.1"
#: How many connections are opened at a time: fewer than any server's backlog holds.
_AT_A_TIME: Final = 100
#: How long a client waits on where a whole burst brought nothing that counts.
_NEXT_LOOK_S: Final = 0.01
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of keeping a server busy for a while."""

    answers: int
    seconds: float
    #: The processor time of the server and of this process.
    server_cpu_s: float
    client_cpu_s: float

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds

    @property
    def server_cpu_us(self) -> float:
        """The server's processor time per request, in microseconds."""
        return self.server_cpu_s / self.answers * 1e6

    @property
    def client_cpu_us(self) -> float:
        """The client's own processor time per request, in microseconds."""
        return self.client_cpu_s / self.answers * 1e6


def cpu_s(pid: int) -> float:
    """The processor time that all threads of a process have taken."""
    stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8")
    # The name in parentheses may hold spaces; user and system time are the 14th and 15th field.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def memory_bytes(pid: int) -> int:
    """The resident memory of a process."""
    statm = (PROC / str(pid) / "statm").read_text(encoding="ascii")
    return int(statm.split()[1]) * _PAGE_BYTES


class _Waiting(asyncio.Protocol):
    """An idle connection."""

    def data_received(self, data: bytes) -> None:
        """Fail: no request was sent."""
        raise AssertionError(f"{len(data)} bytes arrived on an idle connection")


async def connect(
    port: int, count: int, tls: ssl.SSLContext | None = None
) -> list[asyncio.Transport]:
    """Open connections."""
    loop = asyncio.get_running_loop()
    transports: list[asyncio.Transport] = []
    while len(transports) < count:
        several = min(_AT_A_TIME, count - len(transports))
        opening = (loop.create_connection(_Waiting, _HOST, port, ssl=tls) for _ in range(several))
        opened = await asyncio.gather(*opening)
        transports += (transport for transport, _ in opened)
    return transports


async def disconnect(transports: Iterable[asyncio.Transport]) -> None:
    """Close connections, and give the server time to notice."""
    for transport in transports:
        transport.close()
    await asyncio.sleep(0.1)


class _Progress:
    """Shared by all connections that send at the same time."""

    def __init__(self, senders: int, check: Callable[[bytes], None] | None = None) -> None:
        self.answers = 0
        self.is_over = False
        #: Raises if the payload of an answer is not the expected one.
        self.check = check
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._senders = senders

    def one_ended(self) -> None:
        """A connection has received its last answer."""
        self._senders -= 1
        if not self._senders and not self.ended.done():
            self.ended.set_result(None)

    def fail(self, error: Exception) -> None:
        """Stop all connections with an error."""
        self.is_over = True
        if not self.ended.done():
            self.ended.set_exception(error)


class _Sender(asyncio.Protocol):
    """Sends frames on one connection, each after the answer to the one before."""

    def __init__(
        self, transport: asyncio.Transport, frames: Iterator[bytes], progress: _Progress
    ) -> None:
        self._transport = transport
        self._frames = frames
        self._progress = progress
        self._reader = FrameReader()
        #: The last answer that was checked; the same bytes need no second check.
        self._known = b""
        transport.set_protocol(self)

    def send(self) -> None:
        """Send the next frame, if there is one."""
        progress = self._progress
        frame = None if progress.is_over else next(self._frames, None)
        if frame is None:
            self._transport.set_protocol(_Waiting())
            progress.one_ended()
        else:
            self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        """Count each complete answer and send the next frame."""
        if data == self._known or self._is_answer(data):
            self._progress.answers += 1
            self.send()

    def _is_answer(self, data: bytes) -> bool:
        payloads = self._reader.feed(data)
        if not payloads:
            return False
        (payload,) = payloads
        if self._progress.check is not None:
            try:
                self._progress.check(payload)
            except Exception as error:  # noqa: BLE001  # any error fails the benchmark
                self._progress.fail(error)
        if len(payload) + 4 == len(data):
            self._known = data
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail: connections stay open while frames are sent."""
        self._progress.fail(exc or ConnectionResetError("the server closed a connection"))


def _start(
    transports: Sequence[asyncio.Transport],
    frames: Sequence[Iterator[bytes]],
    check: Callable[[bytes], None] | None,
) -> _Progress:
    progress = _Progress(len(transports), check)
    senders = [_Sender(t, f, progress) for t, f in zip(transports, frames, strict=True)]
    for sender in senders:
        sender.send()
    return progress


async def keep_busy(
    transports: Sequence[asyncio.Transport],
    frames: Sequence[Iterator[bytes]],
    *,
    pid: int,
    seconds: float,
    check: Callable[[bytes], None] | None = None,
) -> LoadResult:
    """Keep a server busy on all connections; the first tenth of the time does not count.

    On a machine that is busy otherwise it takes longer, until there are an answer and processor
    time of the server that count.
    """
    progress = _start(transports, frames, check)
    await asyncio.wait([progress.ended], timeout=seconds / 10)
    answers, began = progress.answers, time.perf_counter()
    server_cpu_s, client_cpu_s = cpu_s(pid), time.process_time()
    await asyncio.wait([progress.ended], timeout=seconds)
    while not progress.ended.done() and (progress.answers == answers or cpu_s(pid) == server_cpu_s):
        await asyncio.wait([progress.ended], timeout=_NEXT_LOOK_S)
    burst = LoadResult(
        answers=progress.answers - answers,
        seconds=time.perf_counter() - began,
        server_cpu_s=cpu_s(pid) - server_cpu_s,
        client_cpu_s=time.process_time() - client_cpu_s,
    )
    progress.is_over = True
    await progress.ended
    return burst


async def exchange(
    transports: Sequence[asyncio.Transport],
    frames: Sequence[Iterator[bytes]],
    check: Callable[[bytes], None] | None = None,
) -> float:
    """Send all frames, each after the answer to the one before; return the seconds taken."""
    began = time.perf_counter()
    await _start(transports, frames, check).ended
    return time.perf_counter() - began
