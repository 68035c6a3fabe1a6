"""What TLS, logins and ACLs cost a coordinator: new connections, and heartbeats on open ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import jwt
import uvloop
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from bench.support import frames
from bench.support.load import LoadResult, connect, cpu_s, disconnect, exchange, keep_busy
from bench.support.logins import MECHANISMS, PASSWORD, USER, log_in, set_scram_password
from bench.support.measure import Effort, ratio, summary
from bench.support.members import MemberGroup
from bench.support.report import Column, Report, Row
from bench.support.servers import PROC, CoterieServer
from coterie_client import Admin, Sasl, Security
from coterie_client.admin import Acl
from tests.interop.kafka_broker import free_port
from tests.support.certificates import Authority, name

__all__ = ["run"]

PLAIN, TLS, MUTUAL = "PLAINTEXT", "SSL", "SSL, with certificates of clients"
ACLS: Final = "PLAINTEXT, with ACLs"
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

    server: CoterieServer
    port: int
    tls: ssl.SSLContext | None = None
    #: Where clients log in.
    login_port: int = 0


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
        key = rsa.generate_private_key(65537, 2048)
        with contextlib.ExitStack() as stack:
            ways = _ways(Path(folder), key)
            for server in {id(way.server): way.server for way in ways.values()}.values():
                server.start()
                stack.callback(server.stop)
            heartbeats, connections, logins = uvloop.run(_measure(ways, _token(key), scale))
    plain = connections[PLAIN]
    rows = (
        *_rows("Heartbeats", heartbeats, heartbeats[PLAIN]),
        *_rows("New connections", connections, plain),
        *_rows("Logins", logins, plain),
    )
    return Report(title, _COLUMNS, rows, _notes(scale))


def _ways(folder: Path, key: rsa.RSAPrivateKey) -> Mapping[str, _Way]:
    authority = Authority(folder / "certificates")
    client = authority.issue_to(name((NameOID.COMMON_NAME, "bench")))
    ports = {each: free_port() for each in ("SSL", "MUTUAL", "LOGIN")}
    jwks = folder / "jwks.json"
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwks.write_text(json.dumps({"keys": [public]}))
    server = _server(
        folder / "server",
        ports,
        {
            "ssl.keystore.location": str(authority.issue().both),
            "ssl.truststore.location": str(authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.security.protocol.map": "MUTUAL:SSL,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        },
    )
    users = folder / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    admin_port = free_port()
    with_acls = _server(
        folder / "with-acls",
        {"LOGIN": admin_port},
        {
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
            "bootstrap.users.file": str(users),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER}",
        },
    )
    return {
        PLAIN: _Way(server, server.port, login_port=ports["LOGIN"]),
        TLS: _Way(server, ports["SSL"], authority.client_context()),
        MUTUAL: _Way(server, ports["MUTUAL"], authority.client_context(client)),
        ACLS: _Way(with_acls, with_acls.port, login_port=admin_port),
    }


def _server(folder: Path, ports: Mapping[str, int], settings: Mapping[str, str]) -> CoterieServer:
    arguments = [
        part for each, at in ports.items() for part in ("--listen", f"{each}://{_HOST}:{at}")
    ]
    return CoterieServer(folder, settings=settings, arguments=arguments)


def _token(key: rsa.RSAPrivateKey) -> str:
    now = int(time.time())
    return jwt.encode({"sub": USER, "iat": now, "exp": now + 3_600}, key, "RS256")


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


async def _measure(
    ways: Mapping[str, _Way], token: str, scale: _Scale
) -> tuple[Mapping[str, _Figures], Mapping[str, _Figures], Mapping[str, _Figures]]:
    await _give_rights(ways[ACLS].login_port)
    await set_scram_password(ways[PLAIN].port)
    beats: dict[int, list[bytes]] = {}
    joined: list[asyncio.Transport] = []
    for way in (ways[PLAIN], ways[ACLS]):
        await asyncio.to_thread(frames.make_ready, way.port, scale.members)
        members = await connect(way.port, scale.members)
        joined += members
        beats[id(way.server)] = await _members(members)
    opened = {what: await connect(way.port, scale.members, way.tls) for what, way in ways.items()}
    heartbeats = {what: _Figures() for what in ways}
    connections = {what: _Figures() for what in ways}
    logins = {mechanism: _Figures() for mechanism in MECHANISMS}
    for turn in range(scale.rounds):
        order = list(ways)
        for what in order[turn % len(order) :] + order[: turn % len(order)]:
            way = ways[what]
            own = beats[id(way.server)]
            heartbeats[what].add(
                await keep_busy(
                    opened[what],
                    [itertools.repeat(each) for each in own],
                    pid=way.server.pid,
                    seconds=scale.seconds,
                    check=frames.check_heartbeat,
                )
            )
            connections[what].add(await _connect_anew(way, own[0], scale))
        for mechanism in MECHANISMS:
            logins[mechanism].add(await _log_in_anew(ways[PLAIN], mechanism, token, scale))
    for each in (joined, *opened.values()):
        await disconnect(each)
    return heartbeats, connections, logins


async def _members(opened: Sequence[asyncio.Transport]) -> list[bytes]:
    """Form a group; return a heartbeat of each member, which may be sent on any connection."""
    group = MemberGroup("members")
    await group.join(opened)
    return [frames.heartbeat(group.group_id, each.generation, each.id) for each in group.members]


async def _connect_anew(way: _Way, beat: bytes, scale: _Scale) -> LoadResult:
    """Open connections, have a request answered on each, and close them."""

    async def several() -> None:
        opened = await connect(way.port, _AT_A_TIME, way.tls)
        await exchange(opened, [iter([beat]) for _ in opened], frames.check_heartbeat)
        for each in opened:
            each.abort()

    return await _repeated(way.server, several, scale)


async def _log_in_anew(way: _Way, mechanism: str, token: str, scale: _Scale) -> LoadResult:
    """Open connections, log in on each, and close them."""

    async def several() -> None:
        several = (log_in(way.login_port, mechanism, token) for _ in range(_AT_A_TIME))
        await asyncio.gather(*several)

    return await _repeated(way.server, several, scale)


async def _repeated(
    server: CoterieServer, several: Callable[[], Awaitable[None]], scale: _Scale
) -> LoadResult:
    server_cpu_s, client_cpu_s = cpu_s(server.pid), time.process_time()
    began = time.perf_counter()
    for _ in range(0, scale.connections, _AT_A_TIME):
        await several()
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.1)
    return LoadResult(
        answers=-(-scale.connections // _AT_A_TIME) * _AT_A_TIME,
        seconds=seconds,
        server_cpu_s=max(cpu_s(server.pid) - server_cpu_s, _TICK_S),
        client_cpu_s=time.process_time() - client_cpu_s,
    )


def _rows(group: str, figures: Mapping[str, _Figures], plain: _Figures) -> Sequence[Row]:
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
        f"One process serves all ways in turns, another those with ACLs; {scale.rounds} rounds.",
        f"With ACLs: three that let clients do everything, and {_OTHER_ACLS} about other groups.",
        f"Heartbeats: {scale.members} members, each with one in flight.",
        f"New connections: {_AT_A_TIME} at a time, each with one heartbeat; no session is resumed.",
        f"Logins: {_AT_A_TIME} at a time without TLS, compared with new connections in PLAINTEXT.",
        "PLAIN: but for the first, the password is known to be right; OAUTHBEARER: RS256.",
        "TLS 1.3, with keys on the curve P-256.",
        "The client, also Python, shakes hands on the same machine, so rates are lower bounds.",
    )
