"""Connections below any client library, and members that talk over them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from coterie_protocol import FrameReader, decode_response, encode_request, response_class
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import declaration_of
from tests.live.daemon import HOST

__all__ = ["LOOK_AGAIN", "Pair", "Wire", "brokers", "join_request", "run"]

_READ_BYTES: Final = 65_536
#: What every client takes for a reason to look for its coordinator again, and go on.
LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


T = TypeVar("T")


def run(play: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine without asyncio's debug mode, which is for the daemon's own code.

    With it, thousands of connections take many times as long.
    """
    return asyncio.run(play, debug=False)


class Wire:
    """A connection; once it has ended, requests raise `ConnectionError`."""

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


def brokers(port: int) -> dict[int, int]:
    """The ports of the nodes that Metadata names at a port, by their ids."""

    async def ask() -> Any:
        with contextlib.closing(await Wire.open(port)) as wire:
            return await wire.ask(m.MetadataRequest(topics=()), 9)

    return {broker.node_id: broker.port for broker in run(ask()).brokers}


def join_request(
    group: str,
    member: str = "",
    *,
    session_ms: int = 60_000,
    rebalance_ms: int = 60_000,
    metadata: bytes = b"",
) -> m.JoinGroupRequest:
    """An ordinary request to join.

    In version 3 or before, its sender is not asked to join again with the id that it is given.
    """
    protocol = m.JoinGroupRequestProtocol(name="raw", metadata=metadata)
    return m.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        protocol_type="raw",
        protocols=(protocol,),
    )


@dataclass(slots=True)
class Pair:
    """A leader and a follower who have joined one generation; neither has synced yet."""

    group: str
    leader: Wire
    follower: Wire
    follower_id: str
    generation: int

    @classmethod
    async def form(cls, port: int, group: str, *, rebalance_ms: int = 60_000) -> Pair:
        """Let one join, then the other, then the first again, which leads therefore."""
        leader, follower = [await Wire.open(port) for _ in range(2)]
        alone = await leader.ask(join_request(group, rebalance_ms=rebalance_ms), 3)
        request = join_request(group, rebalance_ms=rebalance_ms)
        sent = follower.send(request, 3)
        again = join_request(group, alone.member_id, rebalance_ms=rebalance_ms)
        led = alone
        while len(led.members) < 2:
            # The two connections are not read in the order in which they were written to.
            led = await leader.ask(again, 3)
        followed = await follower.receive(request, 3, sent)
        assert followed.error_code == ErrorCode.NONE
        assert followed.leader == led.member_id
        return cls(group, leader, follower, followed.member_id, followed.generation_id)

    def follower_sync(self) -> m.SyncGroupRequest:
        """The follower asks for its assignment."""
        return m.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.follower_id,
            assignments=(),
        )

    def close(self) -> None:
        """Hang up."""
        self.leader.close()
        self.follower.close()
