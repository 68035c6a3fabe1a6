"""Show the way of a request through the code: which files, how many calls, how often back.

    python tools/walk.py [--steps]

A server with its store in memory and a member run in this process.  For each walk it prints the
number of files of Coterie that it passes, of calls in them, and of returns: calls that lead back
into a file which the walk had left.  A reader who follows the walk turns as many pages.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, TypeVar

import structlog

from coterie_client import Group, Partition
from coterie_protocol import decode_response, encode_request
from coterie_protocol import messages as m
from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_protocol.journal import Event, RebalanceCompleted
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions

__all__ = ["main"]

#: How often a request is walked; the shortest walk counts, the others met a timer of the server's.
_REPEATS: Final = 5
_TOPIC: Final = "orders"
_COMPREHENSIONS: Final = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")

A = TypeVar("A")


@dataclass
class Walk:
    """The calls that were made, each by its file and function."""

    packages: tuple[str, ...]
    calls: list[tuple[str, str]] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take note of a call, if it is one into the packages that are looked at."""
        code = frame.f_code
        if event != "call" or code.co_name in _COMPREHENSIONS:
            return
        for package in self.packages:
            _, found, rest = code.co_filename.rpartition(f"/{package}/")
            if found:
                self.calls.append((f"{package}/{rest}", code.co_qualname))
                return

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Take note of what is called until the block ends."""
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)

    @property
    def files(self) -> int:
        """How many files it passes."""
        return len({file for file, _ in self.calls})

    @property
    def returns(self) -> int:
        """How often it comes back into a file that it had left."""
        seen: set[str] = set()
        count, here = 0, ""
        for file, _ in self.calls:
            count += file != here and file in seen
            seen.add(file)
            here = file
        return count

    def print(self, name: str, *, steps: bool) -> None:
        """Show its figures, and each call if they are asked for."""
        print(f"{name:<28}{self.files:>6}{len(self.calls):>8}{self.returns:>9}")
        if steps:
            here = ""
            for file, function in self.calls:
                print(f"    {'' if file == here else file:<48} {function}")
                here = file


class _Member:
    """A member whose requests are made by hand, so that only the server is walked."""

    def __init__(
        self, group_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._group_id, self._reader, self._writer = group_id, reader, writer
        self._member_id = ""

    async def walks(self) -> dict[str, Walk]:
        """Join, bring the assignment, send heartbeats and commit; the server's walk for each."""
        named, _ = await self._ask(self._join(), m.JoinGroupResponse, 9)
        self._member_id = named.member_id
        joined, join = await self._ask(self._join(), m.JoinGroupResponse, 9)
        who: dict[str, Any] = {
            "group_id": self._group_id,
            "member_id": self._member_id,
            "generation_id": joined.generation_id,
        }
        share = m.SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"")
        brought = m.SyncGroupRequest(
            **who, protocol_type="consumer", protocol_name="range", assignments=(share,)
        )
        _, sync = await self._ask(brought, m.SyncGroupResponse, 5)
        await self._ask(m.HeartbeatRequest(**who), m.HeartbeatResponse, 4)
        _, heartbeat = await self._ask(m.HeartbeatRequest(**who), m.HeartbeatResponse, 4)
        _, commit = await self._ask(self._commit(joined.generation_id), m.OffsetCommitResponse, 9)
        return {
            "JoinGroup": join,
            "SyncGroup (the leader's)": sync,
            "Heartbeat": heartbeat,
            "OffsetCommit": commit,
        }

    def _join(self) -> m.JoinGroupRequest:
        subscription = encode_subscription(Subscription(topics=(_TOPIC,)), 1)
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=subscription)
        return m.JoinGroupRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(protocol,),
        )

    def _commit(self, generation: int) -> m.OffsetCommitRequest:
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=""
        )
        topic = m.OffsetCommitRequestTopic(name=_TOPIC, partitions=(partition,))
        return m.OffsetCommitRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            generation_id_or_member_epoch=generation,
            topics=(topic,),
        )

    async def _ask(self, message: object, answer: type[A], version: int) -> tuple[A, Walk]:
        walk = Walk(("coterie_server", "coterie_protocol"))
        request = encode_request(message, version, 1, "walker")
        with walk.follow():
            self._writer.write(request)
            size = int.from_bytes(await self._reader.readexactly(4))
            payload = await self._reader.readexactly(size)
        return decode_response(answer, version, payload)[1], walk


async def _server_walks(address: Address) -> dict[str, Walk]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        found = [await _Member(f"g{n}", reader, writer).walks() for n in range(_REPEATS)]
    finally:
        writer.close()
    return {
        name: min((walks[name] for walks in found), key=lambda w: len(w.calls)) for name in found[0]
    }


class _Assignments:
    """Follows a member from the end of a rebalance to the beginning of its work."""

    def __init__(self) -> None:
        self.walk = Walk(("coterie_client", "coterie_assignors", "coterie_protocol"))

    def observe(self, _ts_ms: int, event: Event) -> None:
        """Begin when the coordinator has taken the assignment."""
        if isinstance(event, RebalanceCompleted):
            sys.setprofile(self.walk.note)

    async def work(self, _partition: Partition) -> None:
        """End here."""
        sys.setprofile(None)
        self.begun.set()
        await asyncio.Event().wait()

    async def follow(self, address: Address, group_id: str) -> Walk:
        """The walk of one member."""
        self.begun = asyncio.Event()
        group = Group(str(address), group_id, topics=[_TOPIC])
        async with group:
            running = asyncio.create_task(group.run(self.work))
            await self.begun.wait()
            group.stop()
            await running
        return self.walk


async def _walk(*, steps: bool) -> None:
    settings = Settings(group_initial_rebalance_delay_ms=0, shards=1)
    options = ServerOptions(
        settings=settings,
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        store="memory:",
        topics={_TOPIC: 1},
    )
    async with Server(options) as server:
        found = await _server_walks(server.address)
        members = []
        for number in range(_REPEATS):
            assignments = _Assignments()
            server.add_observer(assignments)
            members.append(await assignments.follow(server.address, f"m{number}"))
        found["assignment, in the client"] = min(members, key=lambda w: len(w.calls))
    print(f"{'walk':<28}{'files':>6}{'calls':>8}{'returns':>9}")
    for name, walk in found.items():
        walk.print(name, steps=steps)


def main() -> None:
    """Print all walks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", action="store_true", help="show each call")
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(_walk(steps=parser.parse_args().steps))


if __name__ == "__main__":
    main()
