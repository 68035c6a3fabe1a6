"""What it takes to tell many watchers who owns what, while a group rebalances every second."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.support.load import cpu_s
from bench.support.measure import Effort, Figure, summary
from bench.support.report import Column, Report, Row
from bench.support.servers import more_files
from coterie_assignors import RangeAssignor
from coterie_client import Admin, Group
from coterie_client.events import AssignmentReceived
from coterie_client.events import Event as ClientEvent
from tests.live.daemon import HOST, Daemon

__all__ = ["run"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
_GROUP: Final = "watched"
_TOPIC: Final = "watched"
_PARTITIONS: Final = 32
_STABLE: Final = re.compile(rb'"state":"Stable","generation":(\d+)')

#: The project's aims: the loop serves others meanwhile.
_OTHERS_AIM_S: Final = 0.05

_COLUMNS: Final = (
    Column("watchers", "watchers"),
    Column("delay", "until they know,\nmedian"),
    Column("slowest", "until the last\none knows"),
    Column("others", "longest wait of\nanother client"),
    Column("cpu", "coordinator's\nCPU"),
    Column("snapshots", "whole tables\nsent again"),
)


@dataclass(frozen=True, slots=True)
class _Scale:
    watchers: Sequence[int]
    rebalances: int


_FULL: Final = _Scale((1, 100, 1000), 20)
_QUICK: Final = _Scale((1, 5), 2)


def run(effort: Effort) -> Report:
    """Measure one group with more and more watchers."""
    scale = _QUICK if effort.quick else _FULL
    more_files()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    settings = {"group.initial.rebalance.delay.ms": 0, "http.max.watchers": 2000}
    with (
        tempfile.TemporaryDirectory(dir=_FOLDER) as folder,
        Daemon(Path(folder), settings=settings, topics={_TOPIC: _PARTITIONS}) as daemon,
    ):
        rows = [asyncio.run(_measured(daemon, count, scale)) for count in scale.watchers]
    notes = (
        f"A group of two eager members and {_PARTITIONS} partitions rebalances once a second, so",
        "that each rebalance takes all partitions away and gives them out again.",
        "The time runs from when the last member has its assignment until a watcher has the event;",
        "watchers, members and the other client are one process on the same machine.",
    )
    return Report("Watchers of a group", _COLUMNS, tuple(rows), notes)


@dataclass(slots=True)
class _Moments:
    """When members and watchers knew of each generation."""

    members: dict[int, float] = field(default_factory=dict)
    watchers: dict[int, list[float]] = field(default_factory=dict)
    snapshots: int = 0
    #: Whether a member has an assignment.
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)

    def member(self, event: ClientEvent) -> None:
        """Note what a member is told; the last one counts."""
        if isinstance(event, AssignmentReceived):
            self.members[event.generation] = time.perf_counter()
            self.has_begun.set()

    def delays(self, watchers: int) -> list[list[float]]:
        """For each generation that all watchers heard of, how long it took each of them."""
        return [
            [max(0.0, at_s - self.members[generation]) for at_s in heard]
            for generation, heard in self.watchers.items()
            if generation in self.members and len(heard) == watchers
        ]


class _Watcher(asyncio.Protocol):
    """Notes when it hears that a generation is in place."""

    def __init__(self, moments: _Moments, request: bytes) -> None:
        self._moments, self._request = moments, request
        self._rest = b""
        self.is_ready = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Look for the beginnings of events."""
        now_s = time.perf_counter()
        data = self._rest + data
        if b"event: snapshot" in data:
            self._moments.snapshots += self.is_ready.is_set()
            self.is_ready.set()
        elif self.is_ready.is_set():
            for found in _STABLE.finditer(data):
                self._moments.watchers.setdefault(int(found[1]), []).append(now_s)
        # What may be the first half of what is looked for.
        cut = data.rfind(b"event: ")
        self._rest = data[cut:] if cut >= 0 and _STABLE.search(data, cut) is None else b""


async def _measured(daemon: Daemon, watchers: int, scale: _Scale) -> Row:
    moments = _Moments()
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(_member(daemon, moments)) for _ in range(2)]
        await moments.has_begun.wait()
        for _ in range(watchers):
            await _watch(stack, daemon, moments)
        await asyncio.sleep(1.0)  # until the members are settled
        moments.snapshots = 0
        longest: list[float] = []
        other = asyncio.create_task(_ask_all_the_time(daemon, longest))
        began_s, used_s = time.perf_counter(), cpu_s(daemon.process.pid)
        for _ in range(scale.rebalances):
            groups[0].rejoin()
            await asyncio.sleep(1.0)
        share = (cpu_s(daemon.process.pid) - used_s) / (time.perf_counter() - began_s)
        other.cancel()
        await asyncio.wait([other])
    delays = moments.delays(watchers)
    worst_s = max(longest)
    others = Figure(worst_s, worst_s, worst_s, "s", worst_s <= _OTHERS_AIM_S)
    return Row(
        "",
        (
            f"{watchers:,}",
            summary([each for one in delays for each in one], unit="s"),
            summary([max(one) for one in delays], unit="s"),
            others,
            f"{share:.0%}",
            f"{moments.snapshots:,}",
        ),
    )


@asynccontextmanager
async def _member(daemon: Daemon, moments: _Moments) -> AsyncIterator[Group]:
    group = Group(
        daemon.address,
        _GROUP,
        topics=[_TOPIC],
        assignors=[RangeAssignor()],
        address="10.0.0.7:8080",
        on_event=moments.member,
        heartbeat_interval=0.05,
    )
    async with group:
        reading = asyncio.create_task(_read(group))
        yield group
        group.stop()
        await reading


async def _read(group: Group) -> None:
    async for _ in group.changes():
        pass


async def _watch(stack: AsyncExitStack, daemon: Daemon, moments: _Moments) -> None:
    path = f"/v1/groups/{_GROUP}/owners/watch"
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    transport, watcher = await loop.create_connection(
        lambda: _Watcher(moments, request), HOST, daemon.http_port
    )
    stack.callback(transport.close)
    await asyncio.wait_for(watcher.is_ready.wait(), 30)


async def _ask_all_the_time(daemon: Daemon, found: list[float]) -> None:
    """Another client's questions, and how long each took."""
    async with Admin(daemon.address) as admin:
        while True:
            began_s = time.perf_counter()
            await admin.offsets.fetch("another")
            found.append(time.perf_counter() - began_s)
            await asyncio.sleep(0.01)
