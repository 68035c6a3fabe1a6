"""A client process of the workers' benchmark: one alone would be busier than two workers."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

import uvloop

from bench.support import frames
from bench.support.load import LoadResult, connect, disconnect, keep_busy
from bench.support.members import MemberGroup
from bench.support.servers import more_files

__all__ = ["ClientProcess", "Crowd", "busy_together"]

#: The number of different commits that each member repeats.
_COMMITS: Final = 16
#: Of so many names, each node has some.
_NAMES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Crowd:
    """The members of one client process."""

    name: str
    #: The port that all workers share.
    port: int
    groups: int
    #: Members of each group, and the partitions of each member.
    members: int
    partitions: int
    #: Members that join a group at once in a storm.
    storm: int


class ClientProcess:
    """A process with a crowd of members, as the benchmark sees it."""

    def __init__(self, crowd: Crowd) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, its = context.Pipe()
        self._process = context.Process(target=_live, args=(crowd, its), daemon=True)
        self._process.start()
        self._expect()

    def ask(self, what: str, seconds: float = 0.0) -> None:
        """Have it begin something."""
        self._pipe.send((what, seconds))

    def answer(self) -> tuple[float, float, float]:
        """Answers, seconds, and its own processor time of what it was asked to do."""
        return self._expect()

    def _expect(self) -> tuple[float, float, float]:
        problem, answers, seconds, cpu_s = self._pipe.recv()
        if problem:
            raise RuntimeError(f"a client process failed: {problem}")
        return float(answers), float(seconds), float(cpu_s)

    def stop(self) -> None:
        """End it."""
        self._pipe.send(("stop", 0.0))
        self._process.join()


def busy_together(
    clients: Sequence[ClientProcess], what: str, seconds: float = 0.0
) -> list[tuple[float, float, float]]:
    """Have all clients do something at the same time; return what each of them says of it."""
    for client in clients:
        client.ask(what, seconds)
    return [client.answer() for client in clients]


def _live(crowd: Crowd, pipe: Connection) -> None:
    more_files()
    try:
        uvloop.run(_Members(crowd).live(pipe))
    except Exception as error:  # noqa: BLE001  # the benchmark shows it
        pipe.send((repr(error), 0, 0.0, 0.0))


class _Members:
    """The groups of one process."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._transports: list[asyncio.Transport] = []
        self._heartbeats: list[bytes] = []
        self._commits: list[list[bytes]] = []
        self._storms = itertools.count()

    async def live(self, pipe: Connection) -> None:
        """Form the groups, then do what is asked."""
        for name, port in self._evenly(self._crowd.name):
            await self._form(name, port)
        pipe.send(("", 0, 0.0, 0.0))
        while True:
            what, seconds = await asyncio.to_thread(pipe.recv)
            began_s = time.process_time()
            if what == "heartbeats":
                load = await self._busy(map(itertools.repeat, self._heartbeats), seconds)
            elif what == "commits":
                load = await self._busy(map(itertools.cycle, self._commits), seconds)
            elif what == "storm":
                took_s = await self._storm()
                pipe.send(("", 1, took_s, time.process_time() - began_s))
                continue
            else:
                return
            pipe.send(("", load.answers, load.seconds, load.client_cpu_s))

    async def _form(self, name: str, port: int) -> None:
        crowd = self._crowd
        transports = await connect(port, crowd.members)
        group = MemberGroup(name)
        await group.join(transports)
        self._transports += transports
        for number, member in enumerate(group.members):
            who = (name, member.generation, member.id)
            mine = range(number * crowd.partitions, (number + 1) * crowd.partitions)
            self._heartbeats.append(frames.heartbeat(*who))
            self._commits.append([frames.commit(*who, mine, offset) for offset in range(_COMMITS)])

    def _evenly(self, prefix: str) -> list[tuple[str, int]]:
        """Names of groups, and the ports of their coordinators, of which none has more than others.

        As names come, one of two has ten of sixteen, and a storm takes as long as that one.
        """
        port, count = self._crowd.port, self._crowd.groups
        given = dict.fromkeys(frames.nodes(port), 0)
        each = -(-count // len(given))
        found = []
        for number in range(_NAMES_MAX):
            name = f"{prefix}-{number}"
            coordinator = frames.coordinator_of(port, name)
            if given[coordinator] < each:
                given[coordinator] += 1
                found.append((name, coordinator))
            if len(found) == count:
                return found
        raise AssertionError(f"of {_NAMES_MAX} groups, nodes had none: {given}")

    async def _busy(
        self, sent: map[itertools.repeat[bytes]] | map[itertools.cycle[bytes]], seconds: float
    ) -> LoadResult:
        return await keep_busy(self._transports, list(sent), pid=os.getpid(), seconds=seconds)

    async def _storm(self) -> float:
        """Let many members join each of many new groups, all at once."""
        number = next(self._storms)
        chosen = self._evenly(f"{self._crowd.name}-storm-{number}")
        opened = [await connect(port, self._crowd.storm) for _, port in chosen]
        groups = [MemberGroup(name) for name, _ in chosen]
        began_s = time.perf_counter()
        await asyncio.gather(*(group.join(its) for group, its in zip(groups, opened, strict=True)))
        took_s = time.perf_counter() - began_s
        for group, its in zip(groups, opened, strict=True):
            await group.leave()
            await disconnect(its)
        return took_s
