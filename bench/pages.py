"""How long requests about very many groups keep a node from serving other clients.

The server runs in this process and is filled through its cores; requests come from another process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from typing import Any, Final

import structlog

from bench.support.measure import Effort
from bench.support.report import Column, Report, Row
from coterie_protocol import encode_request
from coterie_protocol import messages as m
from coterie_server import daemon
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.support.requests import Asked

__all__ = ["run"]

_MEMBER_BYTES: Final = 100
_TOPICS: Final = 1000
#: Reads requests from its input, sends them, and prints the size of each answer.
_CLIENT: Final = """
import socket, sys, urllib.request
for line in sys.stdin:
    how, where, what = line.split()
    if how == "page":
        with urllib.request.urlopen(what) as answer:
            size = len(answer.read())
    else:
        with socket.create_connection(("127.0.0.1", int(where))) as s:
            s.sendall(bytes.fromhex(what))
            f = s.makefile("rb")
            size = len(f.read(int.from_bytes(f.read(4))))
    print(size, flush=True)
"""


class Watch:
    """Measures how long each turn of the event loop takes."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._before_s = time.perf_counter()
        self._turn()

    def _turn(self) -> None:
        now_s = time.perf_counter()
        self.longest_s = max(self.longest_s, now_s - self._before_s)
        self._before_s = now_s
        self._next = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> float:
        """Return the milliseconds of the longest turn."""
        self._next.cancel()
        return self.longest_s * 1000


class Client:
    """A process that sends requests."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Client:
        """Start the process."""
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CLIENT, stdin=pipe, stdout=pipe
        )
        return cls(started)

    async def measure(self, name: str, *words: str) -> Row:
        """Send a request and measure what it takes."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        gc.collect()
        watch, began_s = Watch(), time.perf_counter()
        process.stdin.write(f"{' '.join(words)}\n".encode())
        size_bytes = int(await process.stdout.readline())
        took_s, longest_ms = time.perf_counter() - began_s, watch.stop()
        return Row("", (name, f"{took_s * 1000:.0f}", f"{size_bytes:,}", f"{longest_ms:.0f}"))

    async def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


def _group_name(number: int) -> str:
    return f"group-{number:08}"


def _fill(server: Server, groups: int, members: int) -> None:
    now_ms = server.clock.now_ms()
    # Without the wire, which would take much longer.
    for number in range(groups):
        group_id = _group_name(number)
        coordinator = server.node.coordinator(group_id)
        assert coordinator is not None
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
        message = m.OffsetCommitRequest(
            group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
        )
        coordinator.handle(Asked(message, 7, "bench"), now_ms)
    coordinator = server.node.coordinator("large")
    assert coordinator is not None
    for number in range(members):
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=bytes(_MEMBER_BYTES))
        join = m.JoinGroupRequest(
            group_id="large",
            session_timeout_ms=1_000_000,
            rebalance_timeout_ms=1_000_000,
            member_id="",
            group_instance_id=f"worker-{number}",
            protocol_type="bench",
            protocols=(protocol,),
        )
        coordinator.handle(Asked(join, 5, "bench"), now_ms)


async def _bench(groups: int, members: int) -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    options = ServerOptions(
        settings=Settings(max_groups=groups + 1),
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        http=Address("127.0.0.1", 0),
        topics={"t": 1},
    )
    async with Server(options) as server:
        _fill(server, groups, members)
        base, port = f"http://{server.http_address}", str(server.address.port)
        client = await Client.start()
        paths = (
            "/healthz",
            "/v1/groups",
            "/v1/groups?limit=10000",
            "/v1/groups?limit=100&order=flapping",
            "/v1/groups?limit=100&order=recent&q=99",
            "/v1/groups?format=jsonl",
            "/v1/groups/large",
            "/metrics",
        )
        rows = [await client.measure(path, "page", "-", base + path) for path in paths]
        for name, message, version in _requests(groups):
            frame = encode_request(message, version, 1, "bench").hex()
            rows.append(await client.measure(name, "request", port, frame))
        await client.stop()
    return rows


def _requests(groups: int) -> list[tuple[str, Any, int]]:
    """Requests, by name and with their versions; the last one deletes the groups."""
    names = tuple(map(_group_name, range(groups)))
    fetched = tuple(m.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names)
    topics = tuple(
        m.CreatableTopic(
            name=f"topic-{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        for number in range(_TOPICS)
    )
    return [
        ("ListGroups", m.ListGroupsRequest(), 4),
        ("DescribeGroups of the large", m.DescribeGroupsRequest(groups=("large",)), 5),
        ("DescribeGroups of all others", m.DescribeGroupsRequest(groups=names), 5),
        ("OffsetFetch of all others", m.OffsetFetchRequest(groups=fetched), 8),
        (f"CreateTopics of {_TOPICS}", m.CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5),
        ("Metadata of all topics", m.MetadataRequest(topics=None), 9),
        ("DeleteGroups of all others", m.DeleteGroupsRequest(groups_names=names), 2),
    ]


def run(effort: Effort) -> Report:
    """Send each request once."""
    groups, members = (500, 50) if effort.quick else (100_000, 10_000)
    before, thresholds = structlog.get_config(), gc.get_threshold()
    daemon.collect_garbage_rarely()  # as in production
    try:
        rows = asyncio.run(_bench(groups, members))
    finally:
        structlog.configure(**before)
        gc.set_threshold(*thresholds)
    return Report(
        title=f"Requests about {groups:,} groups, and about one of {members:,} members",
        columns=(
            Column("view", "Request"),
            Column("took_ms", "Took, ms"),
            Column("size_bytes", "Bytes"),
            Column("standstill_ms", "Others waited, ms"),
        ),
        rows=tuple(rows),
        notes=("Others waited: the longest turn of the event loop.",),
    )
