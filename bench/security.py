"""What TLS costs a coordinator: new connections, and heartbeats on those that are there."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop
from cryptography.x509.oid import NameOID

from bench.support import frames
from bench.support.load import LoadResult, connect, cpu_s, disconnect, exchange, keep_busy
from bench.support.measure import Effort, ratio, summary
from bench.support.members import MemberGroup
from bench.support.report import Column, Report, Row
from bench.support.servers import PROC, CoterieServer
from tests.interop.kafka_broker import free_port
from tests.support.certificates import Authority, name

__all__ = ["run"]

PLAIN, TLS, MUTUAL = "PLAINTEXT", "SSL", "SSL, with certificates of clients"

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


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to connect to the server."""

    port: int
    tls: ssl.SSLContext | None = None


@dataclass(slots=True)
class _Figures:
    """What came of one kind of load on one way, round by round."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def add(self, result: LoadResult) -> None:
        self.per_s.append(result.per_second)
        self.cpu_us.append(result.server_cpu_us)


def run(effort: Effort) -> Report:
    """Measure all ways in turns."""
    title = "Security"
    if not PROC.exists():
        absent = Row("", ("needs Linux, for its accounts of processes", *[None] * 4))
        return Report(title, _COLUMNS, (absent,))
    scale = _QUICK if effort.quick else _FULL
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        server, ways = _server(Path(folder))
        server.start()
        try:
            heartbeats, connections = uvloop.run(_measure(server, ways, scale))
        finally:
            server.stop()
    rows = (*_rows("Heartbeats", heartbeats), *_rows("New connections", connections))
    return Report(title, _COLUMNS, rows, _notes(scale))


def _server(folder: Path) -> tuple[CoterieServer, Mapping[str, _Way]]:
    authority = Authority(folder / "certificates")
    client = authority.issue_to(name((NameOID.COMMON_NAME, "bench")))
    ports = {"SSL": free_port(), "MUTUAL": free_port()}
    server = CoterieServer(
        folder / "server",
        settings={
            "ssl.keystore.location": str(authority.issue().both),
            "ssl.truststore.location": str(authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.security.protocol.map": "MUTUAL:SSL",
        },
        arguments=[
            part for each, at in ports.items() for part in ("--listen", f"{each}://{_HOST}:{at}")
        ],
    )
    ways = {
        PLAIN: _Way(server.port),
        TLS: _Way(ports["SSL"], authority.client_context()),
        MUTUAL: _Way(ports["MUTUAL"], authority.client_context(client)),
    }
    return server, ways


async def _measure(
    server: CoterieServer, ways: Mapping[str, _Way], scale: _Scale
) -> tuple[Mapping[str, _Figures], Mapping[str, _Figures]]:
    await asyncio.to_thread(frames.make_ready, server.port, scale.members)
    joined = await connect(server.port, scale.members)
    beats = await _members(joined)
    opened = {what: await connect(way.port, scale.members, way.tls) for what, way in ways.items()}
    heartbeats = {what: _Figures() for what in ways}
    connections = {what: _Figures() for what in ways}
    for turn in range(scale.rounds):
        order = list(ways)
        for what in order[turn % 3 :] + order[: turn % 3]:
            heartbeats[what].add(
                await keep_busy(
                    opened[what],
                    [itertools.repeat(each) for each in beats],
                    pid=server.pid,
                    seconds=scale.seconds,
                    check=frames.check_heartbeat,
                )
            )
            connections[what].add(await _connect_anew(server, ways[what], beats[0], scale))
    for each in (joined, *opened.values()):
        await disconnect(each)
    return heartbeats, connections


async def _members(opened: Sequence[asyncio.Transport]) -> list[bytes]:
    """Form a group; return a heartbeat of each member, which may be sent on any connection."""
    group = MemberGroup("members")
    await group.join(opened)
    return [frames.heartbeat(group.group_id, each.generation, each.id) for each in group.members]


async def _connect_anew(server: CoterieServer, way: _Way, beat: bytes, scale: _Scale) -> LoadResult:
    """Open connections, have a request answered on each, and close them."""
    server_cpu_s, client_cpu_s = cpu_s(server.pid), time.process_time()
    began = time.perf_counter()
    for _ in range(0, scale.connections, _AT_A_TIME):
        opened = await connect(way.port, _AT_A_TIME, way.tls)
        await exchange(opened, [iter([beat]) for _ in opened], frames.check_heartbeat)
        for each in opened:
            each.abort()
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.1)
    return LoadResult(
        answers=-(-scale.connections // _AT_A_TIME) * _AT_A_TIME,
        seconds=seconds,
        server_cpu_s=max(cpu_s(server.pid) - server_cpu_s, _TICK_S),
        client_cpu_s=time.process_time() - client_cpu_s,
    )


def _rows(group: str, figures: Mapping[str, _Figures]) -> Sequence[Row]:
    plain = figures[PLAIN]
    return [
        Row(
            group,
            (
                what,
                summary(each.per_s, unit="/s"),
                summary(each.cpu_us, unit="µs"),
                None if what == PLAIN else ratio(each.per_s, plain.per_s),
                None if what == PLAIN else ratio(each.cpu_us, plain.cpu_us),
            ),
        )
        for what, each in figures.items()
    ]


def _notes(scale: _Scale) -> tuple[str, ...]:
    return (
        f"One process serves all three ways, in turns; medians of {scale.rounds} rounds.",
        f"Heartbeats: {scale.members} members, each with one in flight.",
        f"New connections: {_AT_A_TIME} at a time, each with one heartbeat; no session is resumed.",
        "TLS 1.3, with keys on the curve P-256.",
        "The client, also Python, shakes hands on the same machine, so rates are lower bounds.",
    )
