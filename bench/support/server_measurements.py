"""The measurements of the server benchmark: traffic, rebalances, memory, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.support import frames
from bench.support.load import LoadResult, connect, disconnect, exchange, keep_busy, memory_bytes
from bench.support.measure import calm
from bench.support.members import MemberGroup
from bench.support.servers import CoterieServer, EchoServer, KafkaServer, Server

__all__ = [
    "COTERIE",
    "ECHO",
    "FULL",
    "KAFKA",
    "QUICK",
    "Memory",
    "Scale",
    "Traffic",
    "measure_memory",
    "measure_restart",
    "measure_traffic",
]

COTERIE: Final = "coterie"
ECHO: Final = "echo"
KAFKA: Final = "kafka"

#: The number of different commits that each member repeats.
_COMMITS: Final = 16
#: To get a member id, to join with it, and to sync.
_REQUESTS_OF_A_JOINER: Final = 3
_STORMS_TO_WARM_UP: Final = 3
#: Open files of a server and a client, besides connections.
_FILES_BESIDES: Final = 500
_SETTLE_S: Final = 1.0
_TIMEOUT_S: Final = 120.0
_RETRY_S: Final = 0.005
_SYNC_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes and durations of a run."""

    rounds: int
    #: The length of a contender's turn with steady traffic, and of its warm-up.
    seconds: float
    warm_up_s: float
    #: Members that send heartbeats and commits, and the partitions of each.
    members: int
    partitions: int
    #: Members that join at once, in several sizes, and the size of the group that one more joins.
    storms: tuple[int, ...]
    crowd: int
    #: Members that are only connected, and the size of their groups.
    connected: int
    together: int
    #: Restarts, and what is loaded.
    restarts: int
    groups: int
    offsets: int


FULL: Final = Scale(
    rounds=5, seconds=2.0, warm_up_s=10.0, members=100, partitions=10, storms=(1_000, 4_000),
    crowd=500, connected=10_000, together=100, restarts=3, groups=1_000, offsets=100,
)  # fmt: skip
QUICK: Final = Scale(
    rounds=2, seconds=0.1, warm_up_s=0.0, members=4, partitions=2, storms=(8, 12),
    crowd=4, connected=10, together=5, restarts=2, groups=5, offsets=4,
)  # fmt: skip


