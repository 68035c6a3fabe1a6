"""Servers that several client processes keep busy, and what comes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.support import frames
from bench.support.client_process import ClientProcess, Crowd, busy_together
from bench.support.load import cpu_s
from bench.support.quotas import held
from bench.support.servers import Serving

__all__ = ["Crowded", "Figures", "Scale", "in_turns", "share_of_clients"]

#: Clients begin before they count, and end after it, so they get more answers than they tell of.
_BESIDES: Final = 1.1


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes and durations of a run."""

    rounds: int
    seconds: float
    clients: int
    #: Of each client process.
    groups: int
    members: int
    partitions: int
    #: Members that join a group at once in a storm.
    storm: int = 0


@dataclass(slots=True)
class Figures:
    """What came of one kind of load, by contender, round by round."""

    per_s: dict[str, list[float]] = field(default_factory=dict)
    #: Of the server, for each request, in microseconds.
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    #: The largest share of a core that a client process took.
    client_share: list[float] = field(default_factory=list)

    def add(
        self,
        name: str,
        per_s: float,
        cpu_us: float,
        told: Sequence[tuple[float, float, float]],
    ) -> None:
        """Note what came of one turn."""
        self.per_s.setdefault(name, []).append(per_s)
        self.cpu_us.setdefault(name, []).append(cpu_us)
        self.client_share.append(max(used / s for _, s, used in told))


class Crowded:
    """A server, and the processes that keep it busy."""

    def __init__(self, name: str, server: Serving, scale: Scale) -> None:
        self._name = name
        self._server = server
        self._scale = scale
        self._clients: list[ClientProcess] = []

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start the server and its clients, until the stack is closed."""
        scale = self._scale
        self._server.start()
        stack.callback(self._server.stop)
        frames.make_ready(self._server.port, scale.members * scale.partitions)
        sizes = scale.groups, scale.members, scale.partitions, scale.storm
        for number in range(scale.clients):
            client = ClientProcess(Crowd(f"crowd-{number}", self._server.port, *sizes))
            stack.callback(client.stop)
            self._clients.append(client)

    def requests(self, what: str, figures: Figures) -> None:
        """Keep the server busy, and note what came of it."""
        before_s = self._cpu_s()
        told = busy_together(self._clients, what, self._scale.seconds)
        used_s = (self._cpu_s() - before_s) / _BESIDES
        answers = sum(each[0] for each in told)
        figures.add(self._name, sum(n / s for n, s, _ in told), used_s / answers * 1e6, told)

    def storm(self, figures: Figures) -> None:
        """Let many groups form at once, and note how many members a second that makes."""
        before_s = self._cpu_s()
        told = busy_together(self._clients, "storm")
        scale = self._scale
        members = scale.clients * scale.groups * scale.storm
        used_s = self._cpu_s() - before_s
        took_s = max(seconds for _, seconds, _ in told)
        figures.add(self._name, members / took_s, used_s / members * 1e6, told)

    def held(self, share: float) -> contextlib.AbstractContextManager[None]:
        """Let each process of the server have so much of a core."""
        return held(self._server.pids, share)

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, self._server.pids))


def in_turns(
    contenders: Mapping[str, Crowded], rounds: int, take_turn: Callable[[Crowded], None]
) -> None:
    """Have all contenders take a turn in each round, each time another one first."""
    every = list(contenders.values())
    for turn in range(rounds):
        first = turn % len(every)
        for contender in every[first:] + every[:first]:
            take_turn(contender)


def share_of_clients(figures: Figures) -> str:
    """The most that one of the client processes took of a core."""
    return f"{100 * max(figures.client_share):.0f} %"
