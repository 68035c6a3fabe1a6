"""What TLS, logins and ACLs cost: new connections, and heartbeats on open ones; and with Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop

from bench.support import frames
from bench.support.load import LoadResult, connect, cpu_s, disconnect, exchange, keep_busy
from bench.support.logins import MECHANISMS, PASSWORD, USER, log_in, set_scram_password
from bench.support.measure import Effort, ratio, summary
from bench.support.members import MemberGroup
from bench.support.report import Column, Report, Row
from bench.support.secured import ACLS, PLAIN, Credentials, Way, coterie_ways, kafka_ways
from bench.support.servers import PROC
from coterie_client import Admin, Sasl, Security
from coterie_client.admin import Acl
from tests.interop.kafka_broker import toolchain_problem

__all__ = ["run"]

#: So many more are about other groups.
_OTHER_ACLS: Final = 100

_HOST: Final = "127.0.0.1"
_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
#: Processor time is counted in these.
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
#: How many connections are begun at the same time.
_AT_A_TIME: Final = 16

_COLUMNS: Final = (
    Column("what", "what"),
    Column("per_s", "per second"),
    Column("cpu", "server's CPU\neach"),
    Column("slower", "rate\n÷ plain"),
    Column("dearer", "CPU\n÷ plain"),
    Column("kafka_per_s", "Kafka\nper second"),
    Column("kafka_cpu", "Kafka's CPU\neach"),
    Column("over_kafka", "rate\n÷ Kafka's"),
)


@dataclass(frozen=True, slots=True)
class _Scale:
    rounds: int
    seconds: float
    members: int
    #: Connections in a round.
    connections: int


_FULL: Final = _Scale(rounds=7, seconds=2.0, members=50, connections=1_000)
_QUICK: Final = _Scale(rounds=2, seconds=0.1, members=3, connections=40)


@dataclass(slots=True)
class _Figures:
    """What came of one kind of load on one way, round by round."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def add(self, result: LoadResult) -> None:
        self.per_s.append(result.per_second)
        self.cpu_us.append(result.server_cpu_us)


#: By kind of load, then by way or mechanism.
_Measured = Mapping[str, Mapping[str, _Figures]]
_HEARTBEATS, _CONNECTIONS, _LOGINS = "Heartbeats", "New connections", "Logins"


def run(effort: Effort) -> Report:
    """Measure all ways in turns."""
    title = "Security"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 7))
        return Report(title, _COLUMNS, (absent,))
    scale = _QUICK if effort.quick else _FULL
    problem = "left out of a quick try" if effort.quick else toolchain_problem()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        credentials = Credentials(folder / "credentials")
        all_ways = [coterie_ways(folder, credentials)]
        if problem is None:
            all_ways.append(kafka_ways(folder, credentials))
        for ways in all_ways:
            for server in {id(way.server): way.server for way in ways.values()}.values():
                server.start()
                stack.callback(server.stop)
        measured = uvloop.run(_measure(all_ways, credentials.token(), scale))
    kafkas = measured[1] if problem is None else {}
    rows = tuple(row for kind in measured[0] for row in _rows(kind, measured[0], kafkas))
    return Report(title, _COLUMNS, rows, _notes(scale, problem))


async def _measure(
    all_ways: Sequence[Mapping[str, Way]], token: str, scale: _Scale
) -> Sequence[_Measured]:
    """Measure Coterie and Kafka in turns."""
    contenders = [_Contender(ways, token, scale) for ways in all_ways]
    for contender in contenders:
        await contender.prepare()
    for turn in range(scale.rounds):
        for contender in contenders:
            await contender.measure(turn)
    for contender in contenders:
        await contender.close()
    return [contender.figures for contender in contenders]


class _Contender:
    """Servers of one kind, the connections to them, and what was measured."""

    def __init__(self, ways: Mapping[str, Way], token: str, scale: _Scale) -> None:
        self._ways, self._token, self._scale = ways, token, scale
        self._beats: dict[int, list[bytes]] = {}
        self._opened: dict[str, list[asyncio.Transport]] = {}
        self._joined: list[asyncio.Transport] = []
        self.figures: dict[str, dict[str, _Figures]] = {}
        self._begin()

    def _begin(self) -> None:
        self.figures = {
            _HEARTBEATS: {what: _Figures() for what in self._ways},
            _CONNECTIONS: {what: _Figures() for what in self._ways},
            _LOGINS: {mechanism: _Figures() for mechanism in MECHANISMS},
        }

    async def prepare(self) -> None:
        """Form a group on each server, connect in each way, and let all of it run once."""
        if ACLS in self._ways:
            await _give_rights(self._ways[ACLS].login_port)
        await set_scram_password(self._ways[PLAIN].port)
        for what in (each for each in (PLAIN, ACLS) if each in self._ways):
            way = self._ways[what]
            await asyncio.to_thread(frames.make_ready, way.port, self._scale.members)
            members = await connect(way.port, self._scale.members)
            self._joined += members
            self._beats[id(way.server)] = await _members(members)
        for what, way in self._ways.items():
            self._opened[what] = opened = await way.connect(self._scale.members)
            # Silent ones are closed after ten seconds, and the last way's turn comes later.
            beats = [iter([each]) for each in self._beats[id(way.server)]]
            await exchange(opened, beats, frames.check_heartbeat)
        await self.measure(0)
        self._begin()  # a Java that has just started is slower

    async def measure(self, turn: int) -> None:
        """Take one round, which begins with another way each time."""
        order, scale = list(self._ways), self._scale
        for what in order[turn % len(order) :] + order[: turn % len(order)]:
            way = self._ways[what]
            own = self._beats[id(way.server)]
            self.figures[_HEARTBEATS][what].add(
                await keep_busy(
                    self._opened[what],
                    [itertools.repeat(each) for each in own],
                    pid=way.server.pid,
                    seconds=scale.seconds,
                    check=frames.check_heartbeat,
                )
            )
            self.figures[_CONNECTIONS][what].add(await _connect_anew(way, own[0], scale))
        for mechanism in MECHANISMS:
            logged_in = await _log_in_anew(self._ways[PLAIN], mechanism, self._token, scale)
            self.figures[_LOGINS][mechanism].add(logged_in)

    async def close(self) -> None:
        """Close all connections."""
        for each in (self._joined, *self._opened.values()):
            await disconnect(each)