@dataclass(slots=True)
class Traffic:
    """The results of traffic and rebalances, by contender and round."""

    heartbeats: dict[str, list[LoadResult]] = field(default_factory=dict)
    commits: dict[str, list[LoadResult]] = field(default_factory=dict)
    #: By size first.
    storms: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    joins: dict[str, list[float]] = field(default_factory=dict)
    #: The time that the disk took to make a page durable, round by round.
    sync_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a server: idle, with members, and after they left."""

    members: int
    idle_bytes: int
    full_bytes: int
    after_bytes: int


@contextlib.contextmanager
def _running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


# -- traffic ---------------------------------------------------------------------------------------


class _Coordinator:
    """A coordinator of groups under load."""

    def __init__(self, server: Server, scale: Scale) -> None:
        self._server = server
        self._scale = scale
        self._crowd = MemberGroup("crowd")
        self._workers: list[asyncio.Transport] = []
        self._heartbeats: list[bytes] = []
        self._commits: list[list[bytes]] = []
        self._storms = itertools.count()

    async def prepare(self) -> None:
        """Create the topic and form two groups."""
        scale, port = self._scale, self._server.port
        partitions = max(scale.members * scale.partitions, *scale.storms)
        await asyncio.to_thread(frames.make_ready, port, partitions)
        await self._crowd.join(await connect(port, scale.crowd))
        workers = MemberGroup("workers")
        self._workers = await connect(port, scale.members)
        await workers.join(self._workers)
        for number, member in enumerate(workers.members):
            who = (workers.group_id, member.generation, member.id)
            mine = range(number * scale.partitions, (number + 1) * scale.partitions)
            self._heartbeats.append(frames.heartbeat(*who))
            self._commits.append([frames.commit(*who, mine, offset) for offset in range(_COMMITS)])

    async def heartbeats(self, seconds: float) -> LoadResult:
        """Send heartbeats from all workers."""
        beats = [itertools.repeat(frame) for frame in self._heartbeats]
        return await keep_busy(
            self._workers,
            beats,
            pid=self._server.pid,
            seconds=seconds,
            check=frames.check_heartbeat,
        )

    async def commits(self, seconds: float) -> LoadResult:
        """Send commits from all workers."""
        commits = [itertools.cycle(each) for each in self._commits]
        return await keep_busy(
            self._workers,
            commits,
            pid=self._server.pid,
            seconds=seconds,
            check=frames.check_commit,
        )

    async def storm(self, members: int) -> float:
        """Let many members join a new group at once; return the seconds until all have synced."""
        transports = await connect(self._server.port, members)
        group = MemberGroup(f"storm-{next(self._storms)}")
        took_s = await group.join(transports)
        await group.leave()
        await disconnect(transports)
        return took_s

    async def one_joins(self) -> float:
        """Let one more member join a large group; return the seconds until all have synced."""
        return await self._crowd.join(await connect(self._server.port, 1))


class _Echo:
    """Exchanges as many frames of the same sizes, without any meaning."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        who = ("workers", f"{frames.CLIENT_ID}-{'0' * 36}")
        self._beats = _EchoedFrames(*frames.heartbeat_sizes(*who))
        self._commits = _EchoedFrames(*frames.commit_sizes(*who, scale.partitions))

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start one process for each pair of sizes."""
        for echoed in (self._beats, self._commits):
            stack.enter_context(_running(echoed.server))

    async def prepare(self) -> None:
        """Open all connections."""
        for echoed in (self._beats, self._commits):
            await echoed.connect(self._scale.members)

    async def heartbeats(self, seconds: float) -> LoadResult:
        """Send frames of the size of heartbeats."""
        return await self._beats.keep_busy(seconds)

    async def commits(self, seconds: float) -> LoadResult:
        """Send frames of the size of commits."""
        return await self._commits.keep_busy(seconds)

    async def storm(self, members: int) -> float:
        """Exchange as many frames as members that join at once do."""
        return await self._beats.exchange(members)

    async def one_joins(self) -> float:
        """Exchange as many frames as a group does that one more member joins."""
        return await self._beats.exchange(self._scale.crowd + 1)


class _EchoedFrames:
    """An echo server for one pair of sizes, and connections to it."""

    def __init__(self, request_bytes: int, answer_bytes: int) -> None:
        self.server = EchoServer(request_bytes, answer_bytes)
        self._frame = bytes(request_bytes)
        self._transports: list[asyncio.Transport] = []

    async def connect(self, count: int) -> None:
        self._transports = await connect(self.server.port, count)

    async def keep_busy(self, seconds: float) -> LoadResult:
        endless = [itertools.repeat(self._frame) for _ in self._transports]
        return await keep_busy(self._transports, endless, pid=self.server.pid, seconds=seconds)

    async def exchange(self, members: int) -> float:
        transports = await connect(self.server.port, members)
        each = [itertools.repeat(self._frame, _REQUESTS_OF_A_JOINER) for _ in transports]
        took_s = await exchange(transports, each)
        await disconnect(transports)
        return took_s


async def measure_traffic(folder: Path, scale: Scale, *, with_kafka: bool) -> Traffic:
    """Measure requests and rebalances, the contenders in turns."""
    traffic = Traffic()
    with contextlib.ExitStack() as stack:
        echo = _Echo(scale)
        echo.start(stack)
        contenders: dict[str, _Coordinator | _Echo] = {ECHO: echo}
        for name, server in _servers(folder, with_kafka=with_kafka).items():
            contenders[name] = _Coordinator(stack.enter_context(_running(server)), scale)
        for contender in contenders.values():
            await contender.prepare()
            if isinstance(contender, _Coordinator) and scale.warm_up_s:
                await _warm_up(contender, scale)
        stack.enter_context(calm())
        for turn in range(scale.rounds):
            for name, contender in _in_turns(contenders, turn):
                await _take_turn(traffic, name, contender, scale)
            traffic.sync_s.append(_sync_s(folder))
    return traffic


def _servers(folder: Path, *, with_kafka: bool) -> dict[str, Server]:
    servers: dict[str, Server] = {COTERIE: CoterieServer(folder / "coterie")}
    if with_kafka:
        servers[KAFKA] = KafkaServer(folder / "kafka")
    return servers


async def _warm_up(coordinator: _Coordinator, scale: Scale) -> None:
    """Give Java time to compile its hot code."""
    await coordinator.heartbeats(scale.warm_up_s)
    await coordinator.commits(scale.warm_up_s)
    for _ in range(_STORMS_TO_WARM_UP):
        await coordinator.storm(max(scale.storms))


def _in_turns(
    contenders: Mapping[str, _Coordinator | _Echo], turn: int
) -> list[tuple[str, _Coordinator | _Echo]]:
    every = list(contenders.items())
    first = turn % len(every)
    return every[first:] + every[:first]


async def _take_turn(
    traffic: Traffic, name: str, contender: _Coordinator | _Echo, scale: Scale
) -> None:
    traffic.heartbeats.setdefault(name, []).append(await contender.heartbeats(scale.seconds))
    traffic.commits.setdefault(name, []).append(await contender.commits(scale.seconds))
    for members in scale.storms:
        storms = traffic.storms.setdefault(members, {})
        storms.setdefault(name, []).append(await contender.storm(members))
    traffic.joins.setdefault(name, []).append(await contender.one_joins())


def _sync_s(folder: Path) -> float:
    """The seconds that the disk takes to make a page durable."""
    path = folder / "page"
    number = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(number, bytes(_SYNC_BYTES))
        os.fsync(number)
        os.lseek(number, 0, os.SEEK_SET)
        began = time.perf_counter()
        os.write(number, bytes(_SYNC_BYTES))
        os.fdatasync(number)
        return time.perf_counter() - began
    finally:
        os.close(number)


# -- memory ----------------------------------------------------------------------------------------


async def measure_memory(
    folder: Path, scale: Scale, files: int, *, with_kafka: bool
) -> dict[str, Memory]:
    """Measure each server idle, with many members, and after they left."""
    count = min(scale.connected, files - _FILES_BESIDES)
    found = {}
    with _running(EchoServer(1, 4)) as echo:
        idle_bytes = memory_bytes(echo.pid)
        transports = await connect(echo.port, count)
        full_bytes = memory_bytes(echo.pid)
        await disconnect(transports)
        found[ECHO] = Memory(count, idle_bytes, full_bytes, memory_bytes(echo.pid))
    for name, server in _servers(folder, with_kafka=with_kafka).items():
        with _running(server):
            found[name] = await _memory_of(server, count, scale.together)
    return found


async def _memory_of(server: Server, count: int, together: int) -> Memory:
    await asyncio.to_thread(frames.make_ready, server.port, together)
    await asyncio.sleep(_SETTLE_S)
    idle_bytes = memory_bytes(server.pid)
    groups, transports = [], []
    for number, first in enumerate(range(0, count, together)):
        group = MemberGroup(f"group-{number}")
        opened = await connect(server.port, min(together, count - first))
        await group.join(opened)
        groups.append(group)
        transports += opened
    await asyncio.sleep(_SETTLE_S)
    full_bytes = memory_bytes(server.pid)
    for group in groups:
        await group.leave()
    await disconnect(transports)
    await asyncio.sleep(_SETTLE_S)
    return Memory(count, idle_bytes, full_bytes, memory_bytes(server.pid))


# -- restart ---------------------------------------------------------------------------------------


async def measure_restart(
    folder: Path, scale: Scale, *, with_kafka: bool
) -> dict[str, list[float]]:
    """Measure the time from starting a server until it answers with its old offsets."""
    took_s: dict[str, list[float]] = {ECHO: []}
    servers = _servers(folder, with_kafka=with_kafka)
    for server in servers.values():
        with _running(server):
            await _fill(server.port, scale)
    for _ in range(scale.restarts):
        took_s[ECHO].append(_start_s(EchoServer(1, 4)))
        for name, server in servers.items():
            took_s.setdefault(name, []).append(_restart_s(server, scale))
    return took_s


def _start_s(server: Server) -> float:
    began = time.perf_counter()
    with _running(server):
        return time.perf_counter() - began


async def _fill(port: int, scale: Scale) -> None:
    """Commit offsets for many groups without members."""
    await asyncio.to_thread(frames.make_ready, port, scale.offsets)
    partitions = range(scale.offsets)
    commits = [
        frames.commit(_group_id(number), -1, "", partitions, number)
        for number in range(scale.groups)
    ]
    transports = await connect(port, min(50, scale.groups))
    shares = [iter(commits[first :: len(transports)]) for first in range(len(transports))]
    await exchange(transports, shares, frames.check_commit)
    await disconnect(transports)


def _group_id(number: int) -> str:
    return f"billing-{number}"


def _restart_s(server: Server, scale: Scale) -> float:
    began = time.perf_counter()
    with _running(server):
        while not _is_back(server.port, scale):
            if time.perf_counter() - began > _TIMEOUT_S:
                raise AssertionError(f"no offsets {_TIMEOUT_S:g} s after the restart")
            time.sleep(_RETRY_S)
        return time.perf_counter() - began


def _is_back(port: int, scale: Scale) -> bool:
    """Whether a few groups have their offsets; servers load groups in different orders."""
    asked: Sequence[int] = (0, scale.groups // 2, scale.groups - 1)
    return all(frames.has_offsets(port, _group_id(number), scale.offsets) for number in asked)
