"""For how long groups have no coordinator: after kill -9, in a drain, with much to take over."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.support.coordinator_probe import Probe, commit_request, group_in_shard
from bench.support.measure import Effort, Figure, summary
from bench.support.report import Column, Report, Row
from tests.live.daemon import Daemon
from tests.live.wire import Wire
from tests.live.wire import run as play
from tests.support.postgres_server import missing, running_server

__all__ = ["run"]

_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench"
_TOPIC: Final = "probed"
_SHARDS: Final = 50
_NODES: Final = 3

#: The project's aims, in seconds; after a kill, besides the lease.
_KILL_AIM_S: Final = 0.5
_DRAIN_AIM_S: Final = 0.3
_LOADED_AIM_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Scale:
    rounds: int
    lease_s: float
    #: What the node that goes has, in the loaded case.
    groups: int
    partitions: int


_FULL: Final = _Scale(rounds=5, lease_s=3.0, groups=1000, partitions=100)
_QUICK: Final = _Scale(rounds=1, lease_s=3.0, groups=20, partitions=5)

_COLUMNS: Final = (
    Column("what", "groups without a coordinator"),
    Column("kill", "kill -9"),
    Column("drain", "drain"),
    Column("loaded", "drain of 1,000 groups\nwith 100,000 offsets"),
)


def run(effort: Effort) -> Report:
    """Measure several nodes on each store."""
    scale = _QUICK if effort.quick else _FULL
    _FOLDER.mkdir(parents=True, exist_ok=True)
    problem = missing()
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_FOLDER)))
        stores = {"SQLite": f"sqlite:{folder / 'coterie.db'}"}
        if problem is None:
            settings = {"fsync": "on", "shared_buffers": "128MB"}
            stores["PostgreSQL"] = stack.enter_context(
                running_server(settings, where=_FOLDER)
            ).url()
        if effort.quick:
            stores = dict([stores.popitem()])  # PostgreSQL, where there is one
        for name, url in stores.items():
            rows += [_measured(name, url, folder / name, scale)]
    notes = (
        f"{_NODES} nodes share {_SHARDS} shards; a group in each is committed to all the time.",
        "From the fault to the next commit that is acknowledged, in the group that waits longest;",
        f"the lease is {scale.lease_s:g} s, and the nodes look every 100 ms what the others do.",
        *(() if problem is None else (f"Without PostgreSQL: {problem}.",)),
    )
    return Report("Fail-over", _COLUMNS, tuple(rows), notes)


def _measured(name: str, url: str, folder: Path, scale: _Scale) -> Row:
    with _nodes(url, folder, scale) as nodes:
        kill, drain, loaded = play(_play(nodes, scale))
    return Row(
        "",
        (
            name,
            _judged(kill, scale.lease_s + _KILL_AIM_S),
            _judged(drain, _DRAIN_AIM_S),
            _judged(loaded, _LOADED_AIM_S),
        ),
    )


def _judged(waits_s: Sequence[float], aim_s: float) -> Figure:
    figure = summary(waits_s, unit="s")
    return replace(figure, reached=figure.median <= aim_s)


@contextmanager
def _nodes(url: str, folder: Path, scale: _Scale) -> Iterator[list[Daemon]]:
    """Nodes on one store, while in this context."""
    with ExitStack() as stack:
        nodes = []
        for number in range(1, _NODES + 1):
            node = Daemon(
                folder / str(number),
                settings={"node.id": number, "shard.lease.ms": round(scale.lease_s * 1000)},
                topics={_TOPIC: scale.partitions},
                environ={"PYTHONDONTWRITEBYTECODE": ""},
                arguments=("--store", url),
            )
            stack.callback(node.kill)
            node.start()
            nodes.append(node)
        yield nodes


async def _play(nodes: list[Daemon], scale: _Scale) -> tuple[list[float], list[float], list[float]]:
    groups = [group_in_shard(shard, _SHARDS) for shard in range(_SHARDS)]
    async with Probe([node.port for node in nodes], _TOPIC, groups) as probe:
        kill = [await _wait_s(probe, node, node.kill) for node in _in_turn(nodes, scale)]
        drain = [await _wait_s(probe, node, node.stop) for node in _in_turn(nodes, scale)]
        loaded = []
        for node in _in_turn(nodes, scale):
            await _until_shared(probe)
            await _load(probe, node, scale)
            loaded.append(await _wait_s(probe, node, node.stop))
    return kill, drain, loaded


def _in_turn(nodes: list[Daemon], scale: _Scale) -> list[Daemon]:
    return [nodes[turn % len(nodes)] for turn in range(scale.rounds)]


async def _wait_s(probe: Probe, node: Daemon, fault: Callable[[], object]) -> float:
    """How long groups wait for a coordinator when one node goes; it is back then."""
    await _until_shared(probe)
    at_s = time.perf_counter()
    await asyncio.to_thread(fault)
    await probe.until_served(time.perf_counter())
    waited_s = probe.longest_wait_s(at_s)
    await asyncio.to_thread(node.start)
    return waited_s


async def _until_shared(probe: Probe) -> None:
    """Wait until each node has its share, and nothing moves any more."""
    since_s = time.perf_counter()
    while time.perf_counter() - since_s < 1.0:
        probe.raise_failure()
        held = list(probe.places.values())
        counts = [held.count(port) for port in set(held)]
        is_even = len(counts) == _NODES and sum(counts) == _SHARDS and max(counts) - min(counts) < 2
        if not is_even:
            since_s = time.perf_counter()
        await asyncio.sleep(0.02)


async def _load(probe: Probe, node: Daemon, scale: _Scale) -> None:
    """Give a node its groups and offsets; anew if it loses a shard meanwhile."""
    while not await _is_loaded(probe, node, scale):
        await _until_shared(probe)


async def _is_loaded(probe: Probe, node: Daemon, scale: _Scale) -> bool:
    shards = [
        shard for shard, group in enumerate(probe.acks) if probe.places.get(group) == node.port
    ]
    wire = await Wire.open(node.port)
    with contextlib.closing(wire):
        for number in range(scale.groups):
            shard = shards[number % len(shards)]
            group = group_in_shard(shard, _SHARDS, 1 + number // len(shards))
            answer = await wire.ask(commit_request(group, _TOPIC, [number] * scale.partitions), 8)
            if answer.topics[0].partitions[0].error_code:
                return False
    return True
