"""A daemon in this process, members of a group on it, and a record of what their work did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from coterie_client import Event, Group, Partition, PartitionLostError, Work
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions

__all__ = ["GROUP", "TOPIC", "Entry", "Member", "Recorder", "World", "server_options", "world"]

TOPIC = "orders"
GROUP = "billing"

#: Long enough for a slow machine; nothing waits for so long unless it would never come.
_PATIENCE_S = 60.0

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")


@dataclass(frozen=True, slots=True)
class Entry:
    """What work did: begin, end, and so on."""

    what: str
    partition: str
    member: str


class Recorder:
    """What happened, in its order, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.events: list[tuple[str, Event]] = []
        self._stirred = asyncio.Event()

    def note(self, what: str, partition: Partition, member: str) -> None:
        """Write down what work did."""
        self.entries.append(Entry(what, str(partition), member))
        self._stirred.set()

    def hear(self, member: str, event: Event) -> None:
        """Write down an event."""
        self.events.append((member, event))
        self._stirred.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds; it is looked at whenever something happens."""
        async with asyncio.timeout(_PATIENCE_S):
            while not true():
                self._stirred.clear()
                await self._stirred.wait()

    def of(self, kind: type[Event], member: str | None = None) -> list[Any]:
        """The events of a kind."""
        return [
            event
            for name, event in self.events
            if isinstance(event, kind) and member in (None, name)
        ]

    def count(self, what: str, member: str | None = None, partition: str | None = None) -> int:
        """How often something was done."""
        return sum(
            1
            for entry in self.entries
            if entry.what == what
            and member in (None, entry.member)
            and partition in (None, entry.partition)
        )

    def running(self, member: str | None = None) -> set[str]:
        """The partitions that are being worked on now."""
        return {
            entry.partition
            for entry in self.entries
            if member in (None, entry.member)
            and self.count("begin", entry.member, entry.partition)
            > self.count("end", entry.member, entry.partition)
        }

    def overlaps(self) -> list[Entry]:
        """The tasks that began while another one was at work on the same partition."""
        at_work: dict[str, int] = {}
        found = []
        for entry in self.entries:
            if entry.what == "begin":
                if at_work.get(entry.partition):
                    found.append(entry)
                at_work[entry.partition] = at_work.get(entry.partition, 0) + 1
            elif entry.what == "end":
                at_work[entry.partition] -= 1
        return found


@dataclass(slots=True)
class Member:
    """A member that works until it is stopped."""

    name: str
    group: Group
    running: asyncio.Task[None]

    async def stop(self) -> None:
        """Have it leave, and wait until it has."""
        self.group.stop()
        await self.running

    @property
    def owned(self) -> set[str]:
        """What it owns."""
        return {str(partition) for partition in self.group.owned}


@dataclass(slots=True)
class World:
    """A daemon, and a record of all members."""

    server: Server
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def address(self) -> str:
        """Where the daemon is."""
        return str(self.server.address)

    def partitions(self, *numbers: int) -> set[str]:
        """Their names."""
        return {f"{TOPIC}[{number}]" for number in numbers}

    def server_members(self) -> set[str]:
        """The client ids of the group's members, as the daemon sees them."""
        group = self.server.node.group(GROUP)
        return {member.row.client_id for member in group.members.values()} if group else set()

    def group(self, name: str, **options: Any) -> Group:
        """Make a member that is not entered yet."""
        defaults: dict[str, Any] = {
            "topics": [TOPIC],
            "client_id": name,
            "session_timeout": 5.0,
            "heartbeat_interval": 0.05,
            "rebalance_timeout": 20.0,
            "close_timeout": 10.0,
            "on_event": lambda event: self.recorder.hear(name, event),
        }
        return Group(self.address, GROUP, **(defaults | options))

    def work(self, name: str) -> Work:
        """Work that notes begin and end, and commits when it ends."""

        async def work(partition: Partition) -> None:
            self.recorder.note("begin", partition, name)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                try:
                    await partition.commit(partition.generation, name)
                except PartitionLostError:
                    self.recorder.note("refused", partition, name)
                finally:
                    self.recorder.note("end", partition, name)

        return work

    @asynccontextmanager
    async def member(
        self, name: str, work: Work | None = None, *, run: Any = None, **options: Any
    ) -> AsyncIterator[Member]:
        """Give a member at work; it is stopped in the end, if it was not before."""
        async with self.group(name, **options) as group:
            running = asyncio.create_task(group.run(work or self.work(name), **(run or {})))
            member = Member(name, group, running)
            try:
                yield member
            finally:
                if not running.done():
                    group.stop()
                await asyncio.wait([running])

    async def until_shared(self, **shares: int) -> None:
        """Wait until members work on so many partitions each, and all partitions are worked on."""
        await self.recorder.until(
            lambda: {name: len(self.recorder.running(name)) for name in shares} == shares
        )


def server_options(partitions: int, *, store: str = "memory:", port: int = 0) -> ServerOptions:
    """Tell a daemon where to listen, and to have a topic."""
    return ServerOptions(
        settings=Settings.load(overrides=SETTINGS),
        listeners=(ListenerOptions(Address("127.0.0.1", port)),),
        store=store,
        topics={TOPIC: partitions},
    )


@asynccontextmanager
async def world(partitions: int = 6) -> AsyncIterator[World]:
    """Give a daemon with a topic."""
    async with Server(server_options(partitions)) as server:
        yield World(server)
