"""Record the loads of partitions from workers of a real daemon, for the tests of assignors.

It starts `coterie serve` and a group of three members that balance loads, has them work on requests
of made-up tenants, each of which has a partition, and measures how many milliseconds of processor
time each partition takes in each second.

    python -m tools.record_loads --port 20550 tenants imports

writes tests/assignors/recorded_loads/tenants.json and imports.json, and takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import tempfile
import time
import zlib
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from coterie_assignors import CooperativeStickyAssignor, Weights
from coterie_client import Group, Partition

_FOLDER: Final = Path(__file__).resolve().parents[1] / "tests" / "assignors" / "recorded_loads"
_PARTITIONS: Final = 24
_MEMBERS: Final = 3
_SECONDS: Final = 150
#: How often each partition has a look at its requests.
_TICK_S: Final = 0.1

#: The requests of a partition, in each tick: each is a number of kilobytes to work on.
Arrivals = Iterator[list[int]]


def tenants(chance: random.Random, number: int) -> Arrivals:
    """Many small customers and a few large ones; each is busy now and then."""
    size = 3.0 / (number % 12 + 1)
    while True:
        busy = chance.choice((0.6, 1.0, 1.0, 1.8))
        for _ in range(chance.randrange(50, 200)):
            count = sum(chance.random() < size * busy / 10 for _ in range(10))
            yield [max(4, round(chance.lognormvariate(3.5, 0.8))) for _ in range(count)]


def imports(chance: random.Random, number: int) -> Arrivals:
    """A steady trickle, and every now and then a file that takes half a minute."""
    while True:
        for _ in range(chance.randrange(100, 900)):
            yield [8] if chance.random() < 0.3 + number / 100 else []
        large = chance.randrange(40, 160)
        for _ in range(chance.randrange(100, 300)):
            yield [large]


SCENARIOS: Final[dict[str, Callable[[random.Random, int], Arrivals]]] = {
    "tenants": tenants,
    "imports": imports,
}


class Recorder:
    """Works on partitions, and measures what that takes."""

    def __init__(self, scenario: str) -> None:
        make = SCENARIOS[scenario]
        self._arrivals = {
            number: make(random.Random(f"{scenario} {number}"), number)  # noqa: S311
            for number in range(_PARTITIONS)
        }
        self._spent_ms: defaultdict[int, float] = defaultdict(float)
        self._text = zlib.compress(random.Random(scenario).randbytes(512), 0) * 2  # noqa: S311
        self.series: list[list[float]] = []

    async def work(self, partition: Partition) -> None:
        """Do what comes in, and tell how much work that was."""
        since_s, spent_ms = time.monotonic(), 0.0
        while True:
            await asyncio.sleep(_TICK_S)
            for kilobytes in next(self._arrivals[partition.number]):
                took_ms = self._serve(kilobytes)
                self._spent_ms[partition.number] += took_ms
                spent_ms += took_ms
                await asyncio.sleep(0)
            now_s = time.monotonic()
            if now_s - since_s >= 1.0:
                partition.load(spent_ms / (now_s - since_s))
                since_s, spent_ms = now_s, 0.0

    def _serve(self, kilobytes: int) -> float:
        start_ns = time.thread_time_ns()
        for _ in range(max(1, kilobytes // 4)):
            zlib.decompress(zlib.compress(self._text, 6))
        return (time.thread_time_ns() - start_ns) / 1e6

    async def record(self, seconds: int) -> None:
        """Note what each second took."""
        self._spent_ms.clear()
        start_s = time.monotonic()
        for second in range(1, seconds + 1):
            await asyncio.sleep(max(0.0, start_s + second - time.monotonic()))
            self.series.append([round(self._spent_ms[n], 2) for n in range(_PARTITIONS)])
            self._spent_ms.clear()


@asynccontextmanager
async def _daemon(port: int, directory: str) -> AsyncIterator[str]:
    address = f"127.0.0.1:{port}"
    daemon: Process = await asyncio.create_subprocess_exec(
        *("coterie", "serve", "--listen", address, "--http", f"127.0.0.1:{port + 1}"),
        *("--data-dir", directory, "--topic", f"tenants:{_PARTITIONS}"),
        stdout=PIPE,
    )
    try:
        assert daemon.stdout is not None
        while line := await daemon.stdout.readline():
            if re.search(rb"\b%d\b" % port, line):
                break
        yield address
    finally:
        with suppress(ProcessLookupError):
            daemon.terminate()
        await daemon.wait()


async def _record(scenario: str, port: int, seconds: int) -> Recorder:
    recorder = Recorder(scenario)
    weights = Weights(rest=15.0, smoothing=3.0, rebalance=True, refresh=30.0)
    with tempfile.TemporaryDirectory() as directory:
        async with _daemon(port, directory) as address:
            groups = [
                Group(
                    address,
                    "recorded",
                    topics=["tenants"],
                    client_id=f"member-{number}",
                    assignors=[CooperativeStickyAssignor(weights)],
                )
                for number in range(_MEMBERS)
            ]
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(_run(group, recorder))
                await asyncio.sleep(10)  # until all have joined
                await recorder.record(seconds)
                for group in groups:
                    group.stop()
    return recorder


async def _run(group: Group, recorder: Recorder) -> None:
    async with group:
        await group.run(recorder.work)


def main() -> None:
    """Record scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, default=20550)
    parser.add_argument("--seconds", type=int, default=_SECONDS)
    parser.add_argument("--folder", type=Path, default=_FOLDER)
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for scenario in options.scenarios:
        recorder = asyncio.run(_record(scenario, options.port, options.seconds))
        rows = ",\n".join(json.dumps(row) for row in recorder.series)
        about = f"milliseconds of processor time a second, {scenario}, by tools/record_loads.py"
        path: Path = options.folder / f"{scenario}.json"
        path.write_text(
            f'{{"about": {json.dumps(about)}, "step_s": 1.0, "loads": [\n{rows}\n]}}\n',
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
