"""One of the demo's two groups: its workers' processes, and the work on its partitions."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from coterie_cli.demo.messages import Milestone, WorkerOptions, WorkEvent, WorkEventKind
from coterie_cli.demo.work_log import WorkLog

__all__ = ["NAMES", "PARTITIONS", "SESSION_S", "TOPIC", "DemoError", "DemoGroup", "Figures"]

PARTITIONS: Final = 12
TOPIC: Final = "shards"
#: The workers of the scenario.
NAMES: Final = ("ann", "ben", "cat", "dan")

#: As usual, several heartbeats fit into a session; both are short, so that people can wait for it.
_HEARTBEAT_S: Final = 0.4
SESSION_S: Final = 2.4
#: Long enough for a worker to restart in.
_STATIC_SESSION_S: Final = 10.0

#: How long a step of work takes, which differs between partitions.
_STEPS_S: Final = (0.2, 0.45, 0.7, 0.95)


class DemoError(Exception):
    """The demo can't go on; the message says why."""


# -- a worker --------------------------------------------------------------------------------------


#: Called with a worker's name and what it tells; None is the end of all that it tells.
OnEvent: TypeAlias = Callable[[str, WorkEvent | None], None]


class _WorkerProcess:
    """A worker's process, from its start to its end."""

    def __init__(self, name: str, process: Process, on_event: OnEvent) -> None:
        self._name = name
        self._process = process
        self._on_event = on_event
        #: The last line that is none of the demo's own, such as the end of a traceback.
        self.last_output = ""
        self._passed = {milestone: asyncio.Event() for milestone in Milestone}
        self._reading = asyncio.create_task(self._read(), name=f"reading from {name}")

    @classmethod
    async def start(cls, options: WorkerOptions, on_event: OnEvent) -> Self:
        """Start a process, which begins to load what it needs."""
        command = (sys.executable, "-m", "coterie_cli.demo.worker", options.to_text())
        # Errors come down the same pipe. In a session of its own, the worker does not get the
        # Ctrl-C that is meant for the demo.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        return cls(options.name, process, on_event)

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def ready(self) -> None:
        """Wait until it can join, or is gone."""
        await self._passed[Milestone.READY].wait()

    def join(self) -> None:
        """Have it join its group."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def leave(self) -> None:
        """Have it end its work, commit and leave; wait until it has, or is gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._passed[Milestone.LEFT].wait()

    async def kill(self) -> float:
        """Send SIGKILL, and return when that was."""
        if self._process.returncode is None:
            self._process.kill()
        at_s = time.monotonic()
        # Waiting may be cancelled; reading has to go on to the end.
        await asyncio.shield(self._reading)
        return at_s

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            text = line.decode(errors="replace").strip()
            event = WorkEvent.of_text(text)
            if event is not None:
                self._on_event(self._name, event)
            elif text in self._passed:
                self._passed[Milestone(text)].set()
            else:
                self.last_output = text or self.last_output
        await self._process.wait()
        for passed in self._passed.values():
            passed.set()  # none of them can come any more
        self._on_event(self._name, None)


# -- a group ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """What a span of time cost a group."""

    #: Partition-seconds in which no worker worked.
    stopped_s: float
    longest_stop_s: float
    #: How often work on a partition ended, also because its worker died.
    endings: int
    rebalances: int