async def _give_rights(port: int) -> None:
    """Let clients that do not log in do everything, by ACLs that are among many others."""
    sasl = Sasl("SCRAM-SHA-512", USER, PASSWORD)
    anyone = [
        Acl("User:ANONYMOUS", "All", kind, "kafka-cluster" if kind == "Cluster" else "*")
        for kind in ("Group", "Topic", "Cluster")
    ]
    others = [Acl("User:ann", "Read", "Group", f"other-{n}") for n in range(_OTHER_ACLS)]
    async with Admin(f"{_HOST}:{port}", security=Security(sasl=sasl)) as admin:
        await admin.acls.create(*anyone, *others)
    await asyncio.sleep(1)  # by then they are known


async def _members(opened: Sequence[asyncio.Transport]) -> list[bytes]:
    """Form a group; return a heartbeat of each member, which may be sent on any connection."""
    group = MemberGroup("members")
    await group.join(opened)
    return [frames.heartbeat(group.group_id, each.generation, each.id) for each in group.members]


async def _connect_anew(way: Way, beat: bytes, scale: _Scale) -> LoadResult:
    """Open connections, have a request answered on each, and close them."""

    async def several() -> None:
        opened = await way.connect(_AT_A_TIME)
        await exchange(opened, [iter([beat]) for _ in opened], frames.check_heartbeat)
        for each in opened:
            each.abort()

    return await _repeated(way.server.pid, several, scale)


async def _log_in_anew(way: Way, mechanism: str, token: str, scale: _Scale) -> LoadResult:
    """Open connections, log in on each, and close them."""

    async def several() -> None:
        several = (log_in(way.login_port, mechanism, token) for _ in range(_AT_A_TIME))
        await asyncio.gather(*several)

    return await _repeated(way.server.pid, several, scale)


async def _repeated(pid: int, several: Callable[[], Awaitable[None]], scale: _Scale) -> LoadResult:
    server_cpu_s, client_cpu_s = cpu_s(pid), time.process_time()
    began = time.perf_counter()
    for _ in range(0, scale.connections, _AT_A_TIME):
        await several()
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.1)
    return LoadResult(
        answers=-(-scale.connections // _AT_A_TIME) * _AT_A_TIME,
        seconds=seconds,
        server_cpu_s=max(cpu_s(pid) - server_cpu_s, _TICK_S),
        client_cpu_s=time.process_time() - client_cpu_s,
    )


def _rows(kind: str, ours: _Measured, kafkas: _Measured) -> Iterable[Row]:
    """The rows of one kind of load, compared with its plain way, or with plain connections."""
    plain = ours[kind].get(PLAIN) or ours[_CONNECTIONS][PLAIN]
    for what, own in ours[kind].items():
        kafka = kafkas.get(kind, {}).get(what)
        yield Row(
            kind,
            (
                what,
                summary(own.per_s, unit="/s"),
                summary(own.cpu_us, unit="µs"),
                None if what == PLAIN else ratio(own.per_s, plain.per_s),
                None if what == PLAIN else ratio(own.cpu_us, plain.cpu_us),
                None if kafka is None else summary(kafka.per_s, unit="/s"),
                None if kafka is None else summary(kafka.cpu_us, unit="µs"),
                None if kafka is None else ratio(own.per_s, kafka.per_s),
            ),
        )


def _notes(scale: _Scale, problem: str | None) -> tuple[str, ...]:
    without = "one node, KRaft, with memory and collector as in its start script, warmed up"
    return (
        f"One process serves all ways in turns, another those with ACLs; {scale.rounds} rounds.",
        f"With ACLs: three that let clients do everything, and {_OTHER_ACLS} about other groups.",
        f"Heartbeats: {scale.members} members, each with one in flight.",
        f"New connections: {_AT_A_TIME} at a time, each with one heartbeat; no session is resumed.",
        f"Logins: {_AT_A_TIME} at a time without TLS, compared with new connections in PLAINTEXT.",
        "PLAIN: but for the first, the password is known to be right; OAUTHBEARER: RS256.",
        "TLS 1.3, with keys on the curve P-256.",
        f"Kafka: {without}." if problem is None else f"Without Kafka: {problem}.",
        "The client, also Python, shakes hands on the same machine, so rates are lower bounds.",
    )
