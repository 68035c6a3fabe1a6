"""Two coordinators on one store, of which one is to fail at a point."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coterie_protocol.journal import Event, Line, read_line
from coterie_server.journal.segments import find_segments
from tests.ha.raw_group import find_coordinator
from tests.live.daemon import HOST, environment
from tests.live.wire import run

__all__ = ["LEASE_MS", "FailingNode", "Nodes", "running_nodes"]

LEASE_MS: Final = 1_500
#: With the catalogue of topics an even number, and few, as they move one after the other.
SHARDS: Final = 3
#: How long processes may take for anything; it only bounds a failure.
PATIENCE_S: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]
_SETTINGS: Final[Mapping[str, Any]] = {
    "shard_lease_ms": LEASE_MS,
    "shards": SHARDS,
    "group_initial_rebalance_delay_ms": 0,
}


class FailingNode:
    """A process of `failing_node.py`."""

    def __init__(self, number: int, store: str, folder: Path, topics: Mapping[str, int]) -> None:
        self.number = number
        self.folder = folder / f"node-{number}"
        self.folder.mkdir()
        self.log_path = self.folder / "log"
        options = {
            "settings": {**_SETTINGS, "node_id": number},
            "store": store,
            "data_dir": str(self.folder),
            "topics": dict(topics),
        }
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.ha.failing_node", json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
                cwd=_ROOT,
                env=environment(),
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            _, port, http_port = self._line("ready")
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        self.port, self.http_port = int(port), int(http_port)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{HOST}:{self.port}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def _line(self, word: str) -> list[str]:
        try:
            words = self._lines.get(timeout=PATIENCE_S).split()
        except queue.Empty:
            raise AssertionError(f"node {self.number}: no {word}\n{self.log()}") from None
        assert words[0] == word, words
        return words

    # -- its failure ---------------------------------------------------------------------------

    def arm(self, point: str, group: str, count: int, number: signal.Signals) -> None:
        """Have it send itself a signal when the group has come to that point."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"arm {point} {group} {count} {number.name}\n")
        self.process.stdin.flush()
        self._line("armed")

    def wait_until_hit(self) -> float:
        """Wait until it is there, and return when that was, by the monotonic clock."""
        return float(self._line("hit")[1])

    def resume(self) -> None:
        """Let it go on after SIGSTOP."""
        self.process.send_signal(signal.SIGCONT)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, if it still runs."""
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    # -- looking at it -------------------------------------------------------------------------

    def log(self) -> str:
        """What it has logged."""
        return self.log_path.read_text(errors="replace")

    def get(self, path: str) -> Any:
        """Its answer over HTTP."""
        with urllib.request.urlopen(
            f"http://{HOST}:{self.http_port}{path}", timeout=PATIENCE_S
        ) as answer:
            return json.loads(answer.read())

    def journal(self) -> list[Line]:
        """What it has written down; the last line may be torn if it was killed."""
        found = []
        for _, _, path in find_segments(self.folder / "journal"):
            *whole, _ = path.read_text(encoding="utf-8").split("\n")
            found += [read_line(text) for text in whole]
        return found

    def events(self, group: str) -> list[Event]:
        """What it has written down about a group."""
        return [line.event for line in self.journal() if line.event.group == group]


class Nodes:
    """The two, which share the shards evenly."""

    def __init__(self, both: tuple[FailingNode, FailingNode]) -> None:
        self.both = both

    @property
    def address(self) -> str:
        """Where clients begin."""
        return ",".join(node.address for node in self.both)

    @property
    def ports(self) -> tuple[int, ...]:
        """As `address`."""
        return tuple(node.port for node in self.both)

    def wait_until_shared(self) -> None:
        """Wait until each has its share of the shards, and both say so."""
        run(self._until_shared())

    async def _until_shared(self) -> None:
        names = self._one_of_each_shard()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = [
                    [await find_coordinator([port], name) for name in names] for port in self.ports
                ]
                if told[0] == told[1] and min(map(told[0].count, self.ports)) >= SHARDS // 2:
                    return
                await asyncio.sleep(0.1)

    def _one_of_each_shard(self) -> list[str]:
        names: dict[int, str] = {}
        for number in range(100 * SHARDS):
            name = f"g{number}"
            names.setdefault(zlib.crc32(name.encode()) % SHARDS, name)
        assert len(names) == SHARDS
        return list(names.values())

    def group_on(self, node: FailingNode) -> str:
        """The name of a group that this node would coordinate."""

        async def find() -> str:
            for name in self._one_of_each_shard():
                if await find_coordinator([node.port], name) == node.port:
                    return name
            raise AssertionError(f"node {node.number} has no shard")

        return run(find())

    def group(self, group_id: str) -> dict[str, Any]:
        """A group as the node shows it that has it; an `OSError` if there is none."""
        for node in self.both:
            with contextlib.suppress(OSError):
                shown: dict[str, Any] = node.get(f"/v1/groups/{group_id}")
                return shown
        raise OSError(f"no node has {group_id}")


@contextlib.contextmanager
def running_nodes(store: str, folder: Path, topics: Mapping[str, int]) -> Iterator[Nodes]:
    """Both of them, while in this context; what they log must be free of bugs."""
    started: list[FailingNode] = []
    try:
        first = FailingNode(1, store, folder, topics)
        started.append(first)
        second = FailingNode(2, store, folder, topics)
        started.append(second)
        yield Nodes((first, second))
    finally:
        for node in started:
            node.end(signal.SIGKILL)