class DemoGroup:
    """A group whose workers are processes of their own."""

    def __init__(
        self, kind: str, assignor: str, bootstrap: str, speed: float, *, restore_s: float = 0.0
    ) -> None:
        #: What sets it apart from the other one: `cooperative` or `eager`, `warm` or `cold`.
        self.kind = kind
        self.assignor = assignor
        self._restore_s = restore_s / speed
        #: Groups whose work needs state have the same assignor.
        self.group_id = kind if restore_s else assignor
        self.work_log = WorkLog()
        #: Why a worker has no partitions, in a word or two.
        self.status = dict.fromkeys(NAMES, "is not here yet")
        self._bootstrap = bootstrap
        self._steps_s = tuple(_STEPS_S[n % len(_STEPS_S)] / speed for n in range(PARTITIONS))
        #: All processes that were ever started, so that none is left behind when the demo is
        #: interrupted, in whatever it was doing.
        self.processes: list[_WorkerProcess] = []
        #: Those in the group, and those that have not joined yet.
        self._joined: dict[str, _WorkerProcess] = {}
        self._loaded: dict[str, _WorkerProcess] = {}
        self._rebalanced_s: list[float] = []
        self._has_changed = asyncio.Event()

    def count_rebalance(self) -> None:
        """Record that the coordinator has completed a rebalance of this group."""
        self._rebalanced_s.append(time.monotonic())

    def _on_event(self, name: str, event: WorkEvent | None) -> None:
        if event is not None:
            self.work_log.add(name, event)
            if event.kind is WorkEventKind.BEGINS:
                self.status[name] = ""
        self._has_changed.set()

    async def load(self, *names: str, is_static: bool = False) -> None:
        """Start workers that do not join yet, so that no group waits for Python to start."""
        self.status |= dict.fromkeys(names, "starts")
        for name in names:
            options = self._options(name, is_static=is_static)
            self._loaded[name] = process = await _WorkerProcess.start(options, self._on_event)
            self.processes.append(process)
        for name in names:
            await self._loaded[name].ready()

    def _options(self, name: str, *, is_static: bool) -> WorkerOptions:
        return WorkerOptions(
            bootstrap=self._bootstrap,
            group=self.group_id,
            topic=TOPIC,
            assignor=self.assignor,
            name=name,
            is_static=is_static,
            session_s=_STATIC_SESSION_S if is_static else SESSION_S,
            heartbeat_s=_HEARTBEAT_S,
            steps_s=self._steps_s,
            restore_s=self._restore_s,
            is_warm=self.kind == "warm",
        )

    async def join(self, *names: str) -> None:
        """Have workers that are loaded join."""
        for name in names:
            self._joined[name] = self._loaded.pop(name)
            if self._restore_s:
                self.status[name] = "restores state"
            self._joined[name].join()

    async def stop(self, name: str) -> None:
        """Have a worker end its work in good order, and leave."""
        self.status[name] = "stops"
        await self._joined.pop(name).leave()
        self.status[name] = "has left"

    async def kill(self, name: str) -> None:
        """Kill a worker."""
        at_s = await self._joined.pop(name).kill()
        self.work_log.end_all(name, at_s)
        self.status[name] = "was killed"

    async def close(self) -> None:
        """Kill all workers."""
        await asyncio.gather(*(process.kill() for process in self.processes))

    @property
    def is_settled(self) -> bool:
        """Whether every partition is worked on, and every worker has some, and keeps them."""
        stints = self.work_log.current.values()
        is_calm = not any(stint.is_ending for stint in stints)
        counts = Counter(stint.worker for stint in stints)
        if len(stints) < PARTITIONS or not is_calm or counts.keys() != self._joined.keys():
            return False
        # With state, a newcomer gets its share a few partitions at a time.
        return not self._restore_s or max(counts.values()) - min(counts.values()) <= 1

    async def settle(self, within_s: float) -> None:
        """Wait until the group is settled."""
        try:
            async with asyncio.timeout(within_s):
                while not self.is_settled:
                    self._raise_if_worker_ended()
                    self._has_changed.clear()
                    await self._has_changed.wait()
        except TimeoutError:
            raise DemoError(
                f"{self.group_id}: the partitions were not shared out within {within_s:g} s."
                " Is the machine very busy? Try a lower --speed."
            ) from None

    def _raise_if_worker_ended(self) -> None:
        for name, process in self._joined.items():
            if process.is_gone:
                raise DemoError(f"{self.group_id}: {name} ended by itself: {process.last_output}")

    def figures(self, from_s: float, until_s: float) -> Figures:
        """What a span of time cost."""
        stops_s = [stop.lasted_s(from_s, until_s) for stop in self.work_log.stops()]
        return Figures(
            stopped_s=round(sum(stops_s), 3),
            longest_stop_s=round(max(stops_s, default=0.0), 3),
            endings=_count_within(self.work_log.endings(), from_s, until_s),
            rebalances=_count_within(self._rebalanced_s, from_s, until_s),
        )


def _count_within(moments_s: Iterable[float], from_s: float, until_s: float) -> int:
    return sum(from_s <= at_s < until_s for at_s in moments_s)
